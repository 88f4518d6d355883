"""Everything at once for a while: what must hold at every commit holds (C5, K, T2)."""

import threading

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError

from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.retry import ExponentialRetry
from jobfence.statemachine.states import ACTIVE, JobStatus
from jobfence.statemachine.values import Handoff
from jobfence.store.sql.store import SqlJobStore
from tests.store.sql.races.conftest import Note
from tests.store.sql.races.crew import together
from tests.store.sql.races.mix import POLICIES, Actor, run_for
from tests.store.sql.races.place import Place, PlaceFactory

THREADS = 8
START_MS = 1_000_000
SEED = 20_26
KINDS = 20  # of things that an actor does
PATIENCE_S = 60  # beyond the time asked for, until each was done

# A claim that took a counter above its cap would fail at that very statement.
_ABOVE = (
    "NEW.active_count > OLD.active_count AND NEW.active_count > NEW.max_concurrency"
)
_ON = "CREATE TRIGGER {p}guard BEFORE UPDATE ON {p}concurrency"
GUARD: dict[str, tuple[str, ...]] = {
    "sqlite": (f"{_ON} WHEN {_ABOVE} BEGIN SELECT RAISE(ABORT, 'above the cap'); END",),
    "postgresql": (
        """
        CREATE FUNCTION {p}guard() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN RAISE EXCEPTION 'above the cap'; END$$
        """,
        f"{_ON} FOR EACH ROW WHEN ({_ABOVE}) EXECUTE FUNCTION {{p}}guard()",
    ),
    "mariadb": (
        f"""
        {_ON} FOR EACH ROW IF {_ABOVE} THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'above the cap'; END IF
        """,
    ),
}


@contextmanager
def guarded(place: Place) -> Iterator[None]:
    with place.looking.begin() as connection:
        for statement in GUARD[place.database]:
            connection.exec_driver_sql(statement.format(p=place.prefix))
    counters = place.tables.concurrency
    with place.looking.connect() as connection:
        connection.execute(
            counters.insert(), {"concurrency_key": "x", "max_concurrency": 1}
        )
        with pytest.raises(DBAPIError, match="above the cap"):
            connection.execute(counters.update().values(active_count=2))
        connection.rollback()
    yield
    with place.looking.begin() as connection:
        if place.database == "postgresql":
            connection.exec_driver_sql(f"DROP FUNCTION {place.prefix}guard CASCADE")


class Sampler:
    """Looks at committed states, each in one snapshot, while others work."""

    def __init__(self, place: Place) -> None:
        self.samples = 0
        self.busiest = 0
        self._place = place
        self._highest: dict[str, int] = {}

    def run_until(self, over: threading.Event) -> None:
        try:
            while not over.wait(0.01):
                self.look()
        except BaseException:
            over.set()
            raise

    def look(self) -> None:
        with self._place.snapshot() as snapshot:
            assert self._place.drift(snapshot) == {}
            self._look_at_owners(snapshot)
            jobs = self._place.tables.jobs
            held = select(jobs.c.id).where(jobs.c.handoff_id.is_not(None))
            self.busiest = max(self.busiest, len(snapshot.execute(held).all()))
        self.samples += 1

    def _look_at_owners(self, snapshot: Connection) -> None:
        jobs, keys = self._place.tables.jobs, self._place.tables.schedule_keys
        for row in snapshot.execute(select(keys)).mappings().all():
            key, order = row["schedule_key"], row["last_order"]
            assert order >= self._highest.get(key, 0)
            self._highest[key] = order
            if row["job_id"] is None:
                continue
            owner = snapshot.execute(select(jobs).where(jobs.c.id == row["job_id"]))
            job = owner.mappings().one()
            assert job["status"] in ACTIVE
            assert (job["schedule_key"], job["schedule_order"]) == (key, order)


def claimable(place: Place, now_ms: int) -> Counter[str | None]:
    """Work out from the rows how many jobs of each key can be claimed now."""
    room: dict[str, int] = {
        row["concurrency_key"]: row["max_concurrency"] - row["active_count"]
        for row in place.rows(place.tables.concurrency)
    }
    due: Counter[str | None] = Counter(
        row["concurrency_key"]
        for row in place.jobs().values()
        if row["status"] == JobStatus.QUEUED and row["scheduled_at_ms"] <= now_ms
    )
    # A key without a counter has the room that its jobs' cap says: made by the claim.
    caps: Mapping[str, Any] = {
        row["concurrency_key"]: row["max_concurrency"] for row in place.jobs().values()
    }
    return +Counter(
        {
            key: n if key is None else min(n, room.get(key, caps[key]))
            for key, n in due.items()
        }
    )


def end_after(seconds: int, actors: list[Actor], over: threading.Event) -> None:
    """End it when the time is over, and everything was done: slow machines take longer."""
    over.wait(seconds)
    for _ in range(PATIENCE_S * 10):
        if len(set().union(*(list(each.done) for each in actors))) == KINDS:
            break
        if over.wait(0.1):
            return
    over.set()


def by_key(handoffs: list[Handoff]) -> Counter[str | None]:
    return Counter(each.job.concurrency_key for each in handoffs)


def finish(place: Place, store: SqlJobStore, clock: ManualClock) -> None:
    """Nothing is stuck: what has room is claimed, and then everything comes to an end."""
    store.reconcile_queue_policies(POLICIES[0])
    expected = claimable(place, clock.now_ms())
    assert by_key(store.claim(5000)) == expected
    clock.advance(1_000_000)
    while store.recover_expired(limit=100):
        pass
    clock.advance(1_000_000)
    while found := store.claim(100):
        for each in found:
            assert store.complete(each.job.id, each.handoff_id).accepted
    assert not {JobStatus(row["status"]) for row in place.jobs().values()} & set(ACTIVE)
    assert set(place.counters().values()) == {0}
    assert all(row["job_id"] is None for row in place.rows(place.tables.schedule_keys))


@pytest.mark.parametrize("seconds", [3, pytest.param(10, marks=pytest.mark.deep)])
def test_a_random_mix_keeps_every_counter_cap_and_owner(
    new_place: PlaceFactory, note: Note, seconds: int
) -> None:
    place, clock = new_place(), ManualClock(START_MS)
    place.make_tables()
    stores = [
        place.store(
            clock=clock,
            lease_ms=200,
            retry_policy=ExponentialRetry(base_ms=10, max_ms=100),
            max_handoffs=8,
        )
        for _ in range(THREADS // 2)
    ]
    shared: list[Handoff] = []
    actors = [
        Actor(stores[n % len(stores)], clock, shared, SEED + n) for n in range(THREADS)
    ]
    over, sampler = threading.Event(), Sampler(place)
    with guarded(place):
        together(
            *run_for(actors, over),
            lambda: sampler.run_until(over),
            lambda: end_after(seconds, actors, over),
        )
        sampler.look()
        finish(place, stores[0], clock)
    done = sum((each.done for each in actors), Counter[str]())
    note(
        seconds=seconds,
        operations=done.total(),
        samples=sampler.samples,
        busiest=sampler.busiest,
        crossed=sum(each.crossed for each in actors),
        **dict(place.troubles.seen),
    )
    assert sampler.samples > seconds
    assert sampler.busiest > 1
    assert len(done) == KINDS
    assert place.troubles.busy == 0
