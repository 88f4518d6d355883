"""Faults of retention, pauses, settling and wake-ups (the R rules, T3, T5)."""

from collections.abc import Sequence
from typing import Any

from jobfence.conformance.faults.base import Faulty, fault
from jobfence.statemachine import checks
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Ack, Handoff, Settlement
from jobfence.store.contract import Lease


@fault("R1", "examples", "what is exactly old enough is kept")
class CutOffExclusive(Faulty):
    def prune_terminal(self, **options: Any) -> int:
        self.data.lock.acquire()
        self.data.lock.release()
        clock, self._clock = self._clock, _Earlier(self.now)
        try:
            return super().prune_terminal(**options)
        finally:
            self._clock = clock


class _Earlier:
    def __init__(self, now: int) -> None:
        self._now = now - 1

    def now_ms(self) -> int:
        return self._now


@fault("R1", "examples", "one time to live serves all statuses")
class OneTimeToLive(Faulty):
    def prune_terminal(self, **options: Any) -> int:
        ttl = options.get("completed_ttl_ms", 7 * 24 * 3_600_000)
        every = ("completed_ttl_ms", "failed_ttl_ms", "cancelled_ttl_ms")
        return super().prune_terminal(**{**options, **dict.fromkeys(every, ttl)})


@fault("R1", "examples", "only one batch is pruned")
class OneBatchOnly(Faulty):
    def prune_terminal(self, *, batch_size: int = 1000, **options: Any) -> int:
        ended = [row for row in self.data.tables.jobs.values() if row.status.terminal]
        spared = {row.id: row for row in ended[batch_size:]}
        for job_id in spared:
            del self.data.tables.jobs[job_id]
        try:
            return super().prune_terminal(batch_size=batch_size, **options)
        finally:
            self.data.tables.jobs.update(spared)


@fault("R1", "examples", "the counter of a pruned key stays")
class CounterKept(Faulty):
    def prune_terminal(self, **options: Any) -> int:
        before = self.data.tables.counters.copy()
        number = super().prune_terminal(**options)
        self.data.tables.counters = before
        return number


@fault("R4", "examples", "a pause is known to one instance only")
class PauseNotDurable(Faulty):
    def pause_queue(self, queue: str) -> None:
        self.__dict__.setdefault("paused", set()).add(queue)

    def claim(self, limit: int = 1, **options: Any) -> list[Handoff]:
        for queue in self.__dict__.get("paused", ()):
            super().pause_queue(queue)
        try:
            return super().claim(limit, **options)
        finally:
            for queue in self.__dict__.get("paused", ()):
                super().resume_queue(queue)


@fault("R4", "examples", "reconciling ends a pause")
class PauseLostByReconciling(Faulty):
    def reconcile_queue_policies(
        self, queues: Any = None, *, release_others: bool = True
    ) -> None:
        for queue in list(self.data.tables.queues):
            self.resume_queue(queue)
        super().reconcile_queue_policies(queues, release_others=release_others)


@fault("R5", "examples", "running again takes the ended job out of its state")
class RequeuedInPlace(Faulty):
    def requeue(self, job_id: str) -> str:
        new_id = super().requeue(job_id)
        ended = dict.fromkeys(("completed_at_ms", "failed_at_ms", "cancelled_at_ms"))
        self.edit(job_id, status=JobStatus.QUEUED, **ended)
        return new_id


@fault("T5", "examples", "settle claims before it acknowledges")
class ClaimsFirst(Faulty):
    def settle(
        self, acks: Sequence[Settlement], *, claim: int = 0, **options: Any
    ) -> tuple[list[Ack], list[Handoff]]:
        _, handoffs = super().settle([], claim=claim, **options)
        answers, _ = super().settle(acks, **options)
        return answers, handoffs


@fault("T5", "examples", "settle writes before it has checked everything")
class SettlesBeforeChecking(Faulty):
    def settle(
        self, acks: Sequence[Settlement], *, claim: int = 0, **options: Any
    ) -> tuple[list[Ack], list[Handoff]]:
        answers = [super(Faulty, self).settle([each])[0][0] for each in acks]
        return answers, super().settle([], claim=claim, **options)[1]


@fault("T5", "examples", "one stale acknowledgement ends the batch")
class StaleEndsTheBatch(Faulty):
    def settle(
        self, acks: Sequence[Settlement], *, claim: int = 0, **options: Any
    ) -> tuple[list[Ack], list[Handoff]]:
        answers: list[Ack] = []
        for each in acks:
            if answers and answers[-1].stale:
                answers.append(answers[-1])
            else:
                answers += super().settle([each])[0]
        return answers, super().settle([], claim=claim, **options)[1]


@fault("T5", "examples", "settle claims for the store's lease, whatever is asked for")
class SettleIgnoresTheLease(Faulty):
    def settle(
        self, acks: Sequence[Settlement], *, lease_ms: Lease = ..., **options: Any
    ) -> tuple[list[Ack], list[Handoff]]:
        checks.lease_ms(None if lease_ms is ... else lease_ms)
        return super().settle(acks, **options)


@fault("T5", "examples", "settle claims jobs of any mode")
class SettleIgnoresTheMode(Faulty):
    def settle(
        self, acks: Sequence[Settlement], *, execution_modes: Any = None, **options: Any
    ) -> tuple[list[Ack], list[Handoff]]:
        return super().settle(acks, **options)


@fault("E6", "examples", "a batch is enqueued one by one")
class BatchInPieces(Faulty):
    def enqueue_many(self, requests: Any) -> list[str]:
        found: list[str] = []
        for each in requests:
            found += super().enqueue_many([each])
        return found


@fault("T3", "examples", "a listener is called before the commit")
class WokenTooEarly(Faulty):
    def enqueue(self, *args: Any, **options: Any) -> str:
        self._wake()
        listeners, self._listeners = self._listeners, []
        try:
            return super().enqueue(*args, **options)
        finally:
            self._listeners = listeners


@fault("T3", "examples", "a listener that raises makes the change an error")
class ListenerRaises(Faulty):
    def _wake(self) -> None:
        for each in tuple(self._listeners):
            each()


@fault("T3", "examples", "a returned job wakes nobody")
class ReturnWakesNobody(Faulty):
    def return_to_queue(self, job_id: str, handoff_id: str) -> Ack:
        listeners, self._listeners = self._listeners, []
        try:
            return super().return_to_queue(job_id, handoff_id)
        finally:
            self._listeners = listeners
