"""What `import tinygrad_edu` takes beyond `import numpy`.

    python benchmarks/import_time.py

Each time in a fresh process, whose files have been read before; the median and the quartiles.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

import _rounds

MUST, AIM = 50.0, 20.0
PROGRAM = (
    "import time, numpy; start = time.perf_counter(); import tinygrad_edu; "
    "print(time.perf_counter() - start)"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=_rounds.MIN_ROUNDS)
    asked = parser.parse_args()
    _rounds.print_machine("import tinygrad_edu, beyond import numpy")
    environment = {**os.environ, "PYTHONPATH": str(_rounds.ROOT)}
    times = []
    for _ in range(asked.rounds + 2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        times.append(1e3 * float(done.stdout))
    low, middle, high = _rounds.quartiles(times[2:])
    verdict = "aim reached" if middle <= AIM else "reached" if middle <= MUST else "MISSED"
    print(f"{middle:.1f} ms [{low:.1f}, {high:.1f}]   must {MUST:g}, aim {AIM:g}: {verdict}")
    return 0 if middle <= MUST else 1


if __name__ == "__main__":
    sys.exit(main())
