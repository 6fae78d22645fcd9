"""Text, and how it becomes numbers: corpora and tokenizers.

    corpus = text.load_corpus("python-docs")
    tokenizer = text.CharTokenizer.from_text(corpus.text)
    ids = tokenizer.encode("import this")
    tokenizer.decode(ids)

The room stands apart: it knows strings, files and NumPy, and nothing of tensors or models.
"""

from tinygrad_edu.text.bpe import BPETokenizer, StreamDecoder
from tinygrad_edu.text.bpe_files import load_gpt2, load_tiktoken, save_gpt2, save_tiktoken
from tinygrad_edu.text.bpe_training import train_bpe
from tinygrad_edu.text.characters import CharTokenizer
from tinygrad_edu.text.corpora import Corpus, check_learnable, corpus_names, load_corpus
from tinygrad_edu.text.errors import CorpusError, TokenizerError
from tinygrad_edu.text.grammar import Grammar
from tinygrad_edu.text.ngrams import NGramModel, Yardsticks, yardsticks
from tinygrad_edu.text.tokenizers import Tokenizer, load_tokenizer

__all__ = [
    "BPETokenizer",
    "CharTokenizer",
    "Corpus",
    "CorpusError",
    "Grammar",
    "NGramModel",
    "StreamDecoder",
    "Tokenizer",
    "TokenizerError",
    "Yardsticks",
    "check_learnable",
    "corpus_names",
    "load_corpus",
    "load_gpt2",
    "load_tiktoken",
    "load_tokenizer",
    "save_gpt2",
    "save_tiktoken",
    "train_bpe",
    "yardsticks",
]
