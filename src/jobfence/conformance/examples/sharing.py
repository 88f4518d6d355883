"""Rule E2: arguments that were given to the store, or by it, are the caller's own."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import START_MS, Bench, held, there
from jobfence.statemachine.values import Job
from jobfence.store.contract import JobStore

ARGS: list[Any] = [1, [2, [3]], {"x": [4]}]
KWARGS: dict[str, Any] = {"deep": {"y": [5]}, "flat": [6]}


def given() -> tuple[list[Any], dict[str, Any]]:
    """Return arguments that nobody else has."""
    return [1, [2, [3]], {"x": [4]}], {"deep": {"y": [5]}, "flat": [6]}


def spoil(value: object) -> None:
    """Change whatever can be changed in it, at every depth."""
    if isinstance(value, Job):
        spoil(value.args)
        spoil(value.kwargs)
    elif isinstance(value, list | tuple):
        for each in value:
            spoil(each)
        if isinstance(value, list):
            value.append("spoilt")
    elif value is not None and not isinstance(value, str | int):
        mapping: Any = value
        for each in mapping.values():
            spoil(each)
        with suppress(TypeError):  # a mapping that cannot be written to is as good
            mapping["spoilt"] = True


def _claimed(store: JobStore, _job_id: str) -> Iterator[Job | None]:
    (handoff,) = store.claim(1, worker_id="w1")
    yield handoff.job


def _held(store: JobStore, job_id: str) -> Iterator[Job | None]:
    handoff = held(store, job_id, "mine")
    yield handoff.job
    again = store.claim_job(job_id, handoff_id="mine")
    yield None if again is None else again.job
    yield from (each.job for each in store.handoffs_for_worker("local"))
    yield store.extend_lease(job_id, "mine").job
    yield store.complete(job_id, "mine").job
    yield store.complete(job_id, "mine").job


def _recovered(store: JobStore, job_id: str) -> Iterator[Job | None]:
    held(store, job_id)
    yield from store.recover_handed_off()


GIVEN_BY: dict[str, Callable[[JobStore, str], Iterator[Job | None]]] = {
    "get": lambda store, job_id: iter([store.get(job_id)]),
    "list_jobs": lambda store, _: iter(store.list_jobs()),
    "next_available": lambda store, _: iter([store.next_available()]),
    "claim": _claimed,
    "a handoff and its acknowledgements": _held,
    "recover_handed_off": _recovered,
}


class Sharing(SuiteBase):
    """Part of layer (b)."""

    @pytest.mark.parametrize("call", [*GIVEN_BY])
    def test_what_is_done_to_a_job_that_was_given_out_changes_no_other(
        self, bench: Bench, call: str
    ) -> None:
        """Rule E2: the lists in its arguments are the caller's, at every depth."""
        store, other = bench.open(), bench.open()
        job_id = store.enqueue("mail", *given())
        for job in GIVEN_BY[call](store, job_id):
            assert job is not None
            assert (list(job.args), job.kwargs) == (ARGS, KWARGS)
            spoil(job)
            for each in (store, other):
                seen = there(each, job_id)
                assert (list(seen.args), seen.kwargs) == (ARGS, KWARGS), (
                    f"E2: what was done to a job from {call} is in the store"
                )

    def test_a_job_of_the_future_is_the_callers_too(self, bench: Bench) -> None:
        """Rule E2, of `next_scheduled`."""
        store = bench.open()
        job_id = store.enqueue("mail", *given(), scheduled_at=START_MS + 5)
        spoil(store.next_scheduled())
        seen = there(store, job_id)
        assert (list(seen.args), seen.kwargs) == (ARGS, KWARGS)

    def test_what_is_done_to_the_arguments_after_the_call_changes_no_job(
        self, bench: Bench
    ) -> None:
        """Rule E2: a job has what they were when it was enqueued."""
        store = bench.open()
        args, kwargs = given()
        job_id = store.enqueue("mail", args, kwargs)
        spoil(args)
        spoil(kwargs)
        seen = there(store, job_id)
        assert (list(seen.args), seen.kwargs) == (ARGS, KWARGS)
        assert store.enqueue("mail", *given(), deduplicate_while_queued=True) == job_id
