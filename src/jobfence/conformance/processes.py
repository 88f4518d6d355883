"""
Layer (d): processes that share the data, and die, or are overtaken, within a call.

A call is made in a process of its own and ended, or held, at one line after the other of
the store's own code. What others see then is the data before the call or after it, and
never something between; what is done while it is held comes before it or after it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

import pytest

from jobfence.conformance import children
from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import START_MS, Bench, held
from jobfence.conformance.blocking import is_async
from jobfence.conformance.capabilities import Capability, requires
from jobfence.conformance.children import Point, Work
from jobfence.conformance.picture import all_jobs, row_faults
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import CancelOutcome, Settlement
from jobfence.store.contract import JobStore

# How many places of a call are tried, of those that it has.
DEATHS, TURNS = 12, 6
# How long a second call may take before it is taken to wait for the one that is held.
TURN_S = 0.1
LATER_MS = START_MS + 5

Ids = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Jobs that are there by name, and a call that finds them."""

    call: Callable[[JobStore, Ids], object]
    jobs: Mapping[str, Mapping[str, Any]]  # the options of each
    handed_off: Sequence[str] = ()  # by name, each as the handoff of that name


KEY: dict[str, Any] = {"concurrency_key": "k", "max_concurrency": 2}


def _enqueue_many(store: JobStore, _: Ids) -> object:
    return store.enqueue_many([JobRequest(name, **KEY) for name in ("x", "y", "z")])


def _settle(store: JobStore, ids: Ids) -> object:
    done = [Settlement(Trigger.COMPLETE, ids[name], name) for name in ("a", "b")]
    return store.settle(done, claim=2)


CALLS: dict[str, Scenario] = {
    "enqueue": Scenario(lambda store, _: store.enqueue("x", **KEY), {}),
    "enqueue_many": Scenario(_enqueue_many, {"a": KEY}, ["a"]),
    "claim": Scenario(lambda store, _: store.claim(2), {"a": KEY, "b": KEY}),
    "complete": Scenario(
        lambda store, ids: store.complete(ids["a"], "a"), {"a": KEY}, ["a"]
    ),
    "fail": Scenario(
        lambda store, ids: store.fail(ids["a"], "a", "no"), {"a": KEY}, ["a"]
    ),
    "settle": Scenario(_settle, dict.fromkeys("abcd", KEY), ["a", "b"]),
    "cancel": Scenario(lambda store, ids: store.cancel(ids["a"]), {"a": KEY}),
}
TURNS_OF: dict[str, tuple[Scenario, Scenario]] = {
    "enqueue and enqueue": (CALLS["enqueue"], CALLS["enqueue_many"]),
    "the same work twice": (
        Scenario(lambda store, _: _once(store), {}),
        Scenario(lambda store, _: _once(store), {}),
    ),
    "claim and claim": (
        Scenario(lambda store, _: store.claim(1), dict.fromkeys("ab", KEY)),
        Scenario(lambda store, _: store.claim(1), {}),
    ),
    "complete and cancel": (
        CALLS["complete"],
        Scenario(lambda store, ids: store.cancel(ids["a"]), {}),
    ),
}


def _once(store: JobStore) -> str:
    return store.enqueue("x", deduplicate_while_queued=True)


def _replace(store: JobStore, _: Ids) -> object:
    return store.replace_scheduled("s", "x", scheduled_at=LATER_MS)


class Processes(SuiteBase):
    """Layer (d)."""

    @requires(Capability.PROCESSES)
    def test_each_process_sees_what_the_others_committed(self, bench: Bench) -> None:
        """Rule T1, between processes: what was committed is there for all."""
        store = _shared(bench)
        names: list[str] = []
        for number in range(3):
            name = f"n{number}"
            children.learn(_work(bench, methodcaller("enqueue", name)))
            names.append(name)
            seen = sorted(job.name for job in all_jobs(store))
            assert seen == names, (
                f"T1: a store sees {seen} after other processes enqueued {names}"
            )
        for job in all_jobs(store):
            children.learn(_work(bench, methodcaller("claim_job", job.id)))
            outcome = store.cancel(job.id).outcome
            assert outcome is CancelOutcome.REQUESTED, (
                f"T1: a job that another process was handed is {outcome} by a cancel"
            )

    @requires(Capability.PROCESSES)
    @pytest.mark.parametrize("call", [*CALLS])
    def test_a_process_that_dies_in_a_call_did_all_of_it_or_nothing(
        self, bench: Bench, call: str
    ) -> None:
        """Rule T1, at the death of a process: nothing is half done, nor stuck."""
        _all_or_nothing(bench, CALLS[call])

    @requires(Capability.PROCESSES, Capability.SCHEDULE_KEYS)
    def test_a_process_that_dies_in_a_replacement_did_all_of_it_or_nothing(
        self, bench: Bench
    ) -> None:
        """Rules T1, K2: the old job is cancelled and the new one there, or neither."""
        _all_or_nothing(bench, Scenario(_replace, {"a": {"schedule_key": "s"}}))

    @requires(Capability.PROCESSES)
    @pytest.mark.parametrize("calls", [*TURNS_OF])
    def test_calls_of_two_processes_come_one_after_the_other(
        self, bench: Bench, calls: str
    ) -> None:
        """Rules T1, E4, C4: one is held at each line, and the other made meanwhile."""
        first, second = TURNS_OF[calls]
        store = _shared(bench)
        points = children.learn(_work(bench, _bound(first, _begin(store, first))))
        right = []
        for order in ((first, second), (second, first)):
            ids = _begin(store, first)
            before = _seen(store)
            for each in order:
                children.learn(_work(bench, _bound(each, ids)))
            right.append(_changed(store, before))
        for at in _some(points, TURNS):
            ids = _begin(store, first)
            works = [_work(bench, _bound(each, ids)) for each in (first, second)]
            children.overtake(works[0], at, works[1], TURN_S)
            seen = _seen(store)
            assert seen in right, (
                f"T1: {calls}, the first held at {_told(at)} until the second had "
                f"ended or waited: {seen}, and one after the other is {_either(right)}"
            )
            _no_faults(store, at)


def _all_or_nothing(bench: Bench, scenario: Scenario) -> None:
    store = _shared(bench)
    ids = _begin(store, scenario)
    before = _seen(store)
    points = children.learn(_work(bench, _bound(scenario, ids)))
    after = _changed(store, before)
    for at in _some(points, DEATHS):
        ids = _begin(store, scenario)
        children.die(_work(bench, _bound(scenario, ids)), at)
        seen = _seen(store)
        assert seen in (before, after), (
            f"T1: killed at {_told(at)}: {seen}; before the call it was {before}, and "
            f"after it {after}"
        )
        _no_faults(store, at)
        store.enqueue("more")  # whatever the dead process had locked


def _shared(bench: Bench) -> JobStore:
    if not children.forks():
        pytest.skip("this system cannot fork a process")
    store = bench.open()
    if is_async(store):
        pytest.skip("an async store is not driven in other processes")
    return store


def _begin(store: JobStore, scenario: Scenario) -> Ids:
    """Put the jobs of a scenario in the place of all others; return ids by name."""
    store.clear()
    ids = {}
    for name, options in scenario.jobs.items():
        if (key := options.get("schedule_key")) is None:
            ids[name] = store.enqueue(name, **options)
        else:
            ids[name] = store.replace_scheduled(key, name, scheduled_at=LATER_MS).job_id
    for name in scenario.handed_off:
        held(store, ids[name], name)
    return ids


def _bound(scenario: Scenario, ids: Ids) -> Callable[[JobStore], object]:
    return lambda store: scenario.call(store, ids)


def _work(bench: Bench, call: Callable[[JobStore], object]) -> Work:
    return Work(bench.open, call)


def _seen(store: JobStore) -> tuple[tuple[object, ...], ...]:
    """Return what there is, without ids and other things that differ each time."""
    return tuple(
        sorted(
            (
                job.name,
                job.status.value,
                job.attempts,
                job.handoffs,
                job.cancel_requested,
                job.last_error or "",
            )
            for job in all_jobs(store)
        )
    )


def _changed(store: JobStore, before: tuple[tuple[object, ...], ...]) -> Any:
    seen = _seen(store)
    assert seen != before, "T1: what another process did is not seen"
    return seen


def _no_faults(store: JobStore, at: Point) -> None:
    found = [fault for job in all_jobs(store) for fault in row_faults(job)]
    found += [
        f"C5: the counter of {each.concurrency_key!r} was "
        f"{each.previous_active_count}, its handed-off jobs are {each.active_count}"
        for each in store.reconcile_active_concurrency().repairs
        if each.previous_active_count != each.active_count
    ]
    assert not found, f"a process stopped at {_told(at)}: {'; '.join(found)}"


def _some(points: Sequence[Point], most: int) -> list[Point]:
    """Choose as many places, the first and the last among them."""
    if not points:
        pytest.skip("no line of the store's own is run by who calls it")
    if len(points) <= most:
        return [*points]
    return [points[n * (len(points) - 1) // (most - 1)] for n in range(most)]


def _either(right: Sequence[object]) -> str:
    return " or ".join(map(str, dict.fromkeys(right)))


def _told(at: Point) -> str:
    file, line, time = at
    return f"{file}:{line}{' for the second time' if time > 1 else ''}"
