"""Scalar engines: one training step of micrograd's perceptron MLP(2, [16, 16, 1]) on 100 points.

    python benchmarks/scalar.py                          # against micrograd (pip install micrograd)
    python benchmarks/scalar.py --microgpt microgpt.py   # and against the class Value of that file

Every engine runs the same program, written out below for any class with micrograd's operators:
forward on each point, hinge loss, weight decay, backward, a step of gradient descent. About 65,800
nodes in micrograd's counting. Each engine is measured twice, as most of micrograd's time with
Python's defaults is the garbage collector's; switched off, the collector runs between the steps,
outside the time (there the peers' graphs are freed, ours within it). Of microgpt only the class
definition is executed, the rest of its file being a training run.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import itertools
import math
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import _rounds

SIZES = (2, 16, 16, 1)
POINTS = 100


def make(engine: str, collector: bool = True, path: str = "") -> Callable[[], Any]:
    """The step of an engine, "tinygrad_edu", "micrograd" or "microgpt" (whose file is `path`)."""
    value = value_class(engine, path)
    sys.setrecursionlimit(100_000)  # for the peers' recursive sorts
    build, parameters = perceptron(value)

    def step() -> float:
        loss = build()
        for p in parameters:
            p.grad = 0
        loss.backward()
        for p in parameters:
            p.data -= 0.05 * p.grad
        return float(loss.data)

    size, nodes = reachable(build(), value)
    step.facts = {  # type: ignore[attr-defined]
        "nodes": nodes,
        "bytes a node before backward": round(size / nodes, 1),
        "first losses": [round(step(), 6) for _ in range(3)],
    }
    if not collector:
        gc.disable()
        step.between = gc.collect  # type: ignore[attr-defined]  # or the peers' cycles pile up
    return step


def value_class(engine: str, path: str = "") -> Any:
    """The class `Value` of an engine."""
    if engine == "microgpt":
        return class_of_file(Path(path), "Value")
    module = {"tinygrad_edu": "tinygrad_edu.scalar", "micrograd": "micrograd.engine"}[engine]
    return importlib.import_module(module).Value


def class_of_file(path: Path, name: str) -> Any:
    """Execute one class definition of a file, and nothing else of it."""
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.ClassDef) and statement.name == name:
            namespace: dict[str, Any] = {"math": math, "random": random, "__name__": path.stem}
            code = compile(ast.Module([statement], type_ignores=[]), str(path), "exec")
            exec(code, namespace)
            return namespace[name]
    raise SystemExit(f"{path} defines no class {name}: give the path of microgpt's file")


def perceptron(value: Any) -> tuple[Callable[[], Any], list[Any]]:
    """`build()`, which makes the graph of the loss, and the 337 parameters."""
    draw = random.Random(1337)
    layers = [
        [
            ([value(draw.uniform(-1, 1)) for _ in range(fan_in)], value(0.0), fan_out > 1)
            for _ in range(fan_out)
        ]
        for fan_in, fan_out in itertools.pairwise(SIZES)
    ]
    parameters = [p for layer in layers for w, b, _ in layer for p in [*w, b]]
    points = [(draw.uniform(-1, 1), draw.uniform(-1, 1)) for _ in range(POINTS)]
    labels = [1.0 if x * x + y * y < 0.5 else -1.0 for x, y in points]

    def neuron(w: list[Any], b: Any, nonlinear: bool, x: list[Any]) -> Any:
        activation = sum((wi * xi for wi, xi in zip(w, x, strict=False)), b)
        return activation.relu() if nonlinear else activation

    def build() -> Any:
        losses: list[Any] = []
        for point, label in zip(points, labels, strict=True):
            x = [value(coordinate) for coordinate in point]
            for layer in layers:
                x = [neuron(w, b, nonlinear, x) for w, b, nonlinear in layer]
            losses.append((1 + -label * x[0]).relu())
        decay: Any = sum(p * p for p in parameters)
        return sum(losses) * (1.0 / len(losses)) + 1e-4 * decay

    return build, parameters


def reachable(root: Any, value: Any) -> tuple[int, int]:
    """Bytes of all objects that the graph under `root` keeps alive, and its number of nodes.

    Numbers and tuples count once each; classes, code and strings are shared by all graphs.
    """
    total = nodes = 0
    for thing in _objects(root):
        total += sys.getsizeof(thing)
        nodes += isinstance(thing, value)
    return total, nodes


def _objects(root: Any) -> Iterator[Any]:
    shared = (type, str, type(math), type(_objects.__code__), type(math.exp), bool, type(None))
    seen = {id(globals())}
    stack = [root]
    while stack:
        thing = stack.pop()
        if id(thing) in seen or isinstance(thing, shared):
            continue
        seen.add(id(thing))
        if isinstance(thing, dict) and "__builtins__" in thing:
            continue  # the module that a closure was made in
        yield thing
        stack.extend(gc.get_referents(thing))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--micrograd-python", default=sys.executable, metavar="PYTHON",
                        help="a Python that can import micrograd")  # fmt: skip
    parser.add_argument("--microgpt", metavar="FILE", help="microgpt's program, for its Value")
    _rounds.add_arguments(parser)
    chosen = parser.parse_args()

    def contender(name: str, python: str = sys.executable, **options: Any) -> _rounds.Contender:
        engine = options["engine"]
        packages = ["numpy"] if engine == "tinygrad_edu" else [engine]
        return _rounds.Contender(name, __file__, "make", options, python,
                                 packages if engine != "microgpt" else ())  # fmt: skip

    python = chosen.micrograd_python
    contenders = [
        contender("ours", engine="tinygrad_edu"),
        contender("ours, collector off", engine="tinygrad_edu", collector=False),
        contender("micrograd", python, engine="micrograd"),
        contender("micrograd, collector off", python, engine="micrograd", collector=False),
    ]
    marks = [
        _rounds.Mark("ours", "micrograd", must=8, aim=15),
        _rounds.Mark("ours, collector off", "micrograd, collector off", must=2, aim=4),
    ]
    if chosen.microgpt:
        file = str(Path(chosen.microgpt).resolve())
        contenders.append(contender("microgpt", engine="microgpt", path=file))
        contenders.append(
            contender("microgpt, collector off", engine="microgpt", path=file, collector=False)
        )
        marks.append(_rounds.Mark("ours", "microgpt", must=1.5, aim=2.2))
        marks.append(
            _rounds.Mark("ours, collector off", "microgpt, collector off", must=1.5, aim=2.2)
        )
    reached = _rounds.run(
        contenders, marks, rounds=chosen.rounds, seconds=chosen.seconds, seed=chosen.seed,
        title="one step of MLP(2, [16, 16, 1]) on 100 points",
    )  # fmt: skip
    sys.exit(0 if reached else 1)


if __name__ == "__main__":
    main()
