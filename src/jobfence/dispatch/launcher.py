"""From a handoff to a running function: thread, task or process (rule D8)."""

from collections.abc import Callable
from functools import partial

from jobfence.dispatch.ambient import FindOpen
from jobfence.dispatch.calls import acall, call
from jobfence.dispatch.context import JobContext
from jobfence.dispatch.events import EventHub
from jobfence.dispatch.processes import run_in_process
from jobfence.dispatch.registry import Registry
from jobfence.dispatch.runs import Run
from jobfence.dispatch.settings import WorkerSettings, effective_timeout_ms
from jobfence.dispatch.tasks import TaskLoop
from jobfence.dispatch.threads import ThreadPool
from jobfence.statemachine.clock import Clock
from jobfence.statemachine.errors import UnknownJobName
from jobfence.statemachine.values import Handoff
from jobfence.store.contract import JobStore


class Launcher:
    """Owns the threads and the loop that jobs run on."""

    def __init__(
        self,
        registry: Registry,
        store: JobStore,
        settings: WorkerSettings,
        hub: EventHub,
        *,
        clock: Clock,
        find_open: FindOpen = lambda: None,
    ) -> None:
        self._registry, self._store, self._clock = registry, store, clock
        self._hub, self._find_open = hub, find_open
        self._timeout_ms = settings.timeout_ms
        self._threads = ThreadPool("jobfence-job")
        self._tasks = TaskLoop("jobfence-tasks")

    def make_run(self, handoff: Handoff, done: Callable[[Run], None]) -> Run:
        """Make the run of a claimed job."""
        timeout_ms = effective_timeout_ms(handoff.job.timeout_ms, self._timeout_ms)
        context = JobContext(
            handoff,
            clock=self._clock,
            timeout_ms=timeout_ms,
            store=self._store,
            find_open=self._find_open,
        )
        return Run(handoff, context, done=done, timeout_ms=timeout_ms)

    def launch(self, run: Run) -> None:
        """Start a run; returns at once. A job of an unknown name fails (D1)."""
        try:
            job = self._registry.resolve(run.handoff.job.name)
        except UnknownJobName as error:
            if run.begin():
                run.finish(error)
            return
        if run.handoff.job.execution_mode == "process":
            self._threads.submit(partial(run_in_process, run, job, self._hub))
        elif job.is_async:
            self._tasks.submit(acall(run, job, self._hub))
        else:
            self._threads.submit(partial(call, run, job, self._hub))

    def close(self) -> None:
        """End the threads and the loop, but for what cannot be ended."""
        self._threads.close()
        self._tasks.close()
