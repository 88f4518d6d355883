"""Faults of values and texts (E1, E2, B1, B3, M11, M19, M21)."""

import json

from datetime import datetime
from typing import Any

from jobfence.conformance.faults.base import Faulty, fault
from jobfence.statemachine.checks import TEXT_MAX
from jobfence.statemachine.errors import HandoffIdInUse
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Ack, Handoff, Job


@fault("E2", "examples", "integers pass through floats")
class IntegersAsFloats(Faulty):
    def enqueue(self, *args: Any, **options: Any) -> str:
        job_id = super().enqueue(*args, **options)
        row = self.row(job_id)
        if row is not None:
            read = json.loads(row.args_text, parse_int=lambda text: int(float(text)))
            self.edit(job_id, args_text=json.dumps(read))
        return job_id


@fault("E1", "examples", "concurrency keys are trimmed and folded")
class KeysFolded(Faulty):
    def enqueue(self, *args: Any, **options: Any) -> str:
        key = options.get("concurrency_key")
        if isinstance(key, str) and key.strip():
            options["concurrency_key"] = key.strip().lower()
        return super().enqueue(*args, **options)


@fault("E1", "examples", "a negative number of retries is taken for none")
class BadOptionReplaced(Faulty):
    def enqueue(self, *args: Any, **options: Any) -> str:
        if options.get("max_retries") == -1:
            options["max_retries"] = 0
        return super().enqueue(*args, **options)


@fault("E1", "examples", "a time without a zone is taken for local time")
class NaiveTimeTaken(Faulty):
    def enqueue(self, *args: Any, **options: Any) -> str:
        when = options.get("scheduled_at")
        if isinstance(when, datetime) and when.tzinfo is None:
            options["scheduled_at"] = int(when.timestamp() * 1000)
        return super().enqueue(*args, **options)


@fault("E1", "examples", "a time is rounded down")
class TimeRoundedDown(Faulty):
    def enqueue(self, *args: Any, **options: Any) -> str:
        when = options.get("scheduled_at")
        if isinstance(when, datetime) and when.tzinfo is not None:
            options["scheduled_at"] = int(when.timestamp() * 1000)
        return super().enqueue(*args, **options)


@fault("E1", "examples", "a zone is dropped, not applied")
class ZoneDropped(Faulty):
    def enqueue(self, *args: Any, **options: Any) -> str:
        when = options.get("scheduled_at")
        if isinstance(when, datetime) and (offset := when.utcoffset()) is not None:
            options["scheduled_at"] = when + offset
        return super().enqueue(*args, **options)


@fault("E1", "examples", "a bad option is found after the job was written")
class CheckedTooLate(Faulty):
    def enqueue(self, *args: Any, **options: Any) -> str:
        late = {key: options.pop(key) for key in ("timeout_ms",) if key in options}
        job_id = super().enqueue(*args, **options)
        if late:
            options |= late
            twin = super().enqueue(*args, **options)
            self.edit(job_id, status=JobStatus.CANCELLED, cancelled_at_ms=self.now)
            return twin
        return job_id


@fault("M19", "examples", "handoff ids that differ in case only are one")
class HandoffIdFolded(Faulty):
    def claim_job(self, job_id: str, **options: Any) -> Handoff | None:
        given = options.get("handoff_id") or ""
        for row in self.data.tables.jobs.values():
            used = row.last_handoff_id or ""
            if used != given and used.strip().lower() == given.strip().lower() != "":
                raise HandoffIdInUse(given)
        return super().claim_job(job_id, **options)


@fault("E1", "examples", "queues that differ in case only are claimed from as one")
class QueuesFolded(Faulty):
    def claim(self, limit: int = 1, *, queues: Any = None, **options: Any) -> Any:
        if isinstance(queues, list):
            wanted = [str(each).lower() for each in queues]
            rows = self.data.tables.jobs.values()
            alike = {row.queue for row in rows if row.queue.lower() in wanted}
            queues = [*queues, *alike]
        return super().claim(limit, queues=queues, **options)


@fault("E1", "examples", "keys are cut to a column of 191 characters")
class KeysCut(Faulty):
    def enqueue(self, *args: Any, **options: Any) -> str:
        key = options.get("concurrency_key")
        if isinstance(key, str):
            options["concurrency_key"] = key[:191]
        return super().enqueue(*args, **options)


@fault("E1", "examples", "a worker's id is cut to a column of 255 bytes")
class WorkerIdCut(Faulty):
    def claim_job(self, job_id: str, **options: Any) -> Handoff | None:
        worker = options.get("worker_id", "local")
        if isinstance(worker, str) and len(worker) <= TEXT_MAX:
            worker = worker.encode()[:TEXT_MAX].decode(errors="ignore")
        return super().claim_job(job_id, **{**options, "worker_id": worker})


@fault("E1", "examples", "a text is taken for a list of queues, letter by letter")
class QueuesAsText(Faulty):
    def claim(self, limit: int = 1, *, queues: Any = None, **options: Any) -> Any:
        listed = list(queues) if isinstance(queues, str) else queues
        return super().claim(limit, queues=listed, **options)


@fault("E1", "examples", "a listing of a status that there is not is empty")
class UnknownStatusListed(Faulty):
    def list_jobs(self, *, status: Any = None, **options: Any) -> list[Job]:
        if isinstance(status, str) and status not in [*JobStatus]:
            return []
        return super().list_jobs(status=status, **options)


@fault("B1", "examples", "what a retry policy answers is trusted")
class PolicyTrusted(Faulty):
    def fail(self, job_id: str, handoff_id: str, error: object) -> Ack:
        ack = super().fail(job_id, handoff_id, error)
        if ack.job is not None and ack.job.status is JobStatus.QUEUED and ack.accepted:
            wait = self._retry_policy.delay_ms(ack.job.attempts)
            self.edit(job_id, scheduled_at_ms=self.now + wait)
        return ack


@fault("B1", "examples", "a retry policy that raises stops every recovery")
class PolicyStopsRecovery(Faulty):
    def recover_expired(self, *, limit: int = 100) -> list[Job]:
        found = super().recover_expired(limit=limit)
        for job in found:
            self._retry_policy.delay_ms(job.attempts)
        return found


@fault("B3", "examples", "the text of a failure is stored as it comes")
class ErrorAsItComes(Faulty):
    def fail(self, job_id: str, handoff_id: str, error: object) -> Ack:
        ack = super().fail(job_id, handoff_id, error)
        if ack.accepted and isinstance(error, str):
            self.edit(job_id, last_error=error)
        return ack


@fault("B3", "examples", "recording a failure can fail because of its text")
class ErrorMustBeText(Faulty):
    def fail(self, job_id: str, handoff_id: str, error: object) -> Ack:
        str(error).encode()
        return super().fail(job_id, handoff_id, error)


@fault("M11", "examples", "an unreadable row stops every claim")
class PoisonRow(Faulty):
    def claim(self, limit: int = 1, **options: Any) -> list[Handoff]:
        for row in self.data.tables.jobs.values():
            json.loads(row.args_text)
        return super().claim(limit, **options)


@fault("E7", "examples", "ids are in no order")
class IdsInNoOrder(Faulty):
    def _fresh_id(self, transaction: Any) -> str:
        return super()._fresh_id(transaction)[::-1]


@fault("M19", "examples", "every handoff of a millisecond has one id")
class IdsFromTheClock(Faulty):
    def claim(self, limit: int = 1, **options: Any) -> list[Handoff]:
        self._handoff_ids = lambda: f"{options.get('worker_id')}-{self.now}"
        return super().claim(limit, **options)
