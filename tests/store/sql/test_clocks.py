"""Rule L3: whose clock judges, and that it is read in milliseconds, UTC, and late."""

import time

from datetime import UTC, datetime, timedelta, timezone

import pytest

from jobfence.statemachine.clock import DatabaseClock, ManualClock
from jobfence.store.dialects.rooms import room_for
from tests.store.sql.bench import World, only

MINUTE_MS = 60_000


def server_ms(world: World) -> int:
    with world.database.engine.connect() as connection:
        return room_for(connection.dialect).now_ms(connection)


@pytest.fixture(params=[10, -10], ids=["10 minutes fast", "10 minutes slow"])
def wrong_host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Set this process's clock wrong; return by how many milliseconds."""
    wrong_ms = int(request.param) * MINUTE_MS
    right = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: right() + wrong_ms * 1_000_000)
    return wrong_ms


@only("postgresql", "mariadb")
def test_F79_a_host_whose_clock_is_wrong_neither_starts_early_nor_steals(
    world: World, wrong_host: int
) -> None:
    store = world.store(clock=None, lease_ms=5 * MINUTE_MS)
    now = server_ms(world)
    early = store.enqueue("early", scheduled_at=now + 5 * MINUTE_MS)
    due = store.enqueue("due")
    (handoff,) = store.claim(5)
    assert handoff.job.id == due
    assert handoff.lease_expires_at_ms is not None
    assert abs(handoff.lease_expires_at_ms - (now + 5 * MINUTE_MS)) < MINUTE_MS
    assert store.recover_expired() == []
    assert store.claim_job(early) is None
    scheduled = store.next_scheduled()
    assert scheduled is not None
    assert scheduled.id == early
    # A job that is due by the server's clock is not held up by a slow host either.
    past = store.enqueue("past", scheduled_at=now - 1)
    assert [each.job.id for each in store.claim(5)] == [past]


@only("sqlite")
def test_L3_on_sqlite_the_clock_is_this_processs_own(
    world: World, wrong_host: int
) -> None:
    store = world.store(clock=None)
    job_id = store.enqueue("job")
    assert abs(world.row(job_id)["created_at_ms"] - time.time_ns() // 1_000_000) < 9000


@pytest.mark.parametrize("zone", [None, "+08:00"], ids=["usual zone", "+08:00"])
def test_L3_the_databases_clock_is_utc_in_milliseconds(
    world: World, zone: str | None
) -> None:
    setting = {
        "postgresql": f"SET TIME ZONE INTERVAL '{zone}' HOUR TO MINUTE",
        "mariadb": f"SET time_zone = '{zone}'",
        "sqlite": "SELECT 1",
    }
    with world.database.stock.connect() as connection:
        if zone is not None:
            connection.exec_driver_sql(setting[world.name])
        before = time.time_ns() // 1_000_000
        found = room_for(connection.dialect).now_ms(connection)
        after = time.time_ns() // 1_000_000
        connection.invalidate()
    # The servers of these tests run on this machine. SQLite's own has a coarser step.
    assert before - 2 <= found <= after + 2


@only("postgresql", "mariadb")
def test_L3_the_clock_is_read_when_it_is_needed_not_when_the_transaction_began(
    world: World,
) -> None:
    store = world.store(clock=DatabaseClock())
    with world.database.stock.begin() as connection:
        joined = store.within(connection)
        joined.counts()
        began = server_ms(world)
        while server_ms(world) < began + 3:
            pass
        other = store.enqueue("other")
        job_id = joined.enqueue("job")
    created = world.row(job_id)["created_at_ms"]
    assert created >= world.row(other)["created_at_ms"] > began


def test_F19_a_lease_of_a_second_is_kept_to_the_millisecond(world: World) -> None:
    store = world.store(lease_ms=1000)
    store.enqueue("job")
    (handoff,) = store.claim()
    assert handoff.lease_expires_at_ms == 2000
    world.clock.set(1999)
    assert store.recover_expired() == []
    assert store.extend_lease(handoff.job.id, handoff.handoff_id).accepted
    world.clock.set(2998)
    assert store.recover_expired() == []
    world.clock.set(2999)
    assert [job.id for job in store.recover_expired()] == [handoff.job.id]


def test_F70_a_time_with_a_zone_is_that_moment_on_every_database(world: World) -> None:
    at = datetime(2026, 1, 1, 9, 0, tzinfo=timezone(timedelta(hours=8)))
    moment = int(datetime(2026, 1, 1, 1, 0, tzinfo=UTC).timestamp() * 1000)
    clock = ManualClock(moment - 1000)
    store = world.store(clock=clock)
    job_id = store.enqueue("job", scheduled_at=at)
    assert world.row(job_id)["scheduled_at_ms"] == moment
    for early in (moment - 1000, moment - 1):
        clock.set(early)
        assert store.claim() == []
    clock.set(moment)
    assert [each.job.id for each in store.claim()] == [job_id]
