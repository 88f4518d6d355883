"""The other side of `processes`: one job in a process of its own."""

import asyncio
import contextlib
import inspect
import json
import os
import signal
import sys
import threading

from collections.abc import Callable, Mapping
from typing import Any, TypedDict, cast

from jobfence.dispatch.calls import refuse_unrun, refuse_unrun_by_async, uncommitted
from jobfence.dispatch.context import CURRENT, JobContext, Reschedule, delay_of
from jobfence.dispatch.locate import Reference, locate
from jobfence.statemachine.canonical import JSON
from jobfence.statemachine.clock import SystemClock
from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.errortext import error_text
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Handoff, Job


class Where(TypedDict):
    """A `Reference`, as JSON."""

    module: str | None
    path: str | None
    qualname: str


class Request(TypedDict):
    """What the parent sends, read from JSON."""

    path: list[str]
    function: Where
    job: Mapping[str, JSON]
    timeout_ms: int | None


class Answer(TypedDict):
    """What goes back: both None when the job returned."""

    error: str | None
    delay_ms: int | None


def main(request: Request) -> None:
    """Run the job of a request, and answer in one line."""
    _open_standard_error()
    # The job may read its input and print: neither may touch what we talk over.
    lifeline, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    threading.Thread(target=_die_with_parent, args=(lifeline,), daemon=True).start()
    answer = perform(request)
    with os.fdopen(answers, "wb") as stream:
        stream.write(json.dumps(answer).encode() + b"\n")
    # Last, and whatever comes of it: a full disk, a closed pipe or a stdout that the
    # job took away does not undo what the job did.
    with contextlib.suppress(Exception):
        sys.stdout.flush()


def _open_standard_error() -> None:
    """Without one, as a worker may be, its number would go to what we talk over."""
    try:
        os.fstat(2)
    except OSError:
        # Input and output are open, so this is the lowest free number: 2.
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.set_inheritable(nothing, True)  # noqa: FBT003  it takes no name


def perform(request: Request) -> Answer:
    """Run the job, and say how it ended."""
    handoff = _handoff(request["job"])
    context = JobContext(handoff, clock=SystemClock(), timeout_ms=request["timeout_ms"])
    token = CURRENT.set(context)
    error: BaseException | None = None
    try:
        _call(locate(Reference(**request["function"])), handoff.job)
    except BaseException as raised:  # noqa: BLE001  SystemExit fails the job as well
        error = raised
    finally:
        CURRENT.reset(token)
    error = uncommitted(context, error)
    return {"error": None, "delay_ms": None} if error is None else _end(error)


def _end(error: BaseException) -> Answer:
    """Say how a job ended that raised; what raises here ends the process instead."""
    if issubclass(type(error), Reschedule):
        try:
            return {"error": None, "delay_ms": delay_of(cast("Reschedule", error))}
        except InvalidOption as refused:
            error = refused
    return {"error": error_text(error), "delay_ms": None}


def _call(function: Callable[..., object], job: Job) -> None:
    result = function(*job.args, **job.kwargs)
    if inspect.iscoroutinefunction(function) and inspect.iscoroutine(result):
        refuse_unrun_by_async(job.name, asyncio.run(result))
    else:
        refuse_unrun(job.name, result)


def _handoff(stored: Mapping[str, JSON]) -> Handoff:
    values: dict[str, Any] = dict(stored)
    values["args"] = tuple(values["args"])
    values["status"] = JobStatus(values["status"])
    job = Job(**values)
    assert job.handoff_id is not None
    assert job.handed_off_at_ms is not None
    return Handoff(job, job.handoff_id, job.handed_off_at_ms, job.lease_expires_at_ms)


def _die_with_parent(lifeline: int) -> None:
    while os.read(lifeline, 1):
        pass
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)  # with what the job started
    os._exit(1)
