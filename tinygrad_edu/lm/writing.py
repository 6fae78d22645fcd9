"""The text of tokens that come one by one: whole characters only, and nothing of a stop string."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tinygrad_edu import text
from tinygrad_edu.lm.errors import SamplingError

END_OF_TEXT = "<|endoftext|>"
"""The special token that ends a text, as GPT-2 has it."""


class StopStrings:
    """Lets text through until one of some strings is complete; of that string nothing gets out.

    The strings may come in pieces of any kind: what may be the beginning of one is held back until
    it is known. The text that gets out depends on the whole text only, not on its pieces.

        stop = StopStrings(["END"])
        stop.feed("the E"), stop.feed("NDing"), stop.reached     # "the ", "", True

    Args:
        strings: the first of them to be complete ends the text; of those complete at the same
            symbol, the longest.

    Raises:
        SamplingError: an empty string, which would be complete before anything is written.
    """

    def __init__(self, strings: Sequence[str] = ()) -> None:
        if isinstance(strings, str):
            strings = (strings,)
        if "" in strings:
            raise SamplingError("a stop string is empty; give a text, such as '\\n'")
        self._strings = tuple(strings)
        self._held = ""
        self.reached = False

    def feed(self, piece: str) -> str:
        """What of the text so far may be shown now and was not before."""
        if self.reached:
            return ""
        self._held += piece
        found = [
            (start + len(string), start)
            for string in self._strings
            if (start := self._held.find(string)) >= 0
        ]
        if found:
            self.reached = True
            shown, self._held = self._held[: min(found)[1]], ""
            return shown
        safe = len(self._held) - self._begun()
        shown, self._held = self._held[:safe], self._held[safe:]
        return shown

    def flush(self) -> str:
        """What was held back, where the text ends without a stop string."""
        held, self._held = self._held, ""
        return held

    def _begun(self) -> int:
        """How many of the last symbols may begin a stop string."""
        return max(
            (
                length
                for string in self._strings
                for length in range(1, len(string))
                if self._held.endswith(string[:length])
            ),
            default=0,
        )


def pieces(
    tokenizer: text.Tokenizer, ids: Iterable[int], stops: StopStrings
) -> Iterator[str]:
    """The text of ids as they come, until a stop string or the tokenizer's end of text.

    Where it ends so, no further id is asked for.
    """
    decoder, end = tokenizer.stream(), end_of_text(tokenizer)
    for token in ids:
        if token == end:
            break
        if shown := stops.feed(decoder.feed(token)):
            yield shown
        if stops.reached:
            return
    rest = stops.feed(decoder.flush()) + stops.flush()
    if rest:
        yield rest


def end_of_text(tokenizer: text.Tokenizer) -> int | None:
    """The id of the token that ends a text; None where there is none."""
    if isinstance(tokenizer, text.BPETokenizer):
        return tokenizer.special_tokens.get(END_OF_TEXT)
    return None
