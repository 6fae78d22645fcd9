"""How a model of others names and stores its weights, as a table, beside the names here.

A `Layout` is one architecture in Hugging Face's form. Its table has a row a module: the name there,
the name here, and whether its matrix is stored the other way round (the Conv1D of GPT-2 is input by
output; `nn.Linear` here and in PyTorch is output by input). What reads and writes folders
(`lm.huggingface`) and adapters (`lm.adapters`) knows no name beside these.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from tinygrad_edu import nn
from tinygrad_edu.lm.errors import ConfigError

__all__ = ["Layout", "Row", "Weight", "number_in", "refuse_unless", "whole_number_in"]

Config = TypeVar("Config")
Model = TypeVar("Model", bound=nn.Module)
_HEAD = "head", "lm_head"
"""A head of its own, here and there: it is outside of what their prefix names."""


@dataclass(frozen=True)
class Row:
    """A module; `{}` in its names stands for the number of the block.

    Attributes:
        theirs, ours: its names.
        turned: its matrix is stored the other way round there.
        bias: it has a bias beside its weight.
    """

    theirs: str
    ours: str
    turned: bool = False
    bias: bool = False


@dataclass(frozen=True)
class Weight:
    """One array: its names, and whether it is stored the other way round there."""

    theirs: str
    ours: str
    turned: bool

    def shape_there(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape that an array of ours has in their file."""
        return shape[::-1] if self.turned else shape


class Layout(abc.ABC, Generic[Config, Model]):
    """An architecture in Hugging Face's form.

    Attributes:
        model_type: as config.json names it.
        title: as people name it.
        prefix: before every name but the head's; files of the model without its head leave it out.
        rows: the modules that are there once.
        block_rows: those of each block.
        not_weights: a pattern of names that files hold beside weights (masks, tables).
        fan_in_fan_out: what PEFT calls matrices that are stored the other way round.
    """

    model_type: str
    title: str
    prefix: str
    rows: tuple[Row, ...]
    block_rows: tuple[Row, ...]
    not_weights: str
    fan_in_fan_out: bool

    @abc.abstractmethod
    def read_config(self, given: Mapping[str, Any], where: str) -> Config:
        """Our config for what a config.json holds.

        Raises:
            ConfigError: a setting that cannot be honoured here, with its value; one that is missing
                or no number.
        """

    @abc.abstractmethod
    def write_config(self, config: Config) -> dict[str, Any]:
        """What config.json says of such a model."""

    @abc.abstractmethod
    def new_model(self, config: Config, generator: np.random.Generator) -> Model:
        """A model of that config."""

    @abc.abstractmethod
    def has_biases(self, config: Config) -> bool:
        """Whether rows that can have a bias have one in this model of ours."""

    @abc.abstractmethod
    def tied(self, config: Config) -> bool:
        """Whether the head is the token embedding."""

    @abc.abstractmethod
    def num_blocks(self, config: Config) -> int:
        """How many blocks."""

    def weights(self, config: Config, all_biases: bool = False) -> Iterator[Weight]:
        """Every array of a model, in the order of the tables; biases too where it has none, if all
        are asked for.
        """
        biases = all_biases or self.has_biases(config)
        for row in self.rows:
            yield from self._of_row(row, "", biases)
        for number in range(self.num_blocks(config)):
            for row in self.block_rows:
                yield from self._of_row(row, str(number), biases)
        if not self.tied(config):
            yield Weight(f"{_HEAD[1]}.weight", f"{_HEAD[0]}.weight", False)

    def _of_row(self, row: Row, number: str, biases: bool) -> Iterator[Weight]:
        theirs, ours = self.prefix + row.theirs.format(number), row.ours.format(number)
        yield Weight(f"{theirs}.weight", f"{ours}.weight", row.turned)
        if row.bias and biases:
            yield Weight(f"{theirs}.bias", f"{ours}.bias", False)

    def is_weight(self, name: str) -> bool:
        """Whether a name in a file is a weight's, and not a mask's or a table's."""
        return re.fullmatch(self.not_weights, name.removeprefix(self.prefix)) is None

    def module_there(self, path: str) -> str | None:
        """Their path of one of our modules, None where it is none: "transformer.h.0.attn.c_attn"
        for "blocks.0.attn.qkv".
        """
        if path == _HEAD[0]:
            return _HEAD[1]
        rows = [(row.ours, self.prefix + row.theirs) for row in self._all_rows()]
        return _translated(path, rows)

    def module_here(self, path: str) -> str | None:
        """Our path of one of their modules, with or without the prefix; None where it is none."""
        if path == _HEAD[1]:
            return _HEAD[0]
        bare = path.removeprefix(self.prefix)
        return _translated(bare, [(row.theirs, row.ours) for row in self._all_rows()])

    def _all_rows(self) -> tuple[Row, ...]:
        return (*self.rows, *self.block_rows)


def _translated(path: str, rows: list[tuple[str, str]]) -> str | None:
    for pattern, other in rows:
        before, _, after = pattern.partition("{}")
        match = re.fullmatch(f"{re.escape(before)}(\\d*){re.escape(after)}", path)
        if match and bool(match[1]) == ("{}" in pattern):
            return other.format(match[1])
    return None


def refuse_unless(
    given: Mapping[str, Any], allowed: Mapping[str, tuple[Any, ...]], title: str, where: str
) -> None:
    """Refuse settings that would change what a model computes, and are not had here.

    Args:
        given: what config.json holds; a setting that is not in it is as it should be.
        allowed: the values that each may have.
        title: of the architecture.
        where: the file.

    Raises:
        ConfigError: one has another value; it is named with it.
    """
    for name, values in allowed.items():
        if name in given and given[name] not in values:
            raise ConfigError(
                f"{where} has {name} = {given[name]!r}, which {title} here has not; it reads "
                f"{' or '.join(repr(value) for value in values)}"
            )


def whole_number_in(
    given: Mapping[str, Any], name: str, where: str, default: int | None = None
) -> int:
    """A size in config.json, 1 or more.

    Raises:
        ConfigError: it is missing, without a default, or no such number.
    """
    value = given.get(name)
    if value is None and default is not None:
        return default
    if value is None:
        raise ConfigError(f"{where} lacks {name}, without which the model's sizes are not known")
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{where} has {name} = {value!r}; it has to be a whole number from 1 on")
    return value


def number_in(given: Mapping[str, Any], name: str, where: str, default: float) -> float:
    """A number above 0 in config.json, or what the architecture takes where it says none.

    Raises:
        ConfigError: no such number.
    """
    value = given.get(name)
    if value is None:
        return default
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < np.inf:
        raise ConfigError(f"{where} has {name} = {value!r}; it has to be a number above 0")
    return float(value)
