"""What can go wrong with a text or a tokenizer: what was given, what was expected, what to do."""

from __future__ import annotations


class CorpusError(ValueError):
    """A text that cannot be read, or that nothing can be learnt from."""


class TokenizerError(ValueError):
    """A symbol, an id or a file that a tokenizer does not know."""


class PreparationError(ValueError):
    """A text that cannot be prepared into a folder, or a folder that holds no prepared text."""
