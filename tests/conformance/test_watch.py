"""A test of the suite that does not end is named, with the line that it is in."""

import threading

from pathlib import Path

import pytest

from jobfence.conformance import watch
from tests.conformance.support import run


def test_what_does_not_end_is_named_with_its_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "PATIENCE_S", 0.01)
    said: list[str] = []
    told = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        told.set()

    def claim() -> None:
        assert told.wait(20)

    with watch.watched("test_it", say):
        claim()
    (line,) = said
    assert line.startswith("test_it has been running for 0.01 s, now in ")
    assert "(test_watch.py:" in line  # not in threading.py, where it waits


def test_what_ends_in_time_leaves_no_timer_behind() -> None:
    said: list[str] = []
    before = set(threading.enumerate())
    with watch.watched("test_it", said.append):
        (timer,) = (
            each
            for each in set(threading.enumerate()) - before
            if isinstance(each, threading.Timer)
        )
    timer.join(20)
    assert not timer.is_alive()
    assert said == []


def test_a_run_without_a_test_file_says_so_as_it_happens(tmp_path: Path) -> None:
    ran = run(
        *("jobfence", "conform", "--adapter", "adapters:watched_closely"),
        *("-k", "test_an_acknowledgement_does"),
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " has been running for 0 s, now in " in ran.stdout
