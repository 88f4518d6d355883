"""Faults of leases and recovery (the L rules)."""

from typing import Any

from jobfence.conformance.faults.base import Faulty, fault
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Ack, Handoff, Job


class Recovering(Faulty):
    """Prepares rows before the model recovers them."""

    def held(self) -> list[Any]:
        """Return the rows that are handed off."""
        rows = list(self.data.tables.jobs.values())
        return [row for row in rows if row.status is JobStatus.HANDED_OFF]


@fault("L1", "examples", "a lease is over a millisecond late")
class LeaseOverLate(Recovering):
    def recover_expired(self, *, limit: int = 100) -> list[Job]:
        for row in self.held():
            if row.lease_expires_at_ms == self.now:
                self.edit(row.id, lease_expires_at_ms=self.now + 1)
        return super().recover_expired(limit=limit)


@fault("L1", "examples", "recovery takes a job whose lease still runs")
class LiveJobRecovered(Recovering):
    def recover_expired(self, *, limit: int = 100) -> list[Job]:
        for row in self.held():
            if row.lease_expires_at_ms is not None:
                self.edit(row.id, lease_expires_at_ms=self.now)
        return super().recover_expired(limit=limit)


@fault("L1", "examples", "a handoff without lease counts as expired")
class NoLeaseIsOver(Recovering):
    def recover_expired(self, *, limit: int = 100) -> list[Job]:
        for row in self.held():
            if row.lease_expires_at_ms is None:
                self.edit(row.id, lease_expires_at_ms=0)
        return super().recover_expired(limit=limit)


@fault(
    "L5", "matrix", "recovery costs no attempt: a job that kills its worker never ends"
)
class RecoveryIsFree(Recovering):
    def recover_expired(self, *, limit: int = 100) -> list[Job]:
        before = {row.id: row.attempts for row in self.held()}
        for job in (found := super().recover_expired(limit=limit)):
            self.edit(job.id, attempts=before[job.id])
        return found


@fault("M8", "matrix", "recovery does not say why the job came back")
class RecoverySaysNothing(Recovering):
    def recover_expired(self, *, limit: int = 100) -> list[Job]:
        for job in (found := super().recover_expired(limit=limit)):
            self.edit(job.id, last_error=None)
        return [now for each in found if (now := self.get(each.id)) is not None]


@fault("L1", "examples", "recovery takes the latest lease first")
class LatestRecoveredFirst(Recovering):
    def recover_expired(self, *, limit: int = 100) -> list[Job]:
        over = [
            row for row in self.held() if (row.lease_expires_at_ms or 0) <= self.now
        ]
        over.sort(key=lambda row: -(row.lease_expires_at_ms or 0))
        for row in over[limit:]:
            self.edit(row.id, lease_expires_at_ms=self.now + 1)
        found = super().recover_expired(limit=limit)
        for row in over[limit:]:
            self.edit(row.id, lease_expires_at_ms=row.lease_expires_at_ms)
        return found


@fault("L2", "examples", "recovery of all leaves those whose lease still runs")
class LeasedNotRecovered(Recovering):
    def recover_handed_off(self) -> list[Job]:
        return self.recover_expired()


@fault("L1", "examples", "a lease is renewed by the store's length, not its own")
class LeaseLengthForgotten(Recovering):
    def extend_lease(
        self, job_id: str, handoff_id: str, *, lease_ms: int | None = None
    ) -> Ack:
        length = self._lease_ms if lease_ms is None else lease_ms
        return super().extend_lease(job_id, handoff_id, lease_ms=length)


@fault("L1", "examples", "a lease is renewed from its end, not from now")
class LeaseFromItsEnd(Recovering):
    def extend_lease(
        self, job_id: str, handoff_id: str, *, lease_ms: int | None = None
    ) -> Ack:
        row = self.row(job_id)
        ack = super().extend_lease(job_id, handoff_id, lease_ms=lease_ms)
        if ack.accepted and row is not None and row.lease_expires_at_ms is not None:
            end = row.lease_expires_at_ms + (lease_ms or row.lease_ms or 0)
            self.edit(job_id, lease_expires_at_ms=end)
        return ack


@fault("L1", "examples", "the lease that the claim asked for is not used")
class LeaseOfTheCallIgnored(Faulty):
    def claim(self, limit: int = 1, **options: Any) -> list[Handoff]:
        return super().claim(limit, **{**options, "lease_ms": ...})


@fault("L1", "examples", "an expired handoff that still stands cannot be extended")
class ExpiredNotExtended(Recovering):
    def extend_lease(
        self, job_id: str, handoff_id: str, *, lease_ms: int | None = None
    ) -> Ack:
        row = self.row(job_id)
        end = None if row is None else row.lease_expires_at_ms
        own = "" if end is not None and end <= self.now else handoff_id
        return super().extend_lease(job_id, own, lease_ms=lease_ms)


@fault("L4", "examples", "a recovered job keeps the cap it was claimed under")
class RecoveredUnderTheOldPolicy(Faulty):
    def recover_handed_off(self) -> list[Job]:
        queues, self._queues = self._queues, {}
        try:
            return super().recover_handed_off()
        finally:
            self._queues = queues
