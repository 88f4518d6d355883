"""Faults of the fence, and of what an acknowledgement is answered (M18)."""

from dataclasses import replace

from jobfence.conformance.faults.base import Faulty, fault
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Ack, AckResult


class Trusting(Faulty):
    """Takes the job's own handoff id for whatever id was given."""

    def current(self, job_id: str, handoff_id: str) -> str:
        """Return the id that holds the job, if any does."""
        row = self.row(job_id)
        return handoff_id if row is None or row.handoff_id is None else row.handoff_id


@fault("M18", "matrix", "complete does not compare the handoff id")
class CompleteUnfenced(Trusting):
    def complete(self, job_id: str, handoff_id: str) -> Ack:
        return super().complete(job_id, self.current(job_id, handoff_id))


@fault("M18", "matrix", "fail does not compare the handoff id")
class FailUnfenced(Trusting):
    def fail(self, job_id: str, handoff_id: str, error: object) -> Ack:
        return super().fail(job_id, self.current(job_id, handoff_id), error)


@fault("M18", "matrix", "reschedule does not compare the handoff id")
class RescheduleUnfenced(Trusting):
    def reschedule(self, job_id: str, handoff_id: str, *, delay_ms: int) -> Ack:
        own = self.current(job_id, handoff_id)
        return super().reschedule(job_id, own, delay_ms=delay_ms)


@fault("M18", "matrix", "return_to_queue does not compare the handoff id")
class ReturnUnfenced(Trusting):
    def return_to_queue(self, job_id: str, handoff_id: str) -> Ack:
        return super().return_to_queue(job_id, self.current(job_id, handoff_id))


@fault("M18", "matrix", "extend_lease does not compare the handoff id")
class ExtendUnfenced(Trusting):
    def extend_lease(
        self, job_id: str, handoff_id: str, *, lease_ms: int | None = None
    ) -> Ack:
        own = self.current(job_id, handoff_id)
        return super().extend_lease(job_id, own, lease_ms=lease_ms)


@fault("M18", "matrix", "an empty handoff id stands for the current one")
class EmptyIdAccepted(Trusting):
    def complete(self, job_id: str, handoff_id: str) -> Ack:
        return super().complete(job_id, handoff_id or self.current(job_id, ""))


@fault("M18", "examples", "the fence is the worker, who may have claimed again")
class FencedByWorker(Trusting):
    def complete(self, job_id: str, handoff_id: str) -> Ack:
        row = self.row(job_id)
        same_worker = row is not None and row.worker_id == "local"
        own = self.current(job_id, handoff_id) if same_worker else handoff_id
        return super().complete(job_id, own)


@fault("M18", "matrix", "a stale completion is answered as accepted")
class RowcountIgnored(Faulty):
    def complete(self, job_id: str, handoff_id: str) -> Ack:
        ack = super().complete(job_id, handoff_id)
        return Ack(AckResult.ACCEPTED, self.get(job_id)) if ack.stale else ack


@fault("M18", "matrix", "an acknowledgement asked again is answered as stale")
class NeverRepeated(Faulty):
    def complete(self, job_id: str, handoff_id: str) -> Ack:
        ack = super().complete(job_id, handoff_id)
        return Ack(AckResult.STALE) if ack.repeated else ack


@fault("M18", "matrix", "any acknowledgement by the latest handoff is repeated")
class RepeatedWhateverItWas(Faulty):
    def complete(self, job_id: str, handoff_id: str) -> Ack:
        ack, row = super().complete(job_id, handoff_id), self.row(job_id)
        if ack.stale and row is not None and row.last_handoff_id == handoff_id:
            return Ack(AckResult.REPEATED, self.get(job_id))
        return ack


@fault("M18", "matrix", "what is extended after its end is repeated")
class ExtendRepeated(Faulty):
    def extend_lease(
        self, job_id: str, handoff_id: str, *, lease_ms: int | None = None
    ) -> Ack:
        ack = super().extend_lease(job_id, handoff_id, lease_ms=lease_ms)
        row = self.row(job_id)
        if ack.stale and row is not None and row.last_handoff_id == handoff_id:
            return Ack(AckResult.REPEATED, self.get(job_id))
        return ack


@fault("M18", "matrix", "an accepted answer does not carry the job")
class AnswerWithoutJob(Faulty):
    def fail(self, job_id: str, handoff_id: str, error: object) -> Ack:
        return replace(super().fail(job_id, handoff_id, error), job=None)


@fault("M18", "matrix", "a late failure takes a job out of its terminal state")
class LateFailureRevives(Faulty):
    def fail(self, job_id: str, handoff_id: str, error: object) -> Ack:
        row = self.row(job_id)
        if (
            row is not None
            and row.status.terminal
            and row.last_handoff_id == handoff_id
        ):
            ended = dict.fromkeys(
                ("completed_at_ms", "failed_at_ms", "cancelled_at_ms")
            )
            self.edit(job_id, status=JobStatus.QUEUED, **ended)
        return super().fail(job_id, handoff_id, error)
