"""Runs that end with what lies, raises or says nothing: ordinary failures (D4, D5)."""

from collections.abc import Callable
from typing import Any

import pytest

from jobfence.dispatch import HandoffLost, Reschedule
from jobfence.statemachine.states import JobStatus
from tests.dispatch.support import World, idle, stopped


class Unset(Reschedule):
    """Forgets to call the initialiser it inherits."""

    def __init__(self) -> None:
        pass


def saying(value: object) -> type[Reschedule]:
    class Says(Reschedule):
        delay_ms = property(lambda _self: value)

        def __init__(self) -> None:
            super().__init__(0)

    Says.__qualname__ = Says.__name__ = f"Says_{value!r}"
    return Says


class RaisesWhenAsked(Reschedule):
    """Cannot say when."""

    def __init__(self) -> None:
        super().__init__(0)

    @property
    def delay_ms(self) -> int:
        raise SystemExit("from delay_ms")


class Liar(Exception):
    """Says that it is of another class."""

    __class__ = property(lambda _self: HandoffLost)


class LaterLiar(Exception):
    """Says that it asks to come back."""

    __class__ = property(lambda _self: Reschedule)


class TextLiar(Exception):
    """Says that it is a text."""

    __class__ = property(lambda _self: str)


def refuse(_self: Any, *_given: Any) -> Any:
    raise KeyboardInterrupt("from the error itself")


class NoClass(Exception):
    __class__ = property(refuse)


class NoTraceback(Exception):
    __traceback__ = property(refuse, refuse)
    with_traceback = refuse


class NoText(Exception):
    __str__ = __repr__ = refuse


class NoCause(Exception):
    __cause__ = __context__ = property(refuse, refuse)


HOSTILE: list[type[Exception]] = [
    Unset,
    saying(10**20),
    saying(-1),
    saying(1.5),
    saying("5"),
    saying(None),
    RaisesWhenAsked,
    Liar,
    LaterLiar,
    TextLiar,
    NoClass,
    NoTraceback,
    NoText,
    NoCause,
]


def raising(error: type[Exception]) -> Callable[[], None]:
    def n() -> None:
        raise error

    return n


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("error", HOSTILE, ids=lambda error: error.__name__)
def test_D4_whatever_a_job_ends_with_is_an_ordinary_failure(
    kind: str, error: type[Exception]
) -> None:
    world = World()

    def n() -> None:
        raise error

    async def an() -> None:
        raise error

    world.app.job("n", max_retries=0)(n if kind == "def" else an)
    job_id = world.app.enqueue("n")
    worker = world.worker()
    worker.start()
    try:
        idle(worker)
    finally:
        stopped(worker)
    job = world.job(job_id)
    assert (job.status, job.attempts) == (JobStatus.FAILED, 1)
    assert error.__name__ in str(job.last_error)
    assert world.seen.stages() == []


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Unset, "call super().__init__(delay_ms)"),
        (saying(-1), "delay_ms must be an integer from 0"),
        (saying("5"), "not '5'"),
    ],
)
def test_D4_a_delay_that_is_none_is_told_in_the_failure(
    error: type[Reschedule], told: str
) -> None:
    world = World()

    @world.app.job("n", max_retries=0)
    def n() -> None:
        raise error

    job_id = world.app.enqueue(n)
    with world.running() as worker:
        idle(worker)
    assert told in str(world.job(job_id).last_error)


def test_a_subclass_that_gives_its_delay_comes_back() -> None:
    world = World()
    world.app.job("n", max_retries=0)(raising(saying(250)))
    job_id = world.app.enqueue("n")
    with world.running() as worker:
        idle(worker)
    job = world.job(job_id)
    assert (job.status, job.attempts) == (JobStatus.QUEUED, 0)
    assert job.scheduled_at_ms == world.clock.now_ms() + 250


def test_R6_a_handoff_that_was_not_lost_is_not_said_to_be() -> None:
    # Else nobody would acknowledge the job, and its lease would have to run out.
    world = World()

    @world.app.job("n", max_retries=0)
    def n() -> None:
        raise HandoffLost(world.store.handoffs_for_worker(worker.worker_id)[0])

    job_id = world.app.enqueue(n)
    with world.running() as worker:
        idle(worker)
    assert world.status(job_id) is JobStatus.FAILED
