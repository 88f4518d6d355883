"""What a stop is given, and how a running job learns of it (rule D6)."""

import asyncio
import itertools
import math
import threading
import time

from collections.abc import Iterator
from typing import Any

import pytest

from jobfence.dispatch import JobApp, Reschedule, current_job
from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.states import JobStatus
from jobfence.store.memory import MemoryJobStore
from tests.dispatch.support import NEVER_MS, PATIENCE_S, Held, World, reached

NEVER_S = NEVER_MS / 1000

BAD_SECONDS: list[Any] = [
    "5",
    pytest.param(10**400, id="huge"),
    math.nan,
    -1,
    True,
]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def held(world: World) -> Iterator[Held]:
    job = Held(world)
    yield job
    job.release.set()


@pytest.mark.parametrize("grace_s", [None, *BAD_SECONDS])
def test_a_grace_that_is_none_is_refused_before_anything_stops(
    world: World, grace_s: Any
) -> None:
    with world.running() as worker:
        for stop in (worker.stop, worker.request_stop, worker.run):
            with pytest.raises(InvalidOption, match="grace_s"):
                stop(grace_s)
        with pytest.raises(InvalidOption, match="grace_s"):
            asyncio.run(worker.astop(grace_s))
        assert worker.state.name == "RUNNING"
    with pytest.raises(InvalidOption, match="grace_s"):
        world.worker().run(grace_s)  # and is not started


@pytest.mark.parametrize("timeout_s", BAD_SECONDS)
def test_a_time_out_that_is_none_is_refused(world: World, timeout_s: Any) -> None:
    worker = world.worker()
    for wait in (worker.wait_idle, world.app.wait_idle):
        with pytest.raises(InvalidOption, match="timeout_s"):
            wait(timeout_s)


@pytest.mark.parametrize("grace_s", [None, *BAD_SECONDS])
def test_an_app_refuses_such_a_grace_before_it_starts_or_closes(grace_s: Any) -> None:
    app = JobApp(MemoryJobStore)
    with (
        pytest.raises(InvalidOption, match="grace_s"),
        app.running(grace_s=grace_s),
    ):
        raise AssertionError
    with app.running():
        store = app.store
        with pytest.raises(InvalidOption, match="grace_s"):
            app.close(grace_s)
        assert app.health().ready
        assert app.store is store


def test_a_grace_without_end_waits_for_running_jobs(world: World, held: Held) -> None:
    job_id = world.app.enqueue("held")
    worker = world.worker()
    worker.start()
    reached(held.started)
    worker.request_stop(math.inf)
    held.release.set()
    worker.stop(math.inf)
    assert world.status(job_id) is JobStatus.COMPLETED


def test_a_job_sees_a_stop_from_its_beginning_and_is_not_cancelled_by_it(
    world: World, held: Held
) -> None:
    world.app.enqueue("held")
    with world.running() as worker:
        reached(held.started)
        (context,) = held.contexts
        before = (context.stopping, context.cancelled)
        worker.request_stop(NEVER_S)
        during = (context.stopping, context.cancelled)
        held.release.set()
    assert (before, during) == ((False, False), (True, False))


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_long_job_that_looks_at_the_stop_saves_its_progress_and_comes_back(
    world: World, kind: str
) -> None:
    started = threading.Event()
    saved: list[int] = []

    def n() -> None:
        for step in itertools.count():
            started.set()
            if current_job().stopping:
                saved.append(step)
                raise Reschedule(delay_ms=0)
            time.sleep(0)

    async def an() -> None:
        for step in itertools.count():
            started.set()
            if current_job().stopping:
                saved.append(step)
                raise Reschedule(delay_ms=0)
            await asyncio.sleep(0)

    world.app.job("n")(n if kind == "def" else an)
    job_id = world.app.enqueue("n")
    worker = world.worker()
    worker.start()
    reached(started)
    stop = threading.Thread(target=worker.stop, args=(NEVER_S,), daemon=True)
    stop.start()
    stop.join(PATIENCE_S)
    assert not stop.is_alive()
    job = world.job(job_id)
    assert (job.status, job.attempts) == (JobStatus.QUEUED, 0)
    assert len(saved) == 1
