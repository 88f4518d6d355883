"""Faults of arguments that a store and its callers hold together (E2)."""

from dataclasses import replace
from typing import Any

from jobfence.conformance.faults.base import Faulty, fault
from jobfence.statemachine.values import Handoff, Job


class Caching(Faulty):
    """Reads the arguments of a row once, and gives them to everybody."""

    def shared(self, job: Job) -> Job:
        """Put those that were read first into a job."""
        kept = self.__dict__.setdefault("kept", {}).setdefault(job.id, job)
        return replace(job, args=kept.args, kwargs=kept.kwargs)


@fault("E2", "examples", "all who read a job are given the same lists")
class ArgumentsShared(Caching):
    def get(self, job_id: str) -> Job | None:
        job = super().get(job_id)
        return None if job is None else self.shared(job)


@fault("E2", "examples", "a worker is given the lists that the store reads from")
class ArgumentsSharedByClaims(Caching):
    def get(self, job_id: str) -> Job | None:
        job = super().get(job_id)
        kept = self.__dict__.get("kept", {})
        return job if job is None or job_id not in kept else self.shared(job)

    def claim(self, limit: int = 1, **options: Any) -> list[Handoff]:
        taken = super().claim(limit, **options)
        return [replace(each, job=self.shared(each.job)) for each in taken]
