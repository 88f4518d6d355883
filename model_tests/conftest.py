"""A whole run in CI must have met everything that it claims to test."""

import os

import pytest

from jobfence.conformance.sometimes import missing

# Fewer tests than that, and the run was of some part.
WHOLE_RUN = 2000


def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("CI") != "true" or session.testscollected < WHOLE_RUN:
        return
    if session.exitstatus == pytest.ExitCode.OK and (never := missing()):
        print("never happened in this run: " + "; ".join(never))  # noqa: T201
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
