"""Calling a job's function, in a thread or a task (rules D4 and D8)."""

import asyncio
import inspect

from collections.abc import Coroutine, Generator
from types import AsyncGeneratorType, CoroutineType, GeneratorType

from jobfence.dispatch.context import CURRENT, JobContext, Reschedule
from jobfence.dispatch.errors import JobTimedOut
from jobfence.dispatch.events import AFTER_COMPLETION, EventHub, JobStarted
from jobfence.dispatch.registry import RegisteredJob
from jobfence.dispatch.runs import Run

_UNBEGUN: dict[type, str] = {
    CoroutineType: "an awaitable",
    GeneratorType: "a generator",
    AsyncGeneratorType: "an async generator",
}
_UNRUN = (
    "job {0!r} returned {1}, which nobody would run; register an `async def` and await "
    "it there, or run it to its end inside the job"
)


def call(run: Run, job: RegisteredJob, hub: EventHub) -> None:
    """Run a `def` job on this thread."""
    if not begin(run, hub):
        return
    token = CURRENT.set(run.context)
    error: BaseException | None = None
    try:
        run.context.ambient.begin()
        result = job.function(*run.handoff.job.args, **run.handoff.job.kwargs)
        refuse_unrun(job.name, result)
    except BaseException as raised:  # noqa: BLE001  SystemExit fails a job, not a worker
        error = own_frames(raised)
    finally:
        CURRENT.reset(token)
    finish(run, error, hub)
    error = None  # with its traceback it would keep this frame, and all of the job's


async def acall(run: Run, job: RegisteredJob, hub: EventHub) -> None:
    """Run an `async def` job in this task."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None

    # Set before the run begins, so that a stop never takes it for a thread.
    def cancel() -> None:
        loop.call_soon_threadsafe(task.cancel)

    run.stopper = cancel
    if not begin(run, hub):
        return
    CURRENT.set(run.context)  # a task has a context of its own: nothing to reset
    scope = asyncio.timeout(None if run.timeout_ms is None else run.timeout_ms / 1000)
    error: BaseException | None = None
    try:
        run.context.ambient.begin()
        async with scope:
            result = job.function(*run.handoff.job.args, **run.handoff.job.kwargs)
            assert inspect.isawaitable(result)
            refuse_unrun_by_async(job.name, await result)
    except BaseException as raised:  # noqa: BLE001  SystemExit fails a job, not a worker
        error = own_frames(raised)
        if run.timeout_ms is not None and scope.expired():
            error = JobTimedOut(job.name, run.timeout_ms)
            error.__cause__ = raised  # shows where the job was
    finish(run, error, hub)
    error = None  # as above


def begin(run: Run, hub: EventHub) -> bool:
    """Begin a run and tell so; False if it was given back before."""
    begun = run.begin()
    if begun:
        hub.emit(JobStarted(worker_id=hub.worker_id, handoff=run.handoff))
    return begun


def finish(run: Run, error: BaseException | None, hub: EventHub) -> None:
    """End a run, and report an error that comes too late to fail the job."""
    error = uncommitted(run.context, error)
    if error is not None and run.context.completion is not None:
        hub.error(AFTER_COMPLETION, error)
    run.finish(error)


def uncommitted(
    context: JobContext, error: BaseException | None
) -> BaseException | None:
    """Return how a job ended, which has failed if its enqueues would be lost (T1)."""
    if error is None or issubclass(type(error), Reschedule):
        try:
            context.ambient.end()
        except BaseException as raised:  # noqa: BLE001  a session is the application's
            return raised
    return error


def own_frames(error: BaseException) -> BaseException:
    """
    Leave our own frame out of a traceback: the job's author has no use for it.

    By the fields of `BaseException`: a class may have its own, which run its code.
    """
    trace = BaseException.__dict__["__traceback__"].__get__(error)
    if trace is not None and trace.tb_next is not None:
        BaseException.with_traceback(error, trace.tb_next)
    return error


def refuse_unrun(name: str, result: object) -> None:
    """
    Fail a `def` job that returned what nobody will run.

    That is a coroutine or a generator, whose body would never run, or another
    awaitable. A decorator around an `async def` makes such functions.
    """
    refuse_unrun_by_async(name, result)
    if inspect.isawaitable(result):
        raise TypeError(_UNRUN.format(name, "an awaitable"))


def refuse_unrun_by_async(name: str, result: object) -> None:
    """Do so for what an `async def` returned: a task of its own may run already."""
    for kind, what in _UNBEGUN.items():
        if not issubclass(type(result), kind):
            continue
        if isinstance(result, Coroutine | Generator):
            result.close()  # or Python warns of it at some later time
        raise TypeError(_UNRUN.format(name, what))
