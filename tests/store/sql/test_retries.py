"""Rule T2: the store's own transactions are run again, whole, and not for ever."""

import time

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sqlalchemy import Connection, Engine, event, insert, update

from jobfence.statemachine.errors import RetryableError, StoreUnavailable
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.values import AckResult, Settlement
from jobfence.store.dialects.engines import make_engine
from tests.store.sql.bench import World, only
from tests.store.sql.faults import (
    LOCK_TIMEOUT,
    Fault,
    asked_to_retry,
    committing,
    current_session,
    disk_full,
    lost_after_commit,
    lost_before_commit,
    one_connection,
    raising,
)
from tests.store.sql.waiting import PATIENCE_S, beside, kill, session_id, until_waiting


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Note the pauses between tries instead of making them."""
    made: list[float] = []
    monkeypatch.setattr(time, "sleep", made.append)
    yield made
    assert all(0 <= each <= 0.25 for each in made)


def touch(world: World, connection: Connection, job_id: str) -> None:
    """Lock a job past the store."""
    jobs = world.tables.jobs
    connection.execute(
        update(jobs).where(jobs.c.id == job_id).values(rev=jobs.c.rev + 1)
    )


def test_M19_an_enqueue_that_is_run_again_keeps_its_id(
    world: World, pauses: list[float]
) -> None:
    with committing(world) as database:
        store = world.store(database.engine)
        store.ensure_ready()
        before = database.made
        database.next(raising(asked_to_retry(world)), times=2)
        assert store.enqueue("one") == "j1"
        assert store.enqueue("two") == "j2"
        assert database.made - before == 4
    assert world.statuses() == {"j1": "queued", "j2": "queued"}
    assert len(pauses) == 2


def test_M19_a_claim_that_is_run_again_keeps_its_handoff_ids(world: World) -> None:
    with committing(world) as database:
        store = world.store(database.engine)
        store.enqueue("one", concurrency_key="k", max_concurrency=2)
        store.enqueue("two", concurrency_key="k", max_concurrency=2)
        database.next(raising(asked_to_retry(world)))
        assert [each.handoff_id for each in store.claim(2)] == ["h1", "h2"]
    assert [row["handoffs"] for row in world.rows(world.tables.jobs)] == [1, 1]
    assert world.counters() == {"k": (2, 2)}


def test_T2_tries_are_bounded_and_nothing_is_written(
    world: World, pauses: list[float]
) -> None:
    with committing(world) as database:
        store = world.store(database.engine)
        store.ensure_ready()
        heard: list[str] = []
        store.on_commit_wake(lambda: heard.append("wake"))
        before = database.made
        database.next(raising(asked_to_retry(world)), times=100)
        with pytest.raises(RetryableError, match="nothing was written"):
            store.enqueue("one")
        tries = database.made - before
        assert 1 < tries <= 20
        assert len(pauses) == tries - 1
    assert world.statuses() == {}
    assert heard == []


def test_F22_a_commit_that_fails_is_an_error_and_no_id(world: World) -> None:
    with committing(world) as database:
        store = world.store(database.engine)
        store.ensure_ready()
        heard: list[str] = []
        store.on_commit_wake(lambda: heard.append("wake"))
        database.next(raising(disk_full(world)))
        with pytest.raises(StoreUnavailable, match="disk is full") as failure:
            store.enqueue("one")
        assert not failure.value.in_doubt
        assert world.statuses() == {}
        assert heard == []
        assert store.enqueue("two") == "j2"
    assert world.statuses() == {"j2": "queued"}


@only("postgresql", "mariadb")
def test_T2_a_deadlock_in_an_own_transaction_is_run_again(
    world: World, pauses: list[float]
) -> None:
    with one_connection(world) as engine, world.database.engine.connect() as other:
        store = world.store(engine)
        store.enqueue("one", concurrency_key="k", max_concurrency=2)
        store.enqueue("two", concurrency_key="k", max_concurrency=2)
        one, two = store.claim(2)
        session = only_session(world, engine)
        # The victim shall be the store's transaction: InnoDB picks the one that has
        # changed less, PostgreSQL the one that has waited for its time-out.
        if world.name == "postgresql":
            other.exec_driver_sql("SET LOCAL deadlock_timeout = '60s'")
        else:
            for n in range(50):
                other.execute(insert(world.tables.queues).values(queue=f"weight {n}"))
        touch(world, other, two.job.id)
        acks = [Settlement.complete(one), Settlement.complete(two)]
        with beside(lambda: store.settle(acks)) as settling:
            until_waiting(world, session)
            touch(world, other, one.job.id)
            other.rollback()
            answers, _ = settling.result(PATIENCE_S)
    assert [ack.result for ack in answers] == [AckResult.ACCEPTED] * 2
    assert world.counters() == {"k": (2, 0)}
    assert len(pauses) >= 1


def only_session(world: World, engine: Engine) -> int:
    with engine.connect() as connection:
        return session_id(world, connection)


def test_T2_a_lock_that_is_not_had_in_time_is_asked_for_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = world.store().enqueue("one")
    with (
        one_connection(world, LOCK_TIMEOUT[world.name]) as engine,
        world.database.engine.connect() as other,
    ):
        store = world.store(engine)
        store.ensure_ready()
        touch(world, other, job_id)
        # What is waited for is let go of in the pause between two tries.
        monkeypatch.setattr(time, "sleep", lambda _: other.rollback())
        store.cancel(job_id)
    assert world.statuses() == {job_id: "cancelled"}


@only("sqlite", "postgresql")
def test_T2_a_lock_that_is_never_had_is_an_error_in_the_end(
    world: World, pauses: list[float]
) -> None:
    job_id = world.store().enqueue("one")
    with (
        one_connection(world, LOCK_TIMEOUT[world.name]) as engine,
        world.database.engine.connect() as other,
    ):
        store = world.store(engine)
        store.ensure_ready()
        touch(world, other, job_id)
        with pytest.raises(RetryableError, match=r"asked \d+ times"):
            store.cancel(job_id)
        assert len(pauses) >= 1
        other.rollback()
    assert world.statuses() == {job_id: "queued"}


def test_a_pool_that_has_no_connection_free_says_so(world: World) -> None:
    with one_connection(world) as engine:
        store = world.store(engine)
        store.ensure_ready()
        with (
            engine.connect(),
            pytest.raises(StoreUnavailable, match="larger pool"),
        ):
            store.enqueue("one")
        job_id = store.enqueue("two")
    assert list(world.statuses()) == [job_id]


@only("postgresql", "mariadb")
def test_T2_a_pooled_connection_that_was_lost_is_replaced(world: World) -> None:
    with one_connection(world) as engine:
        store = world.store(engine)
        store.ensure_ready()
        kill(world, only_session(world, engine))
        assert store.enqueue("one") == "j1"
    assert world.statuses() == {"j1": "queued"}


@only("postgresql", "mariadb")
def test_T2_a_connection_lost_in_the_middle_is_run_again(world: World) -> None:
    with one_connection(world) as engine:
        store = world.store(engine)
        store.ensure_ready()
        session = current_session(world, engine)
        lost: list[str] = []

        @event.listens_for(engine, "after_cursor_execute")
        def lose(_: object, __: object, statement: str, *___: object) -> None:
            if not lost and statement.startswith("INSERT INTO"):
                lost.append(statement)
                kill(world, session())

        store.enqueue("one", idempotency_key="k")
        assert len(lost) == 1
    assert world.statuses() == {"j1": "queued"}


LOST = pytest.mark.parametrize(
    ("lost", "stored"),
    [(lost_after_commit, ["j1"]), (lost_before_commit, [])],
    ids=["its answer", "itself"],
)
Lose = Callable[[World, Callable[[], int]], Fault]


@only("postgresql", "mariadb")
@LOST
def test_F74_a_connection_lost_in_commit_is_in_doubt_and_is_not_run_again(
    world: World, lost: Lose, stored: list[str]
) -> None:
    with committing(world) as database:
        store = world.store(database.engine)
        store.ensure_ready()
        session = current_session(world, database.engine)
        before = database.made
        database.next(lost(world, session))
        with pytest.raises(StoreUnavailable, match="may have been made") as failure:
            store.enqueue("one", idempotency_key="k")
        assert failure.value.in_doubt
        assert database.made - before == 1
        assert list(world.statuses()) == stored
        # The same request again is one job, whatever became of the first.
        again = store.enqueue("one", idempotency_key="k")
        assert again == ("j1" if stored else "j2")
    assert list(world.statuses()) == [again]


@only("postgresql", "mariadb")
@LOST
def test_F74_a_completion_in_doubt_is_resolved_by_saying_it_again(
    world: World, lost: Lose, stored: list[str]
) -> None:
    with committing(world) as database:
        store = world.store(database.engine)
        job_id = store.enqueue("one", concurrency_key="k", max_concurrency=1)
        session = current_session(world, database.engine)
        database.next(lost(world, session))
        with pytest.raises(StoreUnavailable) as failure:
            store.claim_job(job_id, handoff_id="mine")
        assert failure.value.in_doubt
        # M19: by the id that the caller chose.
        handoff = store.claim_job(job_id, handoff_id="mine")
        assert handoff is not None
        assert handoff.fence == 1
        database.next(lost(world, session))
        with pytest.raises(StoreUnavailable):
            store.complete(job_id, "mine")
        # M18: a lost reply is told from a lost handoff.
        expected = AckResult.REPEATED if stored else AckResult.ACCEPTED
        assert store.complete(job_id, "mine").result is expected
        assert store.complete(job_id, "mine").result is AckResult.REPEATED
    assert world.statuses() == {job_id: "completed"}
    assert world.counters() == {"k": (1, 0)}


@only("sqlite")
def test_a_disk_that_is_full_leaves_nothing_half_written(world: World) -> None:
    store = world.store()
    kept = store.enqueue("kept")
    # Pages that earlier tests have left free would take the rows in.
    with world.database.engine.connect() as connection:
        connection.exec_driver_sql("VACUUM")
    pages = _pages(world)
    engine = make_engine(world.database.url)

    @event.listens_for(engine, "connect")
    def limit(driver: Any, _: object) -> None:
        driver.execute(f"PRAGMA max_page_count = {pages + 1}")

    full = world.store(engine)
    before = world.everything()
    with pytest.raises(StoreUnavailable, match="full"):
        full.enqueue_many([JobRequest("big", ["x" * 500_000]) for _ in range(4)])
    with (
        pytest.raises(StoreUnavailable, match="full"),
        engine.begin() as connection,
    ):
        full.within(connection).enqueue("big", ["x" * 1_000_000])
    assert world.everything() == before
    assert full.claim_job(kept) is not None
    engine.dispose()


def _pages(world: World) -> int:
    with world.database.engine.connect() as connection:
        return int(connection.exec_driver_sql("PRAGMA page_count").scalar_one())
