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
from tinygrad_edu.text.character_files import save_word_level
from tinygrad_edu.text.characters import CharTokenizer
from tinygrad_edu.text.corpora import (
    Corpus,
    check_learnable,
    corpus_names,
    load_corpus,
    source_of,
)
from tinygrad_edu.text.errors import CorpusError, PreparationError, TokenizerError
from tinygrad_edu.text.grammar import Grammar
from tinygrad_edu.text.ngrams import NGramModel, Yardsticks, yardsticks
from tinygrad_edu.text.preparing import (
    Preparation,
    Prepared,
    is_prepared,
    prepare,
    read_prepared,
)
from tinygrad_edu.text.token_files import TokenFile, open_tokens
from tinygrad_edu.text.tokenizers import Tokenizer, load_tokenizer

__all__ = [
    "BPETokenizer",
    "CharTokenizer",
    "Corpus",
    "CorpusError",
    "Grammar",
    "NGramModel",
    "Preparation",
    "PreparationError",
    "Prepared",
    "StreamDecoder",
    "TokenFile",
    "Tokenizer",
    "TokenizerError",
    "Yardsticks",
    "check_learnable",
    "corpus_names",
    "is_prepared",
    "load_corpus",
    "load_gpt2",
    "load_tiktoken",
    "load_tokenizer",
    "open_tokens",
    "prepare",
    "read_prepared",
    "save_gpt2",
    "save_tiktoken",
    "save_word_level",
    "source_of",
    "train_bpe",
    "yardsticks",
]
