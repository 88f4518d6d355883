"""Calls at once: a store without atomicity does not get through, a sound one does."""

import sys

from pathlib import Path
from typing import Any

import pytest

from jobfence.conformance import Model
from jobfence.conformance.base import SuiteBase
from jobfence.conformance.examples.racing import Racing
from jobfence.conformance.faults import FaultySuite
from jobfence.conformance.faults.races import ReadBeforeTheLock
from jobfence.conformance.layers import Check, checks
from jobfence.conformance.threads import THREADS, race
from jobfence.statemachine.errors import RetryableError
from jobfence.store import AsyncSqlJobStore, MemoryJobStore, SqlJobStore

RACES = tuple(checks((Racing,)))


class OnSQLite(SuiteBase):
    def __init__(self, file: Path) -> None:
        self.url = f"sqlite:///{file}"

    def open_store(self, namespace: str, **settings: Any) -> SqlJobStore:
        return SqlJobStore(self.url, table_prefix=f"{namespace}_", **settings)


class OnSQLiteAwaited(OnSQLite):
    def open_store(self, namespace: str, **settings: Any) -> Any:
        return AsyncSqlJobStore(self.url, table_prefix=f"{namespace}_", **settings)


class InMemory(SuiteBase):
    def __init__(self) -> None:
        self.open_store = Model().open_store  # type: ignore[method-assign]


@pytest.mark.parametrize("check", RACES, ids=str)
def test_every_race_finds_a_look_before_the_lock(check: Check) -> None:
    problem = check.run(FaultySuite(ReadBeforeTheLock), "n")
    assert isinstance(problem, AssertionError)
    assert "at once" in str(problem)


@pytest.mark.parametrize("check", RACES, ids=str)
def test_no_race_finds_anything_in_a_sound_store(check: Check, tmp_path: Path) -> None:
    file = tmp_path / "jobs.db"
    for suite in (InMemory(), OnSQLite(file), OnSQLiteAwaited(file)):
        assert check.run(suite, "n") is None


def test_an_error_of_one_caller_is_told_with_how_many_had_one() -> None:
    def refuse(store: object) -> None:
        raise OSError("the disk is full")

    with pytest.raises(AssertionError, match=r"6 callers at once 6 got an error.*full"):
        race([MemoryJobStore()], refuse)


def test_what_the_store_wants_repeated_is_repeated() -> None:
    class Busy(MemoryJobStore):
        asked = 0

        def enqueue(self, *args: Any, **options: Any) -> str:
            self.asked += 1
            if self.asked % 2:
                raise RetryableError("busy")
            return super().enqueue(*args, **options)

    store = Busy()
    race([store], lambda each: each.enqueue("mail"))
    assert len(store.list_jobs()) == THREADS


def test_threads_switch_as_before_when_a_race_is_over() -> None:
    usual = sys.getswitchinterval()
    race([MemoryJobStore()], lambda each: each.enqueue("mail"))
    assert sys.getswitchinterval() == usual
