"""A whole run in CI must have met everything that it claims to test; what is measured."""

import os

from collections.abc import Iterator
from typing import Any

import coverage
import pytest

from jobfence.conformance.sometimes import RACES, SEQUENCES, missing, seen

# Fewer tests than that, and the run was of some part.
WHOLE_RUN = 2000
_collected = [0]  # the most that a process of this run found
# The same code again and again: to measure it takes nearly twice as long as to run it.
# Of each kind some are measured: the sequences on SQLite, say.
_REPEATED = (
    "finds_the_fault_too",
    "sequences_meet_all",
    "every_interleaving",
    "states_of_three_jobs",
    "mutant",
)
_SEQUENCES, _MEASURED = "every_method_does_what_the_model_does", "SQLite"


@pytest.fixture(autouse=True)
def _measured(request: pytest.FixtureRequest) -> Iterator[None]:
    """Stop measuring coverage for a test that repeats what others do."""
    name = request.node.nodeid
    repeats = any(each in name for each in _REPEATED) or (
        _SEQUENCES in name and _MEASURED not in name
    )
    measuring = coverage.Coverage.current() if repeats else None
    if measuring is None:
        yield
        return
    measuring.stop()
    try:
        yield
    finally:
        measuring.start()


def pytest_sessionfinish(session: pytest.Session) -> None:
    _collected.append(session.testscollected)
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:  # one of several processes: the first one asks
        output["met"] = dict(seen)
        output["collected"] = session.testscollected
        return
    if os.environ.get("CI") != "true" or max(_collected) < WHOLE_RUN:
        return
    # Races are staged on servers. With CI=true PostgreSQL is there, or left out on purpose.
    without = os.environ.get("JOBFENCE_TEST_POSTGRESQL_URL") == ""
    expected = SEQUENCES if without else SEQUENCES + RACES
    if session.exitstatus == pytest.ExitCode.OK and (never := missing(expected)):
        print("never happened in this run: " + "; ".join(never))  # noqa: T201
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what one of several processes has met."""
    output: dict[str, Any] = getattr(node, "workeroutput", {})
    seen.update(output.get("met", {}))
    _collected.append(output.get("collected", 0))
