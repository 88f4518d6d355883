"""The races of the other tests with a journal on: whoever won, it was possible."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest

from jobfence import Handoff, Settlement, SqlJobStore
from jobfence.statemachine.clock import ManualClock
from tests.store.sql.bench import Database
from tests.store.sql.journal.audit import assert_possible, entries_of
from tests.store.sql.journal.load import AtOnce
from tests.store.sql.races.crew import together
from tests.store.sql.races.mix import Actor

START_MS = 1_000_000
SEED = 20_26
THREADS = 8
# Things done by each thread, and rounds of a race; more in a deep run.
ACTS = [40, pytest.param(600, marks=pytest.mark.deep)]
ROUNDS = [15, pytest.param(300, marks=pytest.mark.deep)]


@contextmanager
def stores_on(
    database: Database, clock: ManualClock, number: int
) -> Iterator[list[SqlJobStore]]:
    """Open stores that keep one journal, each with connections of its own."""
    with database.fresh_prefix() as prefix, ExitStack() as stack:
        opened = [
            SqlJobStore(
                database.url,
                table_prefix=prefix,
                journal=True,
                clock=clock,
                lease_ms=200,
                retry_policy=AtOnce(),
                max_handoffs=8,
            )
            for _ in range(number)
        ]
        for store in opened:
            stack.enter_context(closing(store))
            store.ensure_ready()
        yield opened


@pytest.mark.parametrize("acts", ACTS)
def test_a_random_mix_of_threads_was_possible(database: Database, acts: int) -> None:
    clock, shared = ManualClock(START_MS), list[Handoff]()
    with stores_on(database, clock, THREADS // 2) as stores:
        actors = [
            Actor(stores[n % len(stores)], clock, shared, SEED + n)
            for n in range(THREADS)
        ]

        together(*(acting(actor, acts) for actor in actors))

        verdict = assert_possible(stores[0])
    assert verdict.counts["transitions"] > 3 * acts
    done = sum((actor.done for actor in actors), Counter[str]())
    assert done.total() == THREADS * acts


def acting(actor: Actor, times: int) -> Callable[[], None]:
    def act() -> None:
        for _ in range(times):
            actor.act()

    return act


@pytest.mark.parametrize("rounds", ROUNDS)
def test_settlements_with_crossed_keys_were_possible(
    database: Database, rounds: int
) -> None:
    """Each ends a job of one key and wants one of the other's."""
    with stores_on(database, ManualClock(START_MS), 2) as stores:
        one, other = stores
        for _ in range(rounds):
            held = [take_one(one, key) for key in ("a", "b")]
            for key in ("b", "a"):
                one.enqueue("next", concurrency_key=key, max_concurrency=1)

            answers = together(
                lambda: one.settle([Settlement.complete(held[0])], claim=1),  # noqa: B023
                lambda: other.settle([Settlement.complete(held[1])], claim=1),  # noqa: B023
            )

            for (ack,), claimed in answers:
                assert ack.accepted
                one.settle([Settlement.complete(each) for each in claimed])
            one.settle([Settlement.complete(each) for each in one.claim(10)])

        verdict = assert_possible(one)
    assert verdict.counts["transitions"] == 12 * rounds


def take_one(store: SqlJobStore, key: str) -> Handoff:
    job_id = store.enqueue("first", concurrency_key=key, max_concurrency=1)
    held = store.claim_job(job_id)
    assert held is not None
    return held


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_replaced_a_cancelled_and_a_claimed_schedule_were_possible(
    database: Database, rounds: int
) -> None:
    with stores_on(database, ManualClock(START_MS), 3) as (first, second, third):
        for _ in range(rounds):
            first.replace_scheduled("s", "work")
            together(
                lambda: bool(first.claim(1)),
                lambda: bool(second.replace_scheduled("s", "work")),
                lambda: bool(third.cancel_scheduled("s")),
            )

        assert_possible(first)
        owners = [each for each in entries_of(first) if each.entity == "schedule_key"]
    assert len(owners) >= 2 * rounds
