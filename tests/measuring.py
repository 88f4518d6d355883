"""
Which tests coverage is measured in, and how; a plugin of every run.

To follow greenlets takes coverage half of a run's time, and only `AsyncSqlJobStore`
works in them: what is measured in its tests is measured apart, and combined.

To trace what a process imports takes as long as all that most of them do: those that
tests start are measured where nothing else goes through the same code.
"""

import os

from collections.abc import Iterator
from contextlib import contextmanager

import coverage
import pytest

# The same code again and again. Of each kind some are measured: the sequences on the
# store in memory, say, which are short.
_REPEATED = (
    "finds_the_fault_too",
    "sequences_meet_all",
    "every_interleaving",
    "states_of_three_jobs",
    "what_the_model_does[sqlite]",
    "spec/test_equality.py::test_the_smallest_slice",
    "spec/test_equality.py::test_what_looks_the_same",
    "spec/test_reader.py::test_the_sound_table",
    "spec/test_reader.py::test_a_change_is_noticed",
    "vital_mutant",
)
# The same on a server as on SQLite, except for what is particular to that server, which
# the tests of tests/store/sql go through, and two of the races.
_ALIKE = ("model_tests/", "/races/", "/journal/")
_FOR_SERVERS = ("test_lock_order.py", "test_plans.py")
_SERVERS = ("postgresql", "mariadb")
# Whose processes are measured.
_WITH_PROCESSES = (
    "cli/test_demo.py::test_nothing_is_lost_or_done_twice_on_sqlite",
    "cli/test_demo_parts.py",
    "cli/test_conform.py::test_a_good_store_exits_0",
    "conformance/test_watch.py",
    "dispatch/test_processes.py",
    "test_a_process_killed_at_any_statement",
    "journal/test_soak.py",
)
# Says to a process that it is to be measured, and how (coverage.process_startup).
_TOLD = "COVERAGE_PROCESS_CONFIG"
_SEQUENCES = "every_method_does_what_the_model_does"
_MEASURED = ("TestMemoryJobStore", "TestAsyncSqlJobStoreOnSQLite")
_IN_GREENLETS = "AsyncSqlJobStore"
_apart: list[coverage.Coverage] = []
_told = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Measure no process from here on, unless a test is one of those; workers run on."""
    shared = getattr(config.option, "numprocesses", None)
    if (hasattr(config, "workerinput") or not shared) and _TOLD in os.environ:
        config.stash[_told] = os.environ.pop(_TOLD)


@pytest.fixture(autouse=True)
def _measured(request: pytest.FixtureRequest) -> Iterator[None]:
    """Measure a test and the processes it starts as it has to be, or not at all."""
    with _processes(request), _this_process(request):
        yield


@contextmanager
def _processes(request: pytest.FixtureRequest) -> Iterator[None]:
    told = request.config.stash.get(_told, None)
    if told is not None and any(
        each in request.node.nodeid for each in _WITH_PROCESSES
    ):
        os.environ[_TOLD] = told
    try:
        yield
    finally:
        os.environ.pop(_TOLD, None)  # to start measuring again sets it


@contextmanager
def _this_process(request: pytest.FixtureRequest) -> Iterator[None]:
    measuring = coverage.Coverage.current()
    repeats = _repeats(request.node.nodeid)
    in_greenlets = hasattr(request.module, _IN_GREENLETS)
    if measuring is None or not (repeats or in_greenlets):
        yield
        return
    instead = None if repeats else _following_greenlets(measuring)
    measuring.stop()
    if instead is not None:
        instead.start()
    try:
        yield
    finally:
        if instead is not None:
            instead.stop()
        measuring.start()


def _repeats(name: str) -> bool:
    """Whether other tests go through the same code."""
    if _SEQUENCES in name:
        return not any(each in name for each in _MEASURED)
    if any(each in name for each in _REPEATED):
        return True
    test = name.lower().partition("::")[2]
    return (
        any(each in name for each in _ALIKE)
        and not any(each in name for each in _FOR_SERVERS)
        and any(each in test for each in _SERVERS)
    )


def _following_greenlets(measuring: coverage.Coverage) -> coverage.Coverage:
    """Return this process's other measurement, with the same settings."""
    if not _apart:
        _apart.append(
            coverage.Coverage(
                config_file=measuring.config.config_file or True,
                data_suffix=True,
                concurrency=["thread", "greenlet"],
            )
        )
    return _apart[0]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """
    Keep what was measured apart.

    With a second measurement, what coverage began by itself in one of several
    processes is no longer saved by itself.
    """
    for each in _apart:
        each.save()
    measuring = coverage.Coverage.current()
    if _apart and measuring is not None and hasattr(session.config, "workerinput"):
        measuring.save()
