"""The ledger: what was never checked is seen; and the plugin that keeps it across processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tinygrad_edu.ops import registry
from tinygrad_edu.testing.compare import Report
from tinygrad_edu.testing.ledger import EXEMPT, PROPERTIES, Ledger, applicable, different_code

ROOT = Path(__file__).resolve().parents[3]


def full() -> Ledger:
    book = Ledger()
    for name, primitive in registry.items():
        book.record(name, *applicable(primitive))
    return book


def test_a_property_that_was_never_checked_is_missing() -> None:
    book = full()
    assert book.missing() == []
    del book.counts["exp", "P3"]
    assert book.missing() == [("exp", "P3")]
    assert book.lines()[-1] == "never checked though it applies: exp P3"


def test_adjoints_count_only_where_the_modes_are_different_code() -> None:
    book = Ledger()
    book.record("tanh", "P4", "P5", "P9")
    book.record("matmul", "P4", "P5", "P9")
    book.record("prod", "P5")  # its tangent is its gradient's rule, transposed
    assert dict(book.counts) == {
        ("tanh", "P4"): 1, ("matmul", "P4"): 1, ("matmul", "P5"): 1, ("matmul", "P9"): 1,
    }  # fmt: skip
    names = ("sum", "softmax", "max", "tanh", "prod")
    assert {n for n in names if different_code(registry[n])} == {
        "sum", "softmax", "max",
    }  # fmt: skip


def test_exemptions_name_what_there_is() -> None:
    assert all(name in registry and known in PROPERTIES for name, known in EXEMPT)
    assert set().union(*map(applicable, registry.values())) == set(PROPERTIES)


def test_it_survives_another_process_and_keeps_the_worst_digits() -> None:
    first, second = Ledger(), Ledger()
    first.record("exp", "P3", report=Report("vjp", "complex step", (15.0, 12.5), 3))
    second.record("exp", "P3", report=Report("vjp", "differences", (13.0,), 3))
    second.add(first.dump())
    assert second.counts["exp", "P3"] == 2
    assert second.digits == {"exp": 12.5}
    assert second.oracles == {"exp": {"complex step", "differences"}}


TEST = """
import pytest

@pytest.mark.parametrize("k", range(4))
def test_it(k, ledger, gradcheck_seeds):
    for seed in gradcheck_seeds:
        ledger.record("exp", "P3")

def test_examples():
    from hypothesis import settings
    print("examples", settings.default.max_examples)
"""


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["one process", "two workers"])
def test_the_plugin_counts_over_workers_and_fails_an_empty_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: list[str]
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(TEST)
    options = ["-p", "tinygrad_edu.testing.plugin", "--gradcheck-profile=ci", "--gradcheck-ledger"]
    done = pytester.runpytest_subprocess(*options, *workers)
    done.stdout.fnmatch_lines(["exp * 20 *", "20 property checks on * primitives"])
    done.stdout.fnmatch_lines(["never checked though it applies: abs P0, *"])
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    assert pytester.runpytest_subprocess(*options[:2], *workers).ret == 0


def test_a_profile_sets_how_many_examples(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(TEST)
    for profile, examples in (("quick", 10), ("deep", 2000)):
        done = pytester.runpytest_subprocess(
            "-p", "tinygrad_edu.testing.plugin", f"--gradcheck-profile={profile}", "-s"
        )
        done.stdout.fnmatch_lines([f"*examples {examples}*"])
