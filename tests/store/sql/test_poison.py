"""Rules M11 and M21: rows that cannot be read, on each database as it can hold them."""

import logging

import pytest

from sqlalchemy import insert, literal_column, select, update

from jobfence.statemachine.errors import UnreadableJob
from jobfence.statemachine.states import JobStatus
from tests.store.sql.bench import World, only
from tests.store.sql.rows import legal_row

# What any database takes into these columns.
TEXTS: dict[str, tuple[str, str]] = {
    "args that are no JSON": ("args", "{"),
    "args that are empty": ("args", ""),
    "args that are an object": ("args", "{}"),
    "args that are a number": ("args", "1"),
    "args with NaN": ("args", "[NaN]"),
    "args with Infinity": ("args", "[-Infinity]"),
    "args too deep": ("args", "[" * 100_000),
    "kwargs that are no JSON": ("kwargs", "{'a': 1}"),
    "kwargs that are a list": ("kwargs", "[]"),
    "kwargs that are null": ("kwargs", "null"),
}
# SQLite keeps a value of any type in a column of any other.
TYPES: dict[str, tuple[str, str]] = {
    "a priority in words": ("priority", "'high'"),
    "a real priority": ("priority", "1.5"),
    "retries in words": ("max_retries", "'many'"),
    "attempts in words": ("attempts", "'some'"),
    "handoffs in words": ("handoffs", "'few'"),
    "a creation in words": ("created_at_ms", "'yesterday'"),
    "a time-out in words": ("timeout_ms", "'soon'"),
    "an order in words": ("schedule_order", "'first'"),
    "a name of bytes": ("name", "x'6162'"),
    "a queue of bytes": ("queue", "x'ff'"),
    "args of bytes": ("args", "x'5b5d'"),
    "an error of bytes": ("last_error", "x'00'"),
    "args that are no UTF-8": ("args", "CAST(x'5b22ff225d' AS TEXT)"),
    "a name that is no UTF-8": ("name", "CAST(x'ff' AS TEXT)"),
    "an error that is no UTF-8": ("last_error", "CAST(x'fe' AS TEXT)"),
}

DAMAGES = TEXTS | TYPES


def damage(world: World, job_id: str, kind: str) -> str:
    """Damage a job; return the column that cannot be read any more."""
    column, value = DAMAGES[kind]
    jobs = world.tables.jobs
    stored = literal_column(value) if kind in TYPES else value
    statement = update(jobs).where(jobs.c.id == job_id).values({column: stored})
    assert world.execute(statement) == 1
    return column


# All kinds on the database in the same process; on servers one of each sort.
ON_SERVERS = [
    "args that are no JSON",
    "args that are an object",
    "args with NaN",
    "kwargs that are a list",
]
KINDS = pytest.mark.parametrize(
    ("database", "kind"),
    [
        *(("sqlite", kind) for kind in DAMAGES),
        *(("postgresql", kind) for kind in ON_SERVERS),
        *(("mariadb", kind) for kind in ON_SERVERS),
    ],
    indirect=["database"],
)


def error_of(world: World, job_id: str) -> str:
    with world.database.engine.connect() as connection:
        jobs = world.tables.jobs
        statement = select(jobs.c.last_error, jobs.c.status).where(jobs.c.id == job_id)
        error, status = connection.execute(statement).one()
    assert status == "failed"
    return str(error)


@KINDS
def test_M11_a_claim_fails_the_row_and_returns_the_others(
    world: World, kind: str
) -> None:
    store = world.store()
    ids = [store.enqueue("job", [n]) for n in range(4)]
    column = damage(world, ids[1], kind)
    claimed = [each.job.id for each in store.claim(10)]
    assert sorted(claimed) == sorted([ids[0], *ids[2:]])
    assert column in error_of(world, ids[1])
    assert store.claim(10) == []
    assert store.counts()[JobStatus.FAILED] == 1


@KINDS
def test_M21_reading_names_the_column_and_lists_leave_the_row_out(
    world: World, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = world.store()
    bad, good = store.enqueue("job", [1]), store.enqueue("job", [2])
    column = damage(world, bad, kind)
    before = store.counts()
    with pytest.raises(UnreadableJob) as problem:
        store.get(bad)
    assert (problem.value.job_id, problem.value.column) == (bad, column)
    with caplog.at_level(logging.WARNING, logger="jobfence"):
        assert [job.id for job in store.list_jobs()] == [good]
        assert [record.name for record in caplog.records] == ["jobfence"]
        assert column in caplog.text
        available = store.next_available()
    assert available is not None
    assert available.id == good
    assert store.counts() == before


@KINDS
def test_M21_a_held_row_fails_for_good_when_it_is_recovered(
    world: World, kind: str
) -> None:
    store = world.store(lease_ms=10)
    bad = store.enqueue("job", [1], concurrency_key="k", max_concurrency=2)
    good = store.enqueue("job", [2], concurrency_key="k", max_concurrency=2)
    assert len(store.claim(2)) == 2
    column = damage(world, bad, kind)
    world.clock.advance(10)
    assert [job.id for job in store.recover_expired()] == [good]
    assert column in error_of(world, bad)
    assert world.counters() == {"k": (2, 0)}


def test_M11_an_unreadable_job_asked_for_by_id_is_rejected(world: World) -> None:
    store = world.store()
    job_id = store.enqueue("job")
    damage(world, job_id, "args that are no JSON")
    assert store.claim_job(job_id) is None
    assert "args" in error_of(world, job_id)


def test_M11_an_unreadable_owner_gives_its_schedule_key_up(world: World) -> None:
    store = world.store()
    owner = store.replace_scheduled("nightly", "report").job_id
    damage(world, owner, "args that are no JSON")
    with pytest.raises(UnreadableJob):
        store.scheduled_job("nightly")
    assert store.claim() == []
    assert "args" in error_of(world, owner)
    (row,) = world.rows(world.tables.schedule_keys)
    assert (row["job_id"], row["last_order"]) == (None, 1)
    assert store.replace_scheduled("nightly", "report").previous_job_id is None


@only("postgresql", "mariadb")
def test_C4_a_schedule_key_that_another_holds_leaves_the_row_for_later(
    world: World,
) -> None:
    store = world.store()
    owner = store.replace_scheduled("nightly", "report").job_id
    other = store.enqueue("job")
    damage(world, owner, "args that are no JSON")
    keys = world.tables.schedule_keys
    with world.database.engine.connect() as connection:
        connection.execute(select(keys).with_for_update()).all()
        assert [each.job.id for each in store.claim(2)] == [other]
        assert world.statuses()[owner] == "queued"
    assert store.claim(2) == []
    assert "args" in error_of(world, owner)


def test_M21_the_handoffs_of_a_worker_leave_an_unreadable_one_out(
    world: World,
) -> None:
    store = world.store()
    bad, good = store.enqueue("job"), store.enqueue("job")
    store.claim(2, worker_id="w")
    damage(world, bad, "args that are no JSON")
    assert [each.job.id for each in store.handoffs_for_worker("w")] == [good]


def test_M18_an_unreadable_job_can_still_be_acknowledged(world: World) -> None:
    store = world.store()
    job_id = store.enqueue("job", concurrency_key="k", max_concurrency=1)
    (handoff,) = store.claim()
    damage(world, job_id, "args that are no JSON")
    ack = store.complete(job_id, handoff.handoff_id)
    assert ack.accepted
    assert ack.job is None
    assert world.statuses() == {job_id: "completed"}
    assert world.counters() == {"k": (1, 0)}


def test_M21_an_unreadable_job_cannot_be_requeued(world: World) -> None:
    store = world.store()
    job_id = store.enqueue("job")
    (handoff,) = store.claim()
    store.complete(job_id, handoff.handoff_id)
    damage(world, job_id, "args that are no JSON")
    before = world.everything()
    with pytest.raises(UnreadableJob):
        store.requeue(job_id)
    assert world.everything() == before


def test_M11_a_page_of_unreadable_rows_hides_nothing(world: World) -> None:
    store = world.store()
    jobs = world.tables.jobs
    queued = JobStatus.QUEUED
    bad = [
        legal_row(
            queued,
            id=f"bad {n:02}",
            last_handoff_id=None,
            schedule_key=None,
            schedule_order=None,
            concurrency_key=None,
            max_concurrency=None,
            args="{",
            priority=9,
        )
        for n in range(45)
    ]
    with world.database.engine.begin() as connection:
        connection.execute(insert(jobs), bad)
    good = store.enqueue("job", scheduled_at=0)
    later = store.enqueue("job", scheduled_at=9000)
    available = store.next_available()
    assert available is not None
    assert available.id == good
    scheduled = store.next_scheduled()
    assert scheduled is not None
    assert scheduled.id == later
    assert [each.job.id for each in store.claim(2)] == [good]
    assert store.counts()[JobStatus.FAILED] == 45


@only("sqlite")
def test_M11_a_damaged_revision_does_not_stop_the_queue(world: World) -> None:
    store = world.store()
    ids = [store.enqueue("job", [n]) for n in range(3)]
    world.execute(
        update(world.tables.jobs)
        .where(world.tables.jobs.c.id == ids[1])
        .values(rev=literal_column("'last'"))
    )
    assert [each.job.id for each in store.claim(3)] == ids


@only("sqlite")
def test_M11_a_row_whose_very_id_is_damaged_does_not_stop_the_queue(
    world: World,
) -> None:
    store = world.store()
    ids = [store.enqueue("job", [n]) for n in range(3)]
    world.execute(
        update(world.tables.jobs)
        .where(world.tables.jobs.c.id == ids[0])
        .values(id=literal_column("x'ff'"))
    )
    assert {each.job.id for _ in range(4) for each in store.claim(1)} <= set(ids[1:])
    assert {each.job.id for each in store.claim(3)} <= set(ids[1:])
    assert store.counts()[JobStatus.HANDED_OFF] == 2
