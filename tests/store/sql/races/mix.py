"""A random mix of operations on one store, as workers and applications run it."""

import random
import threading

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.errors import (
    ConcurrencyConflict,
    IdempotencyConflict,
    InvalidOption,
    RetryableError,
)
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.values import Handoff, Settlement
from jobfence.store.sql.store import SqlJobStore

KEYS = ("a", "b", "c")
QUEUES = ("q", "r", "default")
SCHEDULES = ("s", "t")
POLICIES = (
    {"q": QueuePolicy(max_concurrent=2), "r": QueuePolicy(priority=1)},
    {"q": QueuePolicy(max_concurrent=4, priority=2)},
    {"r": QueuePolicy(max_concurrent=1), "q": QueuePolicy()},
)


class Actor:
    """
    One thread's part: what it holds, and the next thing it does.

    Handoffs are shared sometimes, so that two acknowledge the same one.
    """

    def __init__(
        self, store: SqlJobStore, clock: ManualClock, shared: list[Handoff], seed: int
    ) -> None:
        self.random = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.crossed = 0
        self._store = store
        self._clock = clock
        self._shared = shared
        self._held: list[Handoff] = []
        self._ids: list[str] = []
        self._doings: list[tuple[Callable[[], None], int]] = [
            (self._enqueue, 6),
            (self._enqueue_many, 2),
            (self._claim, 6),
            (self._claim_one, 3),
            (self._acknowledge, 8),
            (self._settle, 8),
            (self._extend, 2),
            (self._share, 2),
            (self._cancel, 3),
            (self._replace, 3),
            (self._cancel_key, 1),
            (self._wake, 1),
            (self._set_cap, 2),
            (self._reconcile, 1),
            (self._recover, 2),
            (self._repair, 1),
            (self._prune, 1),
            (self._pause, 1),
            (self._requeue, 1),
            (self._join, 4),
        ]

    def act(self) -> None:
        """Do one thing."""
        (doing,) = self.random.choices(
            [each for each, _ in self._doings],
            [weight for _, weight in self._doings],
        )
        self._clock.advance(self.random.randrange(20))
        doing()
        self.done[doing.__name__.strip("_")] += 1

    def _request(self) -> JobRequest:
        chance = self.random.random
        key = self.random.choice(KEYS) if chance() < 0.6 else None
        return JobRequest(
            "job",
            [self.random.randrange(6)],
            queue=self.random.choice(QUEUES),
            max_retries=self.random.randrange(4),
            scheduled_at=self._clock.now_ms() + 100 if chance() < 0.2 else None,
            concurrency_key=key,
            # The cap that the key has now, else the request is refused.
            max_concurrency=None if key is None else self.random.choice((1, 2, 3)),
            priority=self.random.randrange(3) if chance() < 0.5 else None,
            deduplicate_while_queued=chance() < 0.3,
            idempotency_key=f"i{self.random.randrange(50)}" if chance() < 0.1 else None,
        )

    def _enqueue_into(self, store: SqlJobStore, n: int) -> None:
        # Another cap, another request: refused as it must be.
        with suppress(ConcurrencyConflict, IdempotencyConflict):
            self._ids += store.enqueue_many([self._request() for _ in range(n)])

    def _enqueue(self) -> None:
        self._enqueue_into(self._store, 1)

    def _enqueue_many(self) -> None:
        self._enqueue_into(self._store, 3)

    def _claim(self) -> None:
        queues = [self.random.choice(QUEUES)] if self.random.random() < 0.3 else None
        self._held += self._store.claim(self.random.randint(1, 4), queues=queues)

    def _claim_one(self) -> None:
        found = self._store.claim_job(self._some_id())
        if found is not None:
            self._held.append(found)

    def _some_id(self) -> str:
        return self.random.choice(self._ids[-20:]) if self._ids else "none"

    def _take(self, most: int) -> list[Handoff]:
        taken = [
            self._held.pop(self.random.randrange(len(self._held)))
            for _ in range(min(most, len(self._held)))
        ]
        if self._shared and self.random.random() < 0.2:
            taken.append(self._shared[-1])
        return taken

    def _settlement(self, handoff: Handoff) -> Settlement:
        ways: list[Callable[[Handoff], Settlement]] = [
            Settlement.complete,
            Settlement.complete,
            Settlement.return_to_queue,
            lambda each: Settlement.fail(each, "no"),
            lambda each: Settlement.reschedule(each, self.random.randrange(50)),
        ]
        return self.random.choice(ways)(handoff)

    def _acknowledge(self) -> None:
        for each in self._take(1):
            self._store.settle([self._settlement(each)])

    def _settle(self) -> None:
        acks = [self._settlement(each) for each in self._take(4)]
        self.random.shuffle(acks)
        _acks, found = self._store.settle(acks, claim=self.random.randrange(4))
        self._held += found

    def _extend(self) -> None:
        self._store.extend_leases(self._held[:3])

    def _share(self) -> None:
        self._shared += self._held[:1]

    def _cancel(self) -> None:
        self._store.cancel(self._some_id())

    def _replace(self) -> None:
        later = self._clock.now_ms() + 50 if self.random.random() < 0.3 else None
        key = self.random.choice(SCHEDULES)
        with suppress(ConcurrencyConflict):
            made = self._store.replace_scheduled(
                key,
                "scheduled",
                queue=self.random.choice(QUEUES),
                scheduled_at=later,
                concurrency_key=self.random.choice(KEYS),
                max_concurrency=2,
            )
            self._ids.append(made.job_id)

    def _cancel_key(self) -> None:
        self._store.cancel_scheduled(self.random.choice(SCHEDULES))

    def _wake(self) -> None:
        self._store.wake_scheduled(self.random.choice(SCHEDULES))

    def _set_cap(self) -> None:
        self._store.set_concurrency(
            self.random.choice(KEYS), self.random.choice((1, 2, 3))
        )

    def _reconcile(self) -> None:
        self._store.reconcile_queue_policies(self.random.choice(POLICIES))

    def _recover(self) -> None:
        self._store.recover_expired(limit=3)

    def _repair(self) -> None:
        found = self._store.reconcile_active_concurrency()
        assert all(each.previous_active_count == 0 for each in found.repairs), found

    def _prune(self) -> None:
        self._store.prune_terminal(
            completed_ttl_ms=500,
            failed_ttl_ms=500,
            cancelled_ttl_ms=500,
            batch_size=10,
        )

    def _pause(self) -> None:
        queue = self.random.choice(QUEUES)
        self._store.pause_queue(queue)
        self._store.resume_queue(queue)

    def _requeue(self) -> None:
        with suppress(InvalidOption):  # it has not ended, or is gone
            self._ids.append(self._store.requeue(self._some_id()))

    def _join(self) -> None:
        """Do several things in a transaction of the caller's; undo them more often."""
        try:
            with self._store.engine.connect() as connection:
                inside = self._store.within(connection)
                self._enqueue_into(inside, 2)
                found = inside.claim(2)
                if self.random.random() < 0.3:
                    connection.commit()
                    self._held += found
        except RetryableError:
            # Counted: two callers that make counters and then claim may cross.
            self.crossed += 1


def run_for(actors: list[Actor], over: threading.Event) -> list[Callable[[], None]]:
    """Return each actor's loop until `over` is set."""

    def loop(actor: Actor) -> Callable[[], None]:
        def run() -> None:
            try:
                while not over.is_set():
                    actor.act()
            except BaseException:
                over.set()
                raise

        return run

    return [loop(actor) for actor in actors]
