"""Talking with a model that was fine-tuned on conversations."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np

from tinygrad_edu import text
from tinygrad_edu.lm.chat_template import END, check_tokenizer, prompt
from tinygrad_edu.lm.conversations import Message
from tinygrad_edu.lm.data import Tokens, stream
from tinygrad_edu.lm.errors import SamplingError
from tinygrad_edu.lm.language_model import LanguageModel
from tinygrad_edu.lm.sampling import SamplingOptions, continuations
from tinygrad_edu.lm.trained import Trained
from tinygrad_edu.lm.writing import StopStrings, pieces


def answer(
    model: LanguageModel,
    tokenizer: text.Tokenizer,
    ids: Tokens,
    max_new_tokens: int,
    options: SamplingOptions,
    generator: np.random.Generator,
) -> Iterator[str]:
    """The text that follows the prompt `ids` (n,), piece by piece, up to the template's end."""
    predict, size = model.predictor(), tokenizer.vocab_size
    new = continuations(
        lambda ids: predict(ids)[:, :size],
        ids[None, :],
        max_new_tokens=max_new_tokens,
        block_size=model.config.block_size,
        options=options,
        generator=generator,
    )
    return pieces(tokenizer, (int(column[0]) for column in new), StopStrings([END]))


class Chat:
    """A conversation with a model, which remembers what was said as far as its block reaches.

    Of a conversation that is longer the oldest exchanges are forgotten, a question with its answer
    each, until a quarter of the block is left for the answer; what the system said stays.

    Args:
        trained: as `load_trained` gives it.
        system: what the model is told beforehand.
        options: how tokens are drawn.
        seed: of the random numbers.
        max_new_tokens: of an answer.

    Attributes:
        messages: what was said and is not forgotten.
        forgotten: exchanges that are.
    """

    def __init__(
        self, trained: Trained, system: str = "", options: SamplingOptions | None = None,
        seed: int = 1, max_new_tokens: int = 200,
    ) -> None:  # fmt: skip
        check_tokenizer(trained.tokenizer)
        self.trained = trained
        self.options = SamplingOptions(temperature=0.0) if options is None else options
        self.seed, self.max_new_tokens = seed, max_new_tokens
        self._beginning = [Message("system", system)] if system else []
        self.messages = list(self._beginning)
        self.forgotten = 0
        self._turn = 0

    def reset(self) -> None:
        """Forget everything but what the system said."""
        self.messages, self.forgotten = list(self._beginning), 0

    def reply(self, content: str) -> Generator[str, None, None]:
        """The answer to what the user says, piece by piece; both are remembered at its end. Of an
        answer that is stopped (`close()`, Ctrl-C) what was given is, unless that is nothing.

        Raises:
            TokenizerError: a symbol that the vocabulary lacks.
            ConversationError: a line of it is a marker of the template.
            SamplingError: it alone is too long for the block. Nothing is remembered then.
        """
        messages = [*self.messages, Message("user", content)]
        ids = prompt(self.trained.tokenizer, messages)
        room = self.trained.model.config.block_size * 3 // 4
        first = len(self._beginning)
        forgotten = 0
        while len(ids) > room and len(messages) > first + 1:
            del messages[first : first + 2]
            forgotten += 1
            ids = prompt(self.trained.tokenizer, messages)
        if len(ids) > room:
            raise SamplingError(
                f"that is {len(ids)} tokens with what is around it, and this model's block leaves "
                f"{room} for a question; say it shorter"
            )
        generator = stream(self.seed, "samples", self._turn)
        new = answer(
            self.trained.model, self.trained.tokenizer, ids, self.max_new_tokens, self.options,
            generator,
        )  # fmt: skip

        def told() -> Generator[str, None, None]:
            said = ""
            try:
                for piece in new:
                    said += piece
                    yield piece
            except (GeneratorExit, KeyboardInterrupt):
                if said:
                    self._remember([*messages, Message("assistant", said)], forgotten)
                raise
            self._remember([*messages, Message("assistant", said)], forgotten)

        return told()

    def _remember(self, messages: list[Message], forgotten: int) -> None:
        self.messages = messages
        self.forgotten += forgotten
        self._turn += 1
