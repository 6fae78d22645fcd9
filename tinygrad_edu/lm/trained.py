"""A trained model taken from its run folder, ready to write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_edu import text
from tinygrad_edu.lm import checkpoint, shipped
from tinygrad_edu.lm.config import TrainConfig
from tinygrad_edu.lm.data import stream
from tinygrad_edu.lm.errors import RunError, SamplingError
from tinygrad_edu.lm.huggingface import load_huggingface
from tinygrad_edu.lm.language_model import LanguageModel
from tinygrad_edu.lm.learner import new_model
from tinygrad_edu.lm.material import opening
from tinygrad_edu.nn import StateDictError


@dataclass(frozen=True)
class Trained:
    """What a run folder holds, in memory."""

    config: TrainConfig
    tokenizer: text.Tokenizer
    model: LanguageModel

    def write(
        self,
        prompt: str,
        max_new_tokens: int,
        temperature: float = 0.8,
        top_k: int | None = None,
        seed: int = 1,
    ) -> Iterator[str]:
        """Yield what follows `prompt`, symbol by symbol; one seed, one text.

        An empty prompt begins as the samples of its training did (`material.opening`). What is
        given is checked at once; whether the model's logits are finite, with the first symbol.

        Raises:
            TokenizerError: the prompt has a symbol that the model never saw; it is named.
            SamplingError: an option out of range, or a model that diverged.
        """
        if seed < 0:
            raise SamplingError(f"the seed is {seed}; it must be 0 or more")
        ids = self.tokenizer.encode_array(prompt or opening(self.tokenizer))[None, :]
        generator = stream(seed, "samples")
        new = self.model.stream(ids, max_new_tokens, temperature, top_k, generator)
        return _pieces(self.tokenizer, new)


def _pieces(tokenizer: text.Tokenizer, new: Iterable[Any]) -> Iterator[str]:
    """The text of ids as they come, whole characters only."""
    stream = tokenizer.stream()
    for ids in new:
        piece = "".join(map(stream.feed, ids.tolist()))
        if piece:
            yield piece
    rest = stream.flush()
    if rest:
        yield rest


def _from_huggingface(folder: Path) -> Trained:
    model = load_huggingface(folder)
    sizes = model.config
    config = TrainConfig(
        block_size=sizes.block_size, num_layers=sizes.num_layers, num_heads=sizes.num_heads,
        embed_dim=sizes.embed_dim, tokenizer=str(folder), corpus=(str(folder),),
    )  # fmt: skip
    tokenizer = text.load_tokenizer(folder)
    if tokenizer.vocab_size > sizes.vocab_size:
        raise RunError(
            f"{folder}: the tokenizer has {tokenizer.vocab_size} tokens, the model "
            f"{sizes.vocab_size}; they do not belong together"
        )
    return Trained(config, tokenizer, model)


def load_trained(run: str | Path) -> Trained:
    """The model of a run folder, with the weights of its newest checkpoint, or one that is shipped.

    A folder in Hugging Face's layout (`config.json` of a GPT-2, with its tokenizer) is one as well.
    The name of a shipped model (`lm.shipped.names()`) means that model; to mean a folder of that
    name, write `./grammar`.

    Raises:
        RunError: no run there, or weights that do not fit its config and tokenizer.
        TokenizerError: its tokenizer.json cannot be read.
    """
    known = shipped.names()
    if str(run) in known:
        run = shipped.folder(str(run))
    elif not Path(run).exists():
        raise RunError(
            f"{run} is not a run folder, nor a model that comes with the package "
            f"({', '.join(known)}); give a folder that `tinygrad-edu train` made"
        )
    run = Path(run)
    if (run / "config.json").exists() and not (run / checkpoint.CONFIG).exists():
        return _from_huggingface(run)
    config = checkpoint.read_config(run)
    tokenizer = text.load_tokenizer(run / checkpoint.TOKENIZER)
    stored = checkpoint.read_arrays(run / checkpoint.MODEL)
    weights = {name: array.astype(np.float32) for name, array in stored.items()}
    model = new_model(config, tokenizer.vocab_size, np.random.default_rng(0))
    try:
        model.load_state_dict(weights)
    except StateDictError as error:
        raise RunError(f"{run / checkpoint.MODEL} does not fit the run: {error}") from error
    model.eval()
    return Trained(config, tokenizer, model)
