"""Compare contenders honestly on a noisy machine: the driver every benchmark here uses.

Timings of separate runs say little: the same loop may take three times as long a minute later. So
each contender lives in a worker process of its own (two numerical libraries in one process disturb
each other), each round gives every worker a short slice in random order, and what is reported is
the ratio within a round: its median and quartiles over the rounds. Ratio = peer's time / ours.

A contender is a function `make(**options) -> step` in some script: `make` sets up, `step()` is
timed. Where they exist, the dictionary `step.facts` is printed, and `step.between()` is called
after each step, outside the time. Where work has an end, `Worker.call` times a method instead. The
worker may be another virtual environment's Python, so this file needs the standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import random
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent
# Settings that change which kernels OpenBLAS runs; a figure must not depend on the shell's.
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
MIN_ROUNDS = 15


@dataclass(frozen=True)
class Contender:
    """One worker: `make` of `script`, called with `options` (JSON can hold them), under `python`.

    `packages` are the distributions whose versions are printed; `environment` is added to the
    worker's, such as {"OPENBLAS_NUM_THREADS": "1"}.
    """

    name: str
    script: str | Path
    make: str
    options: Mapping[str, Any] = field(default_factory=dict)
    python: str = sys.executable
    packages: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Mark:
    """`ours` against `peer`: the ratio it must reach, and the one it aims at."""

    ours: str
    peer: str
    must: float
    aim: float


@dataclass(frozen=True)
class Ratio:
    """Quartiles of peer's time / ours, over the rounds."""

    lower: float
    median: float
    upper: float

    @classmethod
    def of(cls, ours: Sequence[float], peer: Sequence[float]) -> Ratio:
        return cls(*quartiles([theirs / mine for mine, theirs in zip(ours, peer, strict=True)]))


class Worker:
    """A contender's process; it runs slices when told to."""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        environment = {k: v for k, v in os.environ.items() if k not in UNSET}
        environment.update(contender.environment)
        self._process = subprocess.Popen(
            [contender.python, str(Path(__file__).resolve()), "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=ROOT,
        )
        try:
            self._set_up()
        except RuntimeError:
            self.close()
            raise

    def _set_up(self) -> None:
        contender = self.contender
        answer = self._ask(
            script=str(Path(contender.script).resolve()),
            make=contender.make,
            options=dict(contender.options),
            packages=list(contender.packages),
        )
        self.versions: str = answer["versions"]
        self.facts: dict[str, Any] = answer["facts"]

    def slice(self, seconds: float) -> float:
        """Run steps for about `seconds`, at least one; the mean seconds of a step."""
        answer = self._ask(seconds=seconds)
        return float(answer["elapsed"]) / int(answer["steps"])

    def call(self, method: str, **arguments: Any) -> tuple[Any, float]:
        """What a method of the step gives (JSON can hold it), and the seconds it took."""
        answer = self._ask(call=method, arguments=arguments)
        return answer["result"], float(answer["elapsed"])

    def close(self) -> None:
        """End the process, which stops where its questions end."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # it has ended already
                    pipe.close()
        self._process.wait()

    def _ask(self, **question: Any) -> dict[str, Any]:
        line = ""
        if self._process.stdin is not None and self._process.stdout is not None:
            try:
                self._process.stdin.write(json.dumps(question) + "\n")
                self._process.stdin.flush()
                line = self._process.stdout.readline()
            except BrokenPipeError:
                line = ""
        if not line:
            raise RuntimeError(
                f"the worker of {self.contender.name!r} ended with code {self._process.wait()}; "
                "its own message stands above"
            )
        answer: dict[str, Any] = json.loads(line)
        return answer


def run(
    contenders: Sequence[Contender],
    marks: Sequence[Mark],
    *,
    rounds: int = MIN_ROUNDS,
    seconds: float = 0.5,
    seed: int = 0,
    title: str = "",
) -> bool:
    """Measure, print the whole record, and say whether every mark's `must` is reached."""
    if rounds < MIN_ROUNDS:
        print(f"note: {rounds} rounds are for a quick look; a figure takes {MIN_ROUNDS} or more")
    print_setting(title, rounds, seconds, seed)
    times = measure(contenders, rounds=rounds, seconds=seconds, seed=seed)
    width = max(len(c.name) for c in contenders)
    print(f"\n{'seconds a step':<{width}}   lower quartile, median, upper quartile")
    for name, samples in times.items():
        low, middle, high = quartiles(samples)
        print(f"{name:<{width}}   {low:.6f}  {middle:.6f}  {high:.6f}")
    print("\nratio = peer's time / ours   median [lower quartile, upper quartile]")
    reached = True
    for mark in marks:
        ratio = Ratio.of(times[mark.ours], times[mark.peer])
        met = ratio.median >= mark.must
        reached = reached and met
        verdict = "aim reached" if ratio.median >= mark.aim else "reached" if met else "MISSED"
        print(
            f"{mark.ours} against {mark.peer}: {ratio.median:.2f} [{ratio.lower:.2f}, "
            f"{ratio.upper:.2f}]   must {mark.must:g}, aim {mark.aim:g}: {verdict}"
        )
    return reached


def measure(
    contenders: Sequence[Contender], *, rounds: int, seconds: float, seed: int = 0
) -> dict[str, list[float]]:
    """Seconds a step, one number a round, by name of contender."""
    order = random.Random(seed)
    workers: list[Worker] = []
    try:
        for contender in contenders:
            worker = Worker(contender)
            workers.append(worker)
            facts = "".join(f", {key} {value}" for key, value in worker.facts.items())
            print(f"{contender.name}: {worker.versions}{facts}", flush=True)
        for worker in workers:  # caches, pools and the interpreter's specialisation warm up
            worker.slice(seconds)
        times: dict[str, list[float]] = {c.name: [] for c in contenders}
        for _ in range(rounds):
            for worker in order.sample(workers, len(workers)):
                times[worker.contender.name].append(worker.slice(seconds))
        return times
    finally:
        for worker in workers:
            worker.close()


def print_setting(title: str, rounds: int, seconds: float, seed: int) -> None:
    """What one needs to know to run it again."""
    print_machine(title)
    print(f"{rounds} rounds, slices of {seconds:g} s in random order (seed {seed})")
    print(f"unset in the workers: {', '.join(UNSET)}")


def print_machine(title: str) -> None:
    """The title, the command and what it runs on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    command = shlex.join([Path(sys.executable).name, *sys.orig_argv[1:]])
    if title:
        print(title)
    print(f"$ {command}")
    print(f"{cores} cores of {os.cpu_count()}, {_processor()}, {platform.platform()}")


def quartiles(samples: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile."""
    if len(samples) == 1:
        return (samples[0],) * 3
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return low, middle, high


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that every benchmark shares."""
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a slice")
    parser.add_argument("--seed", type=int, default=0, help="of the order of the slices")


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


# The worker's side


def _serve(questions: IO[str], answers: IO[str]) -> None:
    setup = json.loads(questions.readline())
    step = _made(setup["script"], setup["make"], setup["options"])
    facts = getattr(step, "facts", {})
    _reply(answers, versions=_versions(setup["packages"]), facts=facts)
    between = getattr(step, "between", None)
    for line in questions:
        question = json.loads(line)
        if "call" in question:
            start = time.perf_counter()
            result = getattr(step, question["call"])(**question["arguments"])
            _reply(answers, result=result, elapsed=time.perf_counter() - start)
            continue
        seconds, steps, elapsed = question["seconds"], 0, 0.0
        while elapsed < seconds:
            start = time.perf_counter()
            step()
            elapsed += time.perf_counter() - start
            steps += 1
            if between is not None:
                between()
        _reply(answers, steps=steps, elapsed=elapsed)


def _reply(answers: IO[str], **answer: Any) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _made(script: str, make: str, options: dict[str, Any]) -> Callable[[], Any]:
    """The step of a contender, from its script loaded by path."""
    sys.path[:0] = [str(ROOT), str(Path(script).parent)]
    spec = importlib.util.spec_from_file_location("contender", script)
    if spec is None or spec.loader is None:
        raise ImportError(f"{script} is no Python file: a contender's script ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["contender"] = module
    spec.loader.exec_module(module)
    step: Callable[[], Any] = getattr(module, make)(**options)
    return step


def _versions(packages: Sequence[str]) -> str:
    found = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{package} (not installed: taken from the checkout)")
    return ", ".join(found)


if __name__ == "__main__":
    if sys.argv[1:] != ["--worker"]:
        sys.exit("this file drives other benchmarks: run one of them, such as benchmarks/scalar.py")
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a contender prints must not mix with the answers
    _serve(sys.stdin, channel)
