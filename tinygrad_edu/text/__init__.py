"""Text, and how it becomes numbers: corpora and tokenizers.

    corpus = text.load_corpus("python-docs")
    tokenizer = text.CharTokenizer.from_text(corpus.text)
    ids = tokenizer.encode("import this")
    tokenizer.decode(ids)

The room stands apart: it knows strings, files and NumPy, and nothing of tensors or models.
"""

from tinygrad_edu.text.characters import CharTokenizer
from tinygrad_edu.text.corpora import Corpus, check_learnable, corpus_names, load_corpus
from tinygrad_edu.text.errors import CorpusError, TokenizerError
from tinygrad_edu.text.grammar import Grammar
from tinygrad_edu.text.ngrams import NGramModel, Yardsticks, yardsticks

__all__ = [
    "CharTokenizer",
    "Corpus",
    "CorpusError",
    "Grammar",
    "NGramModel",
    "TokenizerError",
    "Yardsticks",
    "check_learnable",
    "corpus_names",
    "load_corpus",
    "yardsticks",
]
