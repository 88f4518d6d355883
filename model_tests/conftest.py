"""A whole run in CI must have met everything that it claims to test."""

import os

from typing import Any

import pytest

from jobfence.conformance.sometimes import RACES, SEQUENCES, missing, seen

# Fewer tests than that, and the run was of some part.
WHOLE_RUN = 2000
_collected = [0]  # the most that a process of this run found


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
