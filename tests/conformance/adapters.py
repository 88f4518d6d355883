"""Adapters that the tests of the plugin point at."""

from typing import Any

from jobfence.conformance import ALL, Capability, Model, watch
from jobfence.statemachine.values import Ack, Handoff, Job
from jobfence.store import MemoryJobStore

model = Model()


def good(namespace: str, **settings: Any) -> MemoryJobStore:
    return model.open_store(namespace, **settings)


good.capabilities = ALL.without(  # type: ignore[attr-defined]
    Capability.PAUSE, Capability.COUNTER_ROWS, because="this test says so"
).without(Capability.PROCESSES, because="memory is one process's own")


class Unfenced(MemoryJobStore):
    """Takes any handoff id for the one that holds the job."""

    def complete(self, job_id: str, handoff_id: str) -> Ack:
        job = self.get(job_id)
        held = job.handoff_id if job is not None else None
        return super().complete(job_id, held or handoff_id)


def unfenced(namespace: str, **settings: Any) -> MemoryJobStore:
    return Unfenced(data=model.data(namespace), **settings)


class Leaving(MemoryJobStore):
    """Forgets to clear."""

    def clear(self) -> None:
        pass


def leaving(namespace: str, **settings: Any) -> MemoryJobStore:
    return Leaving(data=model.data(namespace), **settings)


class Half(MemoryJobStore):
    prune_terminal = None  # type: ignore[assignment]


def half(namespace: str, **settings: Any) -> MemoryJobStore:
    return Half(data=model.data(namespace), **settings)


class Breaking(MemoryJobStore):
    """Gives two jobs at most, and breaks where there are many."""

    def claim(self, limit: int = 1, **options: Any) -> list[Handoff]:
        if len(self.list_jobs(limit=200)) > 100:
            raise KeyError("no more")
        return super().claim(min(limit, 2), **options)


def breaking(namespace: str, **settings: Any) -> MemoryJobStore:
    return Breaking(data=model.data(namespace), **settings)


class Lax(MemoryJobStore):
    """Takes a limit of none for a limit of one."""

    def recover_expired(self, *, limit: int = 100) -> list[Job]:
        return super().recover_expired(limit=limit or 1)


def lax(namespace: str, **settings: Any) -> MemoryJobStore:
    return Lax(data=model.data(namespace), **settings)


def watched_closely(namespace: str, **settings: Any) -> MemoryJobStore:
    """Open a good store, in a run that finds every test slow."""
    watch.PATIENCE_S = 0
    return good(namespace, **settings)


watched_closely.capabilities = good.capabilities  # type: ignore[attr-defined]
