"""Settings of every test run, and what all share: fixed seeds, files beside the checkout."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# One BLAS thread a process: pytest -n auto gives every core a process already, and sums of one
# thread come out the same whatever the number of cores. It must be set before NumPy is loaded, and
# programs under test inherit it.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

pytest_plugins = ["tinygrad_edu.testing.plugin", "pytester", "browser"]

# A busy machine is no failure of the code, and a second run draws the same examples.
settings.register_profile("project", deadline=None, derandomize=True)
settings.load_profile("project")  # unless --gradcheck-profile chooses another


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    """Every test starts the default random stream afresh, so none depends on those before it."""
    import tinygrad_edu as tg

    tg.manual_seed(20240229)


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """`shared_data(name)`: a file of `../shared/data`, or a skip that names it."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"

    def find(name: str) -> Path:
        path = folder / name
        if not path.exists():
            pytest.skip(f"../shared/data/{name} is absent")
        return path

    return find
