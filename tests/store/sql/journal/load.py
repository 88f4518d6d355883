"""Workers that use everything a store has, at random, and take whatever comes of it."""

import random

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import event

from jobfence import (
    Ack,
    ConcurrencyConflict,
    Handoff,
    InvalidOption,
    JobRequest,
    QueuePolicy,
    RetryableError,
    Settlement,
    SqlJobStore,
    StoreUnavailable,
)

MAX_HANDOFFS = 2
FAR_AWAY_MS = 2**45
QUEUES = {"capped": QueuePolicy(max_concurrent=3)}
KEYS = {"a": 1, "b": 2, "c": 5}
SCHEDULES = ("nightly", "weekly", "yearly")
# What a worker remembers of handoffs, ended ones too: late and repeated answers.
REMEMBERED = 60
LATELY = 20


class AtOnce:
    """A retry policy that hardly waits."""

    def delay_ms(self, failures: int) -> int:
        return failures % 3


def soak_store(url: str, prefix: str, *, journal: bool = True) -> SqlJobStore:
    """Open a store for workers: its own engine, short waits, a limit on handoffs."""
    store = SqlJobStore(
        url,
        table_prefix=prefix,
        journal=journal,
        queues=dict(QUEUES),
        retry_policy=AtOnce(),
        max_handoffs=MAX_HANDOFFS,
        lease_ms=60_000,
    )
    event.listen(store.engine, "connect", _without_waiting_for_the_disk)
    return store


def _without_waiting_for_the_disk(driver: Any, _record: object) -> None:
    """
    Let a COMMIT return before the disk has it: much more happens in the same time.

    Clients are killed here, never the machine: what was committed is there all the same.
    """
    kind = type(driver).__module__.partition(".")[0]
    if kind == "sqlite3":
        driver.execute("PRAGMA synchronous=OFF")
    elif kind == "psycopg":
        driver.execute("SET synchronous_commit TO off")
        driver.commit()


@dataclass
class Worker:
    """One worker: its store, its chance, and what it holds or held."""

    store: SqlJobStore
    chance: random.Random
    seen: Counter[str] = field(default_factory=Counter)
    _held: list[Handoff] = field(default_factory=list)
    _ids: list[str] = field(default_factory=list)

    def work(self) -> None:
        """Do one thing. A database that refuses is part of the day."""
        (act,) = self.chance.choices(list(self._acts()), list(self._acts().values()))
        try:
            act()
        except (ConcurrencyConflict, InvalidOption):
            self.seen["refused"] += 1  # another cap; a job that was pruned meanwhile
        except (RetryableError, StoreUnavailable) as error:
            self.seen[type(error).__name__] += 1
        del self._held[:-REMEMBERED]
        del self._ids[:-REMEMBERED]

    def _acts(self) -> dict[Callable[[], None], int]:
        return {
            self._enqueue: 6,
            self._enqueue_many: 4,
            self._claim: 12,
            self._claim_one: 2,
            self._acknowledge: 14,
            self._settle: 14,
            self._extend: 3,
            self._cancel: 3,
            self._cancel_running: 6,
            self._recover: 6,
            self._recover_all: 1,
            self._schedule: 6,
            self._unschedule: 3,
            self._wake: 6,
            self._requeue: 2,
            self._set_concurrency: 2,
            self._reconcile: 1,
            self._prune: 1,
        }

    # --- what it does

    def _enqueue(self) -> None:
        key = self.chance.choice([None, None, *KEYS])
        self._new(
            self.store.enqueue(
                "work",
                [self.chance.randrange(4)],
                queue=self.chance.choice(["default", *QUEUES]),
                max_retries=self._retries(),
                concurrency_key=key,
                max_concurrency=None if key is None else KEYS[key],
                deduplicate_while_queued=self.chance.random() < 0.3,
            )
        )

    def _enqueue_many(self) -> None:
        requests = [
            JobRequest("bulk", [n], max_retries=self._retries())
            for n in range(self.chance.randrange(24))
        ]
        for job_id in self.store.enqueue_many(requests):
            self._new(job_id)

    def _retries(self) -> int:
        return self.chance.choice([0, 0, 1, 4])

    def _new(self, job_id: str) -> None:
        self._ids.append(job_id)
        self.seen["transitions"] += 1

    def _lease(self) -> int | None:
        return self.chance.choice([None, 1, 5, 60_000])

    def _claim(self) -> None:
        self._took(
            self.store.claim(self.chance.randrange(1, 14), lease_ms=self._lease())
        )

    def _claim_one(self) -> None:
        if self._ids:
            job_id = self.chance.choice(self._ids)
            handoff = self.store.claim_job(job_id, lease_ms=self._lease())
            self._took([] if handoff is None else [handoff])

    def _took(self, handoffs: list[Handoff]) -> None:
        self._held += handoffs
        self.seen["transitions"] += len(handoffs)

    def _some(self, most: int) -> list[Handoff]:
        """Choose among handoffs, late ones more often; most early ones have ended."""
        pool = self._held if self.chance.random() < 0.3 else self._held[-LATELY:]
        return self.chance.sample(pool, min(most, len(pool)))

    def _answer(self, held: Handoff) -> Settlement:
        return self.chance.choice(
            [
                Settlement.complete(held),
                Settlement.complete(held),
                Settlement.fail(held, "trouble"),
                Settlement.fail(held, "trouble"),
                Settlement.reschedule(held, self.chance.choice([0, 3])),
                Settlement.return_to_queue(held),
            ]
        )

    def _acknowledge(self) -> None:
        for held in self._some(1):
            acks, _ = self.store.settle([self._answer(held)])
            self._heard(acks)

    def _settle(self) -> None:
        answers = [self._answer(held) for held in self._some(14)]
        acks, handoffs = self.store.settle(answers, claim=self.chance.randrange(12))
        self._heard(acks)
        self._took(handoffs)

    def _heard(self, acks: list[Ack]) -> None:
        for ack in acks:
            self.seen[str(ack.result)] += 1
            self.seen["transitions"] += ack.accepted

    def _extend(self) -> None:
        acks = self.store.extend_leases(self._some(3), lease_ms=self._lease())
        self.seen["transitions"] += sum(ack.accepted for ack in acks)

    def _cancel(self) -> None:
        ids = self._ids[-5:] + [held.job.id for held in self._some(3)]
        if ids:
            self.store.cancel(self.chance.choice(ids))
            self.seen["transitions"] += 1

    def _cancel_running(self) -> None:
        """Ask a job to stop, and let it do so in each way, or leave it to recovery."""
        for held in self._held[-1:]:
            self.store.cancel(held.job.id)
            answers = [
                Settlement.fail(held, "stopped"),
                Settlement.reschedule(held, 1),
                Settlement.return_to_queue(held),
            ]
            if self.chance.random() < 0.8:
                acks, _ = self.store.settle([self.chance.choice(answers)])
                self._heard(acks)

    def _recover(self) -> None:
        recovered = self.store.recover_expired(limit=20)
        self.seen["recovered"] += len(recovered)
        self.seen["transitions"] += len(recovered)

    def _recover_all(self) -> None:
        self.seen["transitions"] += len(self.store.recover_handed_off())

    def _schedule(self) -> None:
        when = self.chance.choice([None, FAR_AWAY_MS])
        key = self.chance.choice(SCHEDULES)
        self._new(self.store.replace_scheduled(key, "plan", scheduled_at=when).job_id)

    def _unschedule(self) -> None:
        self.store.cancel_scheduled(self.chance.choice(SCHEDULES))

    def _wake(self) -> None:
        self.store.wake_scheduled(self.chance.choice(SCHEDULES))

    def _requeue(self) -> None:
        for held in self._some(1):
            job = self.store.get(held.job.id)
            if job is not None and job.status.terminal:
                self._new(self.store.requeue(job.id))

    def _set_concurrency(self) -> None:
        key = self.chance.choice(list(KEYS))
        self.store.set_concurrency(key, self.chance.randrange(1, 6))

    def _reconcile(self) -> None:
        cap = self.chance.choice([None, 1, 3, 6])
        policy = QueuePolicy(max_concurrent=cap, priority=self.chance.randrange(3))
        self.store.reconcile_queue_policies({"capped": policy})
        self.store.reconcile_active_concurrency()

    def _prune(self) -> None:
        self.store.prune_terminal(
            completed_ttl_ms=0, failed_ttl_ms=0, cancelled_ttl_ms=500, batch_size=50
        )
