"""A pytest plugin: how thoroughly derivatives are tested, and a ledger of what was.

    pytest -p tinygrad_edu.testing.plugin --gradcheck-profile=deep

Profiles: `quick` takes seconds (10 examples a property test), `ci` minutes (50), `deep` a night
(2,000, with hypothesis' database); all but `deep` draw the same examples every time.
`--gradcheck-ledger` prints how often each primitive was checked and to how many digits, and fails
the run where a property that applies was never checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tinygrad_edu.testing.ledger import Ledger

EXAMPLES = {"quick": 10, "ci": 50, "deep": 2000}
SEEDS = {"quick": 1, "ci": 5, "deep": 200}
_LEDGER = pytest.StashKey[Ledger]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The two options."""
    group = parser.getgroup("derivatives")
    group.addoption(
        "--gradcheck-profile", choices=list(EXAMPLES), default=None,
        help="how many examples: quick (seconds), ci (minutes), deep (overnight)",
    )  # fmt: skip
    group.addoption(
        "--gradcheck-ledger", action="store_true",
        help="print which property was checked on which primitive; fail where one never was",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Set hypothesis' profile where one was asked for."""
    config.stash[_LEDGER] = Ledger()
    chosen = config.getoption("--gradcheck-profile")
    if chosen is None:
        return
    try:
        from hypothesis import settings
    except ModuleNotFoundError:  # the strategies need it, the checks do not
        return
    deep = chosen == "deep"
    more: dict[str, Any] = {} if deep else {"derandomize": True, "database": None}
    name = f"gradcheck-{chosen}"
    settings.register_profile(name, max_examples=EXAMPLES[chosen], deadline=None, **more)
    settings.load_profile(name)


@pytest.fixture(scope="session")
def ledger(pytestconfig: pytest.Config) -> Ledger:
    """`ledger.record(primitive, *properties, report=…)`."""
    return pytestconfig.stash[_LEDGER]


@pytest.fixture(scope="session")
def gradcheck_seeds(pytestconfig: pytest.Config) -> range:
    """Numbers to draw inputs with: 1 by default and in `quick`, more in the other profiles."""
    return range(SEEDS[pytestconfig.getoption("--gradcheck-profile") or "quick"])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands its ledger on; the controller judges the whole."""
    config = session.config
    book = config.stash[_LEDGER]
    output = getattr(config, "workeroutput", None)
    if output is not None:
        output["gradcheck_ledger"] = book.dump()
    elif config.getoption("--gradcheck-ledger") and book.missing():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """(Of pytest-xdist.) A worker is done: its ledger joins ours."""
    dumped = getattr(node, "workeroutput", {}).get("gradcheck_ledger")
    if dumped is not None:
        node.config.stash[_LEDGER].add(dumped)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> Iterator[None] | None:
    """The table."""
    if config.getoption("--gradcheck-ledger"):
        terminalreporter.section("derivatives")
        for line in config.stash[_LEDGER].lines():
            terminalreporter.write_line(line)
    return None
