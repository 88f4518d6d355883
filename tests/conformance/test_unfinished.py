"""A store that lacks something is told so in a sentence, before any rule."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from jobfence.conformance import ALL, Capability, Model
from jobfence.conformance.bench import START_MS, StoreFactory
from jobfence.conformance.stateful.comparing import Divergence
from jobfence.conformance.stateful.pair import Action, Pair, Setting
from jobfence.conformance.whole import METHODS, missing_parts
from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.states import JobStatus
from jobfence.store import MemoryJobStore
from jobfence.store.memory import MemoryData
from tests.conformance.adapters import leaving
from tests.conformance.support import run


class Partly:
    """The store in memory without some of its methods."""

    def __init__(
        self, without: tuple[str, ...], data: MemoryData, **settings: Any
    ) -> None:
        self._without = without
        self._store = MemoryJobStore(data=data, **settings)

    def __getattr__(self, name: str) -> object:
        if name in self._without:
            raise AttributeError(name)
        return getattr(self._store, name)


def without(*methods: str) -> StoreFactory:
    data = MemoryData()

    def open_store(namespace: str, **settings: Any) -> Any:
        return Partly(methods, data, **settings)

    return open_store


def test_a_whole_store_lacks_nothing() -> None:
    assert missing_parts(without(), "n", ALL) == ""


def test_every_method_of_the_core_is_asked_for() -> None:
    told = missing_parts(without("ensure_ready", "claim"), "n", ALL)
    assert told == (
        "Partly lacks `ensure_ready`, `claim`: write them, no store can do without"
    )


def test_a_method_of_a_capability_can_be_written_or_declared_missing() -> None:
    told = missing_parts(without("prune_terminal"), "n", ALL)
    assert told == (
        "Partly lacks `prune_terminal`: write it, "
        "or declare `Capability.RETENTION` missing"
    )
    declared = ALL.without(Capability.RETENTION, because="not here")
    assert missing_parts(without("prune_terminal"), "n", declared) == ""


@pytest.mark.parametrize("method", METHODS)
def test_no_method_is_forgotten(method: str) -> None:
    assert f"`{method}`" in missing_parts(without(method), "n", ALL)


def test_an_open_store_that_takes_something_else_is_told_what() -> None:
    takes_no_clock: Any = lambda namespace: None  # noqa: E731
    told = missing_parts(takes_no_clock, "n", ALL)
    assert told.startswith("open_store opens no store: TypeError: ")
    assert "unexpected keyword argument" in told
    nothing: Any = lambda namespace, **_: None  # noqa: E731
    assert missing_parts(nothing, "n", ALL).startswith("open_store returns None")


def test_a_clear_that_leaves_jobs_is_told_before_what_comes_of_it() -> None:
    told = missing_parts(leaving, "n", ALL)
    assert told == "clear() leaves jobs behind (1): have it delete every row"


def test_a_store_that_keeps_what_it_read_is_told_that_it_misses_another_s_job() -> None:
    data: dict[str, MemoryData] = {}

    class Cached(MemoryJobStore):
        def counts(self) -> Mapping[JobStatus, int]:
            self._data = data["n"].copy()  # and never looks again
            return super().counts()

    def open_store(namespace: str, **settings: Any) -> Cached:
        kept = data.setdefault(namespace, MemoryData())
        return Cached(data=kept, **settings)

    told = missing_parts(open_store, "n", ALL)
    assert "is not found by one opened before: the same namespace" in told


def test_data_that_is_new_whenever_a_store_is_opened_is_told() -> None:
    def open_store(namespace: str, **settings: Any) -> MemoryJobStore:
        return MemoryJobStore(**settings)

    told = missing_parts(open_store, "n", ALL)
    assert "is not found by one opened before: the same namespace" in told


def test_a_clock_of_its_own_is_told() -> None:
    model = Model()

    def open_store(namespace: str, **settings: Any) -> MemoryJobStore:
        return model.open_store(namespace, **{**settings, "clock": ManualClock(5)})

    told = missing_parts(open_store, "n", ALL)
    assert told == (
        f"created_at_ms is 5 and the clock given to open_store says {START_MS}: "
        f"read the time from it"
    )


def test_a_store_that_cannot_be_tried_is_left_to_the_tests() -> None:
    class Broken(MemoryJobStore):
        def enqueue(self, *args: Any, **options: Any) -> str:
            raise OSError("the disk is full")

    def open_broken(namespace: str, **settings: Any) -> Broken:
        return Broken(**settings)

    assert missing_parts(open_broken, "n", ALL) == ""


def test_it_is_said_once_and_nothing_else_is_run(tmp_path: Path) -> None:
    done = run("jobfence.conformance", "adapters:half", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    shown = done.stdout[done.stdout.index("= conformance =") :].splitlines()
    assert shown[1] == "the store is not finished"
    assert "`Capability.RETENTION` missing" in shown[2]
    assert shown[3].startswith("adapters:half: conformance suite ")
    assert " 1 failed" in shown[3]
    assert "passed" not in shown[3]


def test_an_error_no_contract_knows_is_shown_with_the_steps_that_led_to_it() -> None:
    class Breaks(MemoryJobStore):
        def claim(self, limit: int = 1, **options: Any) -> Any:
            raise KeyError(limit)

    pair = Pair(Setting(lambda namespace, **given: Breaks(**given), "n"))
    pair.do(Action(0, "open", (None,)))
    with pytest.raises(Divergence, match=r"expected .., seen KeyError: 7") as found:
        pair.do(Action(0, "claim", (7,)))
    assert [call for call, _ in found.value.steps][-1] == "store1.claim(7)"
    assert isinstance(found.value.__cause__, KeyError)
