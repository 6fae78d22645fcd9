"""The kit's own properties: one-line property tests, ghostwriting, programs, the state machine."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

import tinygrad_edu as tg
from tinygrad_edu import testing
from tinygrad_edu.autograd import apply
from tinygrad_edu.autograd import backward as engine_backward
from tinygrad_edu.ops import elementwise
from tinygrad_edu.ops.registry import _bind
from tinygrad_edu.testing import check_vjp, ghostwrite, given_gradcheck
from tinygrad_edu.testing import strategies as own
from tinygrad_edu.testing.machine import EngineMachine

few = settings(max_examples=40, derandomize=True, deadline=None)


# One line.


@given_gradcheck(domain="positive", max_examples=15)
def test_a_product_with_a_logarithm(x: Any, y: Any) -> Any:
    return tg.log(x) * y


@given_gradcheck(shapes="broadcast", max_examples=15, second=False)
def test_broadcast_arithmetic(x: Any, y: Any) -> Any:
    return x * y - x


@given_gradcheck(domain={"p": "probability"}, shapes="number", max_examples=15)
def test_numbers(p: Any, x: Any) -> Any:
    return tg.xlogy(x, p)


def wrong_relu(x: Any) -> Any:
    """Right above -3, where hypothesis' first numbers and the kink are; 0.1 too steep below."""
    return apply(WRONG, x)


WRONG = dataclasses.replace(elementwise.relu, name="wrong_relu", pull=None)
WRONG.rules = (_bind(lambda F, a: F.where(a < -3, F.full_like(a, 0.1), 1.0 * (a > 0)), WRONG),)


def test_a_wrong_relu_shrinks_to_where_it_is_wrong_and_not_to_the_kink() -> None:
    with pytest.raises(testing.GradValueError) as caught:
        given_gradcheck(wrong_relu, second=False, max_examples=300)()
    text = "\n".join(caught.value.__notes__)
    assert "again: check_vjp(f, np.array(-" in text or "again: check_vjp(f, np.array([-" in text
    shrunk = text.split("again: check_vjp(f, np.array(")[1].split(")")[0].strip("[] ")
    numbers = [float(v) for v in shrunk.replace("[", "").replace("]", "").split(",")]
    assert len(numbers) == 1
    assert -4 <= numbers[0] < -3


def test_domains_and_shapes_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="domain is 'any', 'positive'"):
        given_gradcheck(wrong_relu, domain="negative")
    with pytest.raises(ValueError, match="'same', 'broadcast' or 'number'; got 'all'"):
        given_gradcheck(shapes="all")


# Ghostwriting.


ROOT = Path(__file__).resolve().parents[3]


def run_pytest(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_ghost.py").write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_ghost.py"],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


def test_a_ghostwritten_file_runs_as_it_stands(tmp_path: Path) -> None:
    text = ghostwrite("hypot")
    compile(text, "test_ghost.py", "exec")
    assert "tg.hypot(a, b)" in text
    assert "# a = b = 0: gradient 0 to both" in text
    assert 'shapes="broadcast"' in text
    done = run_pytest(tmp_path, text)
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def test_a_ghostwritten_file_finds_a_wrong_operation(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import tinygrad_edu as tg\n"
        "cube = tg.primitive('cube', lambda F, x: x * x * x, partials=[lambda x: 3 * x])\n"
        "def double(x):\n    '''Twice x.'''\n    return cube(x) - cube(x) + 2 * x.detach()\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        import mine  # type: ignore[import-not-found]

        text = ghostwrite(mine.double)
        assert "from mine import double" in text and "Twice x" in text
        cube = ghostwrite(mine.cube)
        assert "cube(x)" in cube
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("mine", None)
        from tinygrad_edu.autograd import defining

        defining._forget("cube")
    done = run_pytest(tmp_path, text)
    assert done.returncode == 1
    assert "3 failed" in done.stdout


def test_ghostwriting_of_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match="there is no primitive 'cosecant'"):
        ghostwrite("cosecant")
    with pytest.raises(TypeError, match="a primitive or a function of tensors; got int"):
        ghostwrite(3)
    assert "apply_absorb(g0, d)" in ghostwrite("absorb")


# Strategies.


@few
@given(st.data())
def test_programs_on_tensors_and_on_dual_numbers_agree(data: Any) -> None:
    program = data.draw(own.programs())
    xs = [data.draw(own.values(shape, (-1, 1))) for shape in ((2, 3), (3,))]
    leaves = [tg.Tensor(x, requires_grad=True) for x in xs]
    out = program(*leaves)
    twin = program.dual(*xs)
    np.testing.assert_allclose(out._data, twin.value, rtol=1e-9, atol=1e-12)
    if not out.requires_grad:
        return
    out.backward()
    for i, leaf in enumerate(leaves):
        want = twin.gradient(i, np.ones(()))
        if leaf.grad is None:
            assert want is None or not want.any()
        else:
            size = np.abs(want).max(initial=1)
            np.testing.assert_allclose(leaf.grad._data, want, rtol=1e-8, atol=1e-11 * size)


@few
@given(st.data())
def test_einsum_of_any_spec(data: Any) -> None:
    spec, shapes = data.draw(own.einsum_specs(data.draw(st.integers(1, 3))))
    xs = [data.draw(own.values(s)) for s in shapes]
    found = tg.einsum(spec, *[tg.Tensor(x) for x in xs])
    np.testing.assert_allclose(found._data, np.einsum(spec, *xs), rtol=1e-11, atol=1e-11)
    check_vjp(lambda *a: tg.einsum(spec, *a), *xs, inner=1e-3)


@few
@given(st.data())
def test_layouts_hold_the_same_numbers(data: Any) -> None:
    x = data.draw(own.values(data.draw(own.shapes(max_dims=3))))
    found = data.draw(own.layouts(x))
    np.testing.assert_array_equal(found, x)
    tensor = data.draw(own.tensors((2,), dtype=np.float32))
    assert tensor.requires_grad and tensor.dtype == np.float32 and tensor.shape == (2,)


# The machine.

quickly = settings(max_examples=60, stateful_step_count=25, derandomize=True, deadline=None)


def test_the_engine_survives_the_machine() -> None:
    run_state_machine_as_test(EngineMachine, settings=quickly)


@pytest.mark.parametrize("fault", ["forgets to add", "writes unseen", "keeps under no_grad"])
def test_the_machine_finds_a_broken_engine(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault == "forgets to add":
        monkeypatch.setattr(
            engine_backward, "_accumulate",
            lambda leaf, g, create_graph: setattr(leaf, "_grad", g),
        )
    elif fault == "writes unseen":
        monkeypatch.setattr(engine_backward, "check_unchanged", lambda node, rerun=False: None)
        monkeypatch.setattr(
            tg.Tensor, "data",
            property(lambda self: self._data, lambda self, v: self._data.__setitem__(..., v)),
        )
    else:
        monkeypatch.setattr("tinygrad_edu.autograd.modes.no_grad", tg.enable_grad)
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(
            EngineMachine,
            settings=settings(quickly, max_examples=1000, database=None, phases=[Phase.generate]),
        )


def test_without_hypothesis_all_but_the_strategies_works() -> None:
    program = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "import tinygrad_edu as tg\n"
        "from tinygrad_edu.testing import *\n"
        "from tinygrad_edu.testing.mutants import mutation_score\n"
        "import tinygrad_edu.testing.plugin\n"
        "assert gradcheck(tg.exp, [0.5, 1.0]) and mutation_score().perfect\n"
        "try:\n    from tinygrad_edu.testing import given_gradcheck\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "needs hypothesis: pip install 'tinygrad_edu[hypothesis]'" in done.stdout
