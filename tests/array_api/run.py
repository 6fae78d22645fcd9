"""Run the array API consortium's suite against tensors, with every floating array tracked.

    python tests/array_api/run.py PATH [--max-examples N]

PATH is a checkout of data-apis/array-api-tests with its submodule. `skips.txt` beside this file
names what is left out, with a reason for each entry. (The suite needs pytest, pytest-json-report,
hypothesis and ndindex.)
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--max-examples", type=int, default=20)
    parser.add_argument("--processes", default="auto")
    asked, more = parser.parse_known_args()
    suite = asked.checkout.resolve() / "array_api_tests"
    if not suite.is_dir():
        print(f"{asked.checkout} is no checkout of array-api-tests: it has no array_api_tests/")
        return 2
    environment = {
        **os.environ, "ARRAY_API_TESTS_MODULE": "tinygrad_edu.array_api",
        "ARRAY_API_TESTS_VERSION": "2024.12", "ARRAY_API_TESTS_SKIP_DTYPES": "complex64,complex128",
        "PYTHONPATH": os.pathsep.join(map(str, [HERE.parents[1], HERE, asked.checkout.resolve()])),
    }  # fmt: skip
    command = [
        sys.executable, "-m", "pytest", "-p", "shim", str(suite), "-q", "-n", asked.processes,
        f"--max-examples={asked.max_examples}", "--disable-warnings", *more,
    ]  # fmt: skip
    return subprocess.run(command, cwd=asked.checkout, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
