"""Peak memory of one training step of nanoGPT's CPU recipe, ours against torch's.

    python benchmarks/memory.py --torch-python PATH    # a Python that has torch, if not this one

What is compared is the peak of a step above weights and optimizer state: activations, gradients
and whatever is made and dropped on the way. Both steps are those of `gpt_step.py`, each in a
process of its own, after steps that warm up, and begin without gradients.

Counted are the bytes asked of the allocator. NumPy tells `tracemalloc` of each array, which also
counts Python's own objects; torch tells its profiler of each allocation and release, whose running
sum has its peak. Neither sees what BLAS keeps for itself. Where several processes share the batch,
their peaks are added, as if all came at the same moment, and the shared memory in which gradients
arrive is added too.

The cross-check needs Linux: how far resident memory rose, from just before the step, with free
memory handed back, to its highest point (VmHWM, reset by /proc/self/clear_refs). It counts pages,
and what the C library holds on to; ours is measured there without `allocator.tune`, whose very
purpose is to hold on to more.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _rounds

MUST, AIM = 1.5, 1.15
WARM_UP = 3
WIDTH = 26
Step = Callable[[], Any]


# Each runs in a worker; what it finds comes back as the facts of a step that is never made.


def ours(workers: int) -> Step:
    """Peak bytes of our step by tracemalloc."""
    import gpt_step

    step: Any = gpt_step.ours(workers)
    _warm_up(step)
    team, nothing = step.workers, [()] * _processes(step.workers)
    team.each(_start_counting, nothing)
    step()  # makes again, before the counters' eyes, what the next step replaces
    step.optimizer.zero_grad()
    before = team.each(_counted, nothing)
    step()
    peaks = [peak for _, peak in team.each(_counted, nothing)]
    rise = sum(peak - held for peak, (held, _) in zip(peaks, before, strict=True))
    return _finding(rise + _arriving(team), team=f"{team.count} × {team.kind}")


def torch(fused: bool) -> Step:
    """Peak bytes of torch's step, from the allocations and releases that its profiler lists."""
    import gpt_step
    import torch

    step: Any = gpt_step.torch(fused)
    _warm_up(step)
    step.optimizer.zero_grad()
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, profile_memory=True) as profile:
        step()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    left = sum(p.grad.nbytes for group in step.optimizer.param_groups for p in group["params"])
    if held != left:  # only gradients outlive a step
        raise RuntimeError(f"torch's profiler lost count: {held} bytes are left, gradients {left}")
    return _finding(peak)


def ours_resident(workers: int) -> Step:
    """How far our step raises the resident memory of the processes that make it."""
    import gpt_step

    from tinygrad_edu.lm import allocator

    allocator.tune = lambda: False
    step: Any = gpt_step.ours(workers)
    _warm_up(step)
    team, nothing = step.workers, [()] * _processes(step.workers)
    step.optimizer.zero_grad()
    before = team.each(_resident_now, nothing)
    step()
    after = team.each(_resident_peak, nothing)
    return _finding(sum(after) - sum(before) + _arriving(team))


def torch_resident(fused: bool) -> Step:
    """How far torch's step raises resident memory."""
    import gpt_step

    step: Any = gpt_step.torch(fused)
    _warm_up(step)
    step.optimizer.zero_grad()
    before = _resident_now()
    step()
    return _finding(_resident_peak() - before)


def _warm_up(step: Step) -> None:
    for _ in range(WARM_UP):
        step()


def _processes(team: Any) -> int:
    return team.count if team.kind == "processes" else 1


def _arriving(team: Any) -> int:
    """Bytes of the shared memory that gradients are sent and summed in."""
    if team.kind != "processes":
        return 0
    shared = [team._memory.total, *team._memory.sent]
    return sum(array.nbytes for arrays in shared for array in arrays.values())


def _start_counting(*_: Any) -> None:
    import tracemalloc

    tracemalloc.start()


def _counted(*_: Any) -> tuple[int, int]:
    """(bytes held now, the most since this was last asked)."""
    import tracemalloc

    gc.collect()
    found = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    return found


def _resident_now(*_: Any) -> int:
    """Bytes of resident memory once free memory is handed back; the peak begins anew here."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("VmRSS")


def _resident_peak(*_: Any) -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def _finding(peak: int, **facts: Any) -> Step:
    def step() -> None:
        pass

    step.facts = {"peak": peak, **facts}  # type: ignore[attr-defined]
    return step


# The driver's side


def found(name: str, make: str, options: dict[str, Any], python: str) -> int:
    """Peak bytes that `make` finds in a process of its own; a line about it is printed."""
    package = ["torch" if make.startswith("torch") else "numpy"]
    contender = _rounds.Contender(name, __file__, make, options, python, package)
    worker = _rounds.Worker(contender)
    worker.close()
    peak = int(worker.facts.pop("peak"))
    said = "".join(f", {fact}" for fact in [worker.versions, *worker.facts.values()])
    print(f"{name:<{WIDTH}}{peak / 2**20:>7.2f} MiB{said}", flush=True)
    return peak


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch-python", default=sys.executable)
    asked = parser.parse_args()
    _rounds.print_machine("peak memory of one step of nanoGPT's CPU recipe")
    print("\nabove weights and optimizer state, by the allocators' own count:")
    here, there = sys.executable, asked.torch_python
    found("tinygrad_edu, one worker", "ours", {"workers": 1}, here)
    mine = found("tinygrad_edu", "ours", {"workers": 2}, here)
    peer = found("torch eager", "torch", {"fused": False}, there)
    found("torch eager, fused AdamW", "torch", {"fused": True}, there)
    if sys.platform == "linux":
        print("\nrise of resident memory:")
        found("tinygrad_edu, one worker", "ours_resident", {"workers": 1}, here)
        found("tinygrad_edu", "ours_resident", {"workers": 2}, here)
        found("torch eager", "torch_resident", {"fused": False}, there)
    ratio = mine / peer
    verdict = "aim reached" if ratio <= AIM else "reached" if ratio <= MUST else "MISSED"
    print(f"\nours / torch's: {ratio:.2f}   must {MUST:g}, aim {AIM:g}: {verdict}")
    return 0 if ratio <= MUST else 1


if __name__ == "__main__":
    sys.exit(main())
