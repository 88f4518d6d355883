"""Calling a function: its end, its frames, and what a worker survives."""

import asyncio
import functools
import gc
import sys
import threading
import weakref

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from jobfence.dispatch import Registry, current_job, processes
from jobfence.dispatch.context import JobContext
from jobfence.dispatch.events import EventHub, JobStarted
from jobfence.dispatch.launcher import Launcher
from jobfence.dispatch.runs import Run
from jobfence.dispatch.settings import worker_settings
from jobfence.dispatch.tasks import TaskLoop
from jobfence.dispatch.threads import ThreadPool
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Job
from tests.dispatch import jobs
from tests.dispatch.support import PATIENCE_S, World, idle, reached


def ended(world: World, *args: int) -> Job:
    job_id = world.app.options(max_retries=0).enqueue("n", *args)
    with world.running() as worker:
        idle(worker)
    return world.job(job_id)


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, BaseException])
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_whatever_a_job_raises_fails_the_job_and_not_the_worker(
    world: World, kind: str, error: type[BaseException]
) -> None:
    def n() -> None:
        raise error

    async def an() -> None:
        raise error

    world.app.job("n")(n if kind == "def" else an)
    job = ended(world)
    assert (job.status, job.attempts) == (JobStatus.FAILED, 1)
    assert error.__name__ in str(job.last_error)


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_the_traceback_begins_in_the_job(world: World, kind: str) -> None:
    def n() -> None:
        raise ValueError("staged")

    async def an() -> None:
        raise ValueError("staged")

    world.app.job("n")(n if kind == "def" else an)
    first_frame = str(ended(world).last_error).splitlines()[1]
    assert first_frame.endswith("in n" if kind == "def" else "in an")


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_arguments_that_do_not_fit_at_run_time_fail_the_job(
    world: World, kind: str
) -> None:
    def n() -> None: ...

    async def an() -> None: ...

    world.app.job("n")(n if kind == "def" else an)
    job_id = world.store.enqueue("n", [1], max_retries=0)  # by an older release, say
    with world.running() as worker:
        idle(worker)
    assert "takes 0 positional arguments but 1 was given" in str(
        world.job(job_id).last_error
    )


def hidden(function: Callable[..., Awaitable[None]]) -> Callable[..., object]:
    """Wrap an `async def` so that it looks like a `def`."""

    @functools.wraps(function)
    def wrapper(*args: object) -> object:
        return function(*args)

    return wrapper


def test_a_def_that_returns_a_coroutine_fails_instead_of_doing_nothing(
    world: World,
) -> None:
    async def n() -> None:
        raise AssertionError

    world.app.job("n")(hidden(n))
    job = ended(world)
    assert job.status is JobStatus.FAILED
    assert "returned an awaitable, which nobody would run" in str(job.last_error)


def test_a_def_that_returns_another_awaitable_fails_as_well(world: World) -> None:
    class Later:
        def __await__(self) -> object: ...

    world.app.job("n")(Later)
    assert "returned an awaitable" in str(ended(world).last_error)


def steps() -> Iterator[int]:
    yield 1
    raise AssertionError


async def asteps() -> AsyncIterator[int]:
    yield 1
    raise AssertionError


@pytest.mark.parametrize(
    ("make", "told"), [(steps, "a generator"), (asteps, "an async generator")]
)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_job_that_returns_a_generator_fails_instead_of_doing_nothing(
    world: World, kind: str, make: Callable[[], object], told: str
) -> None:
    def n() -> object:
        return make()

    async def an() -> object:
        return make()

    world.app.job("n")(n if kind == "def" else an)
    job = ended(world)
    assert job.status is JobStatus.FAILED
    assert f"job 'n' returned {told}, which nobody would run" in str(job.last_error)


def test_an_async_job_that_returns_a_coroutine_fails(world: World) -> None:
    async def inner() -> None:
        raise AssertionError

    async def n() -> object:
        return inner()

    world.app.job("n")(n)
    assert "returned an awaitable, which nobody would" in str(ended(world).last_error)


def test_any_other_result_is_dropped(world: World) -> None:
    world.app.job("n")(lambda: {"not": object()})
    assert ended(world).status is JobStatus.COMPLETED


def test_a_failed_job_s_locals_live_no_longer_than_its_run(world: World) -> None:
    class Resource:
        pass

    alive: list[weakref.ref[Resource]] = []

    @world.app.job("n", max_retries=0)
    def n() -> None:
        resource = Resource()
        alive.append(weakref.ref(resource))
        raise ValueError("staged")

    gc.disable()
    try:
        ended(world)
        assert alive[0]() is None
    finally:
        gc.enable()


def test_a_task_that_timed_out_shows_where_it_was(world: World) -> None:
    async def waits_for_a_reply() -> None:
        await asyncio.sleep(PATIENCE_S)

    world.app.job("n", timeout_ms=1)(waits_for_a_reply)
    assert "in waits_for_a_reply" in str(ended(world).last_error)


def test_tasks_run_at_once_on_one_thread(world: World) -> None:
    threads: set[int] = set()
    together: list[asyncio.Event] = []

    @world.app.job("n")
    async def n() -> None:
        threads.add(threading.get_ident())
        if not together:
            together.append(asyncio.Event())
            await together[0].wait()
        else:
            together[0].set()

    for _ in range(2):
        world.app.enqueue(n)
    with world.running() as worker:
        idle(worker)
    assert len(threads) == 1
    assert world.store.counts()[JobStatus.COMPLETED] == 2


def test_a_task_knows_its_job_in_the_threads_it_starts(world: World) -> None:
    seen: list[str] = []

    @world.app.job("n")
    async def n() -> None:
        seen.append(await asyncio.to_thread(lambda: current_job().job.id))

    job = ended(world)
    assert seen == [job.id]


def test_a_task_that_was_given_back_before_it_began_is_not_begun(world: World) -> None:
    blocked, release = threading.Event(), threading.Event()

    @world.app.job("blocker")
    async def blocker() -> None:
        blocked.set()
        reached(release)  # a mistake: it blocks the loop

    @world.app.job("n")
    async def n() -> None:
        raise AssertionError

    first, second = world.app.enqueue(blocker), world.app.enqueue(n)
    worker = world.worker()
    worker.start()
    reached(blocked)
    while world.status(second) is not JobStatus.HANDED_OFF:
        threading.Event().wait(0.001)
    worker.request_stop(PATIENCE_S)
    while world.status(second) is not JobStatus.QUEUED:
        threading.Event().wait(0.001)
    release.set()
    worker.stop(PATIENCE_S)
    assert world.status(first) is JobStatus.COMPLETED
    assert world.job(second).attempts == 0
    assert len(world.seen.of(JobStarted)) == 1


def test_a_thread_that_was_given_back_before_it_began_is_not_begun() -> None:
    world = World()

    @world.app.job("n")
    def n() -> None:
        raise AssertionError

    # The thread is started only after the run was given back.
    held: list[Callable[[], None]] = []
    worker = world.worker()
    world.app.enqueue(n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ThreadPool, "submit", lambda _self, call: held.append(call))
        worker.start()
        while not held:
            threading.Event().wait(0.001)
        worker.stop(0)
    held[0]()
    assert world.seen.of(JobStarted) == []
    assert world.store.counts()[JobStatus.QUEUED] == 1


def test_a_run_that_was_given_back_starts_no_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.store.enqueue("tell", execution_mode="process")
    (handoff,) = world.store.claim()
    hub = EventHub("w", world.seen)
    run = Run(handoff, JobContext(handoff, clock=world.clock), done=lambda _run: None)
    assert run.withdraw()
    monkeypatch.setattr(processes, "JobProcess", NeverAsked)
    processes.run_in_process(run, jobs.app.registry.resolve("tell"), hub)
    assert world.seen.events == []


class NeverAsked:
    def kill(self) -> None:
        raise AssertionError


def test_a_job_of_an_unknown_name_that_was_given_back_does_not_fail() -> None:
    world = World()
    world.store.enqueue("gone")
    (handoff,) = world.store.claim()
    hub = EventHub("w", world.seen)
    launcher = Launcher(
        Registry(), world.store, worker_settings(), hub, clock=world.clock
    )
    run = launcher.make_run(handoff, lambda _run: None)
    assert run.withdraw()
    given_back = run.outcome
    launcher.launch(run)
    assert run.outcome is given_back
    launcher.close()


def test_idle_threads_are_used_again() -> None:
    pool = ThreadPool("test")
    names: list[str] = []
    for _ in range(20):
        done = threading.Event()

        def call(done: threading.Event = done) -> None:
            names.append(threading.current_thread().name)
            done.set()

        pool.submit(call)
        reached(done)
    pool.close()
    # A thread counts as idle a moment after its call has ended.
    assert len(set(names)) < 20


def test_as_many_threads_as_calls_at_once() -> None:
    pool = ThreadPool("test")
    together = threading.Barrier(5)

    def meet() -> None:
        together.wait(PATIENCE_S)

    for _ in range(4):
        pool.submit(meet)
    together.wait(PATIENCE_S)
    pool.close()


def test_a_loop_whose_thread_cannot_be_started_leaves_no_coroutine_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def job() -> None: ...

    monkeypatch.setattr(threading.Thread, "start", refuse)
    coroutine = job()
    with pytest.raises(RuntimeError, match="can't start"):
        TaskLoop("test").submit(coroutine)
    assert sys.getrefcount(coroutine) < 4
    with pytest.raises(RuntimeError, match="cannot reuse"):
        coroutine.send(None)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_a_task_of_a_job_raises_fails_that_job_alone(
    world: World, error: type[BaseException]
) -> None:
    waiting: list[asyncio.Event] = []

    async def sub() -> None:
        raise error

    @world.app.job("other", max_retries=0)
    async def other() -> None:
        waiting.append(asyncio.Event())
        await waiting[0].wait()

    @world.app.job("gathers", max_retries=0)
    async def gathers() -> None:
        await asyncio.gather(sub())

    @world.app.job("forgets", max_retries=0)
    async def forgets() -> None:
        task = asyncio.create_task(sub())
        await asyncio.wait([task])
        task.exception()

    @world.app.job("last", max_retries=0)
    async def last() -> None:
        waiting[0].set()

    with world.running() as worker:
        names = [other, gathers, forgets, last]
        ids = [world.app.enqueue(each) for each in names]
        idle(worker)
    assert [world.status(each) for each in ids] == [
        JobStatus.COMPLETED,
        JobStatus.FAILED,
        JobStatus.COMPLETED,
        JobStatus.COMPLETED,
    ]
    assert error.__name__ in str(world.job(ids[1]).last_error)
    assert world.seen.stages() == []


def test_a_job_that_stops_its_loop_stops_nothing(world: World) -> None:
    @world.app.job("n")
    async def n() -> None:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert ended(world).status is JobStatus.COMPLETED
    assert world.seen.stages() == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_lost_loop_ends_its_tasks_and_the_next_task_has_a_new_one() -> None:
    tasks = TaskLoop("test")
    begun, cancelled, ran = threading.Event(), threading.Event(), threading.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def waits() -> None:
        loops.append(asyncio.get_running_loop())
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()

    async def runs() -> None:
        loops.append(asyncio.get_running_loop())
        ran.set()

    tasks.submit(waits())
    reached(begun)
    gc.collect()  # nothing but the loop's thread refers to the task
    thread = tasks._thread  # noqa: SLF001
    assert thread is not None

    def lose() -> None:
        thread.loop.set_exception_handler(refuse)
        raise SystemExit

    def refuse(*_args: object) -> None:
        raise KeyboardInterrupt

    thread.loop.call_soon_threadsafe(lose)
    reached(cancelled)
    thread.join(PATIENCE_S)
    tasks.submit(runs())
    reached(ran)
    assert loops[0].is_closed()
    assert loops[1] is not loops[0]
    tasks.close()
    assert loops[1].is_closed()


def test_a_task_that_nothing_else_refers_to_ends_and_is_not_collected() -> None:
    tasks = TaskLoop("test")
    begun, ended = threading.Event(), threading.Event()
    waiting: list[weakref.ref[asyncio.Future[None]]] = []

    async def waits() -> None:
        future = asyncio.get_running_loop().create_future()
        waiting.append(weakref.ref(future))
        begun.set()
        await future
        ended.set()

    tasks.submit(waits())
    reached(begun)
    gc.collect()
    future, thread = waiting[0](), tasks._thread  # noqa: SLF001
    assert future is not None
    assert thread is not None
    thread.loop.call_soon_threadsafe(future.set_result, None)
    reached(ended)
    tasks.close()


def test_a_lost_loop_can_be_closed() -> None:
    tasks = TaskLoop("test")
    ran = threading.Event()

    async def runs() -> None:
        ran.set()

    tasks.submit(runs())
    reached(ran)
    thread = tasks._thread  # noqa: SLF001
    assert thread is not None
    thread.end()
    thread.join(PATIENCE_S)
    assert thread.loop.is_closed()
    tasks.close()


def test_a_loop_that_cannot_be_made_is_an_error_of_the_task_that_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> asyncio.AbstractEventLoop:
        raise OSError(24, "Too many open files")

    ran = threading.Event()

    async def job() -> None:
        ran.set()

    tasks, coroutine = TaskLoop("test"), job()
    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "new_event_loop", refuse)
        with pytest.raises(OSError, match="Too many open files"):
            tasks.submit(coroutine)
    with pytest.raises(RuntimeError, match="cannot reuse"):
        coroutine.send(None)
    tasks.submit(job())  # with a descriptor again
    reached(ran)
    tasks.close()


def test_a_loop_that_was_never_started_can_be_closed() -> None:
    TaskLoop("test").close()
