"""A trained model taken from its run folder, ready to write."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu import nn, text
from tinygrad_edu.files import write_atomically
from tinygrad_edu.lm import checkpoint, shipped
from tinygrad_edu.lm.adapters import base_digest
from tinygrad_edu.lm.config import TrainConfig
from tinygrad_edu.lm.errors import RunError
from tinygrad_edu.lm.finetune_config import FinetuneConfig
from tinygrad_edu.lm.glassllm import load_glassllm
from tinygrad_edu.lm.glassllm_tokenizer import MODELS, load_glass_tokenizer
from tinygrad_edu.lm.gpt import GPT, GPTConfig
from tinygrad_edu.lm.huggingface import load_huggingface
from tinygrad_edu.lm.language_model import LanguageModel
from tinygrad_edu.lm.learner import new_model
from tinygrad_edu.lm.llama import Llama, LlamaConfig
from tinygrad_edu.lm.material import opening
from tinygrad_edu.lm.safetensors_files import Arrays, read_json
from tinygrad_edu.lm.sampling import Predict, SamplingOptions, continuations, sample_generators
from tinygrad_edu.lm.writing import StopStrings, pieces
from tinygrad_edu.nn import StateDictError

MODEL_CONFIG = "model.json"
"""The sizes of a fine-tuned model, whose base may have parts that no run of ours has."""


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
        *,
        options: SamplingOptions | None = None,
        stop: Sequence[str] = (),
        sample: int = 0,
        cache: bool = True,
    ) -> Iterator[str]:
        """Yield what follows `prompt`, piece by piece; one seed, one text.

        An empty prompt begins as the samples of its training did (`material.opening`). The text
        ends after `max_new_tokens`, before the first of the `stop` strings, of which nothing is
        shown, or at the tokenizer's `<|endoftext|>`. What is given is checked at once; whether the
        model's logits are finite, with the first piece.

        Args:
            prompt: of one longer than the block the model sees the end (see `unseen`).
            max_new_tokens: tokens, not characters.
            temperature: see `SamplingOptions`.
            top_k: see `SamplingOptions`.
            seed: of the random numbers.
            options: stand in the place of `temperature` and `top_k`.
            stop: strings that end the text; they may begin and end within tokens.
            sample: the number of the text, from 0: each draws numbers of its own.
            cache: keep keys and values of the tokens before, rather than work them out at each
                token: faster, and the same up to rounding.

        Raises:
            TokenizerError: the prompt has symbols that the model never saw; they are named.
            SamplingError: an option out of range, or a model that diverged.
        """
        generator = sample_generators(seed, sample + 1)[sample]
        if options is None:
            options = SamplingOptions(temperature, top_k)
        stops = StopStrings(stop)
        new = continuations(
            self.predictor(cache),
            self._ids(prompt)[None, :],
            max_new_tokens=max_new_tokens,
            block_size=self.config.block_size,
            options=options,
            generator=generator,
        )
        return pieces(self.tokenizer, (int(ids[0]) for ids in new), stops)

    def unseen(self, prompt: str) -> int:
        """How many tokens of a prompt lie too far back for the model to see.

        Raises:
            TokenizerError: as `write`.
        """
        return max(0, len(self._ids(prompt)) - self.config.block_size)

    def predictor(self, cache: bool = True) -> Predict:
        """Ids (B, T) to the logits (B, V) of the next token, V being the tokenizer's.

        (A model may have logits beyond it, where its size was rounded up: they stand for nothing.)
        """
        predict = self.model.predictor(cache=cache)
        size = self.tokenizer.vocab_size
        return lambda ids: predict(ids)[:, :size]

    def token_bytes(self) -> NDArray[np.int64]:
        """(V,): how many bytes each token is, in UTF-8."""
        count = self.tokenizer.vocab_size
        return np.array([len(self.tokenizer.token_bytes(i)) for i in range(count)])

    def _ids(self, prompt: str) -> NDArray[np.int64]:
        return self.tokenizer.encode_array(prompt or opening(self.tokenizer))


def _from_huggingface(folder: Path) -> Trained:
    model = load_huggingface(folder)
    tokenizer = text.load_tokenizer(folder)
    size = model.config.vocab_size
    if tokenizer.vocab_size > size:
        raise RunError(
            f"{folder}: the tokenizer has {tokenizer.vocab_size} tokens, the model {size}; they do "
            "not belong together"
        )
    return Trained(_options_of(model, str(folder)), tokenizer, model)


def _from_glassllm(name: str) -> Trained:
    model, tokenizer = load_glassllm(MODELS[name]), load_glass_tokenizer(MODELS[name])
    # It is no class of `text`, as it only passes on to another package's; its methods are the same.
    return Trained(_options_of(model, name), cast(text.Tokenizer, tokenizer), model)


def _options_of(model: LanguageModel, name: str) -> TrainConfig:
    """The options that a model of others would have had in a run here, as far as there are any."""
    sizes = model.config
    of_llama: dict[str, Any] = {}
    if isinstance(sizes, LlamaConfig):
        of_llama = {
            "architecture": "llama", "num_kv_heads": sizes.num_kv_heads,
            "hidden_dim": sizes.hidden_dim, "tied_head": sizes.tied_head,
        }  # fmt: skip
    return TrainConfig(
        block_size=sizes.block_size, num_layers=sizes.num_layers, num_heads=sizes.num_heads,
        embed_dim=sizes.embed_dim, tokenizer=name, corpus=(name,), **of_llama,
    )  # fmt: skip


def load_trained(run: str | Path) -> Trained:
    """The model of a run folder, with the weights of its newest checkpoint, or one that is shipped.

    A folder in Hugging Face's layout (`config.json` of a GPT-2 or Llama, with its tokenizer) is one
    as well. The name of a shipped model (`lm.shipped.names()`) means that model, `glassllm-en` and
    `glassllm-pt` those inside the package `glassllm`; to mean a folder of that name, write
    `./grammar`.

    Raises:
        RunError: no run there, or weights that do not fit its config and tokenizer.
        TokenizerError: its tokenizer.json cannot be read.
    """
    known = shipped.names()
    if str(run) in MODELS:
        return _from_glassllm(str(run))
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
    stored = _stored(run)
    weights = {name: array.astype(np.float32) for name, array in stored.items()}
    try:
        if isinstance(config, FinetuneConfig) and config.lora_rank:
            model = _with_adapters(run, config, weights)
        else:
            model = _empty_model(run, config, tokenizer)
            model.load_state_dict(weights)
    except (StateDictError, ValueError) as error:
        if isinstance(error, RunError):
            raise
        raise RunError(f"{run / checkpoint.MODEL} does not fit the run: {error}") from error
    model.eval()
    return Trained(config, tokenizer, model)


def _stored(run: Path) -> Arrays:
    """What is in a run's model.safetensors; where it is damaged, the error says what is whole."""
    path = run / checkpoint.MODEL
    try:
        return checkpoint.read_arrays(path)
    except RunError as error:
        kept = sorted((run / checkpoint.CHECKPOINTS).glob(f"step-*/{checkpoint.MODEL}"))
        if not kept:
            raise
        raise RunError(
            f"{error}; a checkpoint keeps weights of its own: copy {kept[-1]} to {path}"
        ) from error


def describe_model(folder: Path, model: LanguageModel) -> None:
    """Write the sizes of a model beside its weights, all that its config has (`MODEL_CONFIG`)."""
    about = {"architecture": type(model).__name__, **asdict(cast(Any, model.config))}
    write_atomically(folder / MODEL_CONFIG, json.dumps(about, indent=1) + "\n")


def _empty_model(run: Path, config: TrainConfig, tokenizer: text.Tokenizer) -> LanguageModel:
    """A model of the run's sizes, whose weights are to be filled in."""
    path = run / MODEL_CONFIG
    if not path.exists():
        return new_model(config, tokenizer.vocab_size, np.random.default_rng(0))
    about = read_json(path)
    try:
        kind = about.pop("architecture")
        if kind == "Llama":
            return Llama(LlamaConfig(**about), np.random.default_rng(0))
        return GPT(GPTConfig(**about), np.random.default_rng(0))
    except (KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{path} does not describe a model: {error}") from error


def _with_adapters(run: Path, config: FinetuneConfig, weights: Arrays) -> LanguageModel:
    """The base of a fine-tuning run, its adapters put into its weights."""
    try:
        model = load_trained(config.base).model
    except RunError as error:
        raise RunError(
            f"{run} holds adapters beside the base {config.base}, which cannot be read: {error}; "
            f"put it back, or name where it is in {run / checkpoint.CONFIG}"
        ) from error
    digest = base_digest(model)
    if digest != config.base_sha256:
        raise RunError(
            f"{run} holds adapters of another base than {config.base} is now (the digest of its "
            f"weights begins with {digest[:8]}, and not with {config.base_sha256[:8]}); put that "
            "base back, or name where it is in config.toml"
        )
    adapter = nn.add_lora(model, config.lora_rank, config.lora_alpha, config.lora_targets)
    adapter.load_state_dict(weights)
    adapter.merge()
    adapter.remove()
    return model
