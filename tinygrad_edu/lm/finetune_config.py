"""What a fine-tuning run is made of: a `TrainConfig` with a base, and adapters or none."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from tinygrad_edu.lm.config import TrainConfig, from_mapping, read_table, shown
from tinygrad_edu.lm.errors import ConfigError

FULL_RATE, LORA_RATE = 5e-4, 5e-3
"""Learning rates where none is given. (With LoRA about ten times the other: TRL, "LoRA without
regret".)"""
EPOCHS = 3.0
_SIZES = (
    "architecture", "num_layers", "num_heads", "num_kv_heads", "hidden_dim", "tied_head",
    "embed_dim", "block_size", "dropout", "bias",
)  # fmt: skip
_OTHER = ("minutes", "flops", "max_validation_tokens", "overfit_one_batch")


@dataclass(frozen=True)
class FinetuneConfig(TrainConfig):
    """As `TrainConfig`, where `corpus` are files of conversations; sizes and tokenizer are those of
    the base.

    Attributes:
        base: the model to start from: the folder of a run, one in Hugging Face's layout, or a name
            of a model that comes with the package.
        base_sha256: of its weights, set when the run begins.
        steps: updates in all; 0 for as many as `epochs` need.
        epochs: how often to read the conversations; 3 where neither is given.
        learning_rate: 0 for 5e-4, or with LoRA 5e-3.
        lora_rank: of the adapters; 0 trains all weights.
        lora_alpha: their scale is alpha/rank.
        lora_targets: patterns of the linear layers' names: "qkv", "attn.*", "*".
    """

    command: ClassVar[str] = "finetune"

    base: str = ""
    base_sha256: str = ""
    lora_rank: int = 0
    lora_alpha: float = 16.0
    lora_targets: tuple[str, ...] = ("*",)
    steps: int = 0
    batch_size: int = 8
    learning_rate: float = 0.0
    weight_decay: float = 0.0
    validation_interval: int = 50
    checkpoint_interval: int = 50
    sample_length: int = 60

    def __post_init__(self) -> None:
        if not self.learning_rate:
            object.__setattr__(self, "learning_rate", default_rate(self.lora_rank))
        if self.steps and self.epochs is not None:
            raise ConfigError(
                f"--steps {self.steps} and --epochs {self.epochs:g} were given; each says how long "
                "to train, so give one of them"
            )
        if not self.steps and self.epochs is None:
            object.__setattr__(self, "epochs", EPOCHS)
        super().__post_init__()
        if self.lora_rank < 0:
            raise ConfigError(
                f"--lora-rank is {self.lora_rank}; it must be 1 or more, or 0 to train all weights"
            )
        if not 0 < self.lora_alpha < float("inf"):
            raise ConfigError(f"--lora-alpha is {self.lora_alpha}; it must be more than 0")
        if not self.lora_targets:
            raise ConfigError("--lora-targets is empty; give patterns of layers' names, or '*'")
        defaults = {f.name: f.default for f in fields(self)}
        for name in _OTHER:
            if getattr(self, name) != defaults[name]:
                raise ConfigError(
                    f"--{name.replace('_', '-')} is not for fine-tuning; give --epochs or --steps"
                )

    def of(self, base: TrainConfig) -> FinetuneConfig:
        """These options with the sizes of a base."""
        sizes: dict[str, Any] = {name: getattr(base, name) for name in _SIZES}
        return replace(self, tokenizer="base", **sizes)

    def changed(self, **given: Any) -> FinetuneConfig:
        """These options with others in their place, as a command line gives them: `steps` end what
        `epochs` said, and the reverse.
        """
        new = {name: value for name, value in given.items() if value != getattr(self, name)}
        if "steps" in new:
            new.setdefault("epochs", None)
        elif "epochs" in new:
            new["steps"] = 0
        return replace(self, **new)


def default_rate(lora_rank: int) -> float:
    """The learning rate where none is given."""
    return LORA_RATE if lora_rank else FULL_RATE


def read_finetune_config(path: str | Path) -> FinetuneConfig:
    """The options in a TOML file, a run's or one of your own, for a new run: a base it may have
    none yet, or another one than when the file was written.

    Raises:
        ConfigError: it cannot be read; an option that is unknown, or of a training run.
    """
    table = read_table(path)
    sizes = [name for name in ("tokenizer", *_SIZES) if name in table and "base" not in table]
    if sizes:
        raise ConfigError(
            f"{path} has {sizes[0]} = {shown(table[sizes[0]])}, which is the base's to say; give "
            "the options of a fine-tuning run"
        )
    table.pop("base_sha256", None)
    found = from_mapping(table, str(path), FinetuneConfig)
    assert isinstance(found, FinetuneConfig)
    return found
