"""
Rules S1 and S2 on databases that earlier steps made, kept as files.

The files were written by tools/old_databases.py when the steps were released.
"""

from pathlib import Path

import pytest

from sqlalchemy import event

from jobfence.statemachine.errors import IncompatibleSchema
from jobfence.statemachine.states import JobStatus
from jobfence.store.dialects.engines import make_engine
from tests.store.sql.bench import World, only

FIXTURES = Path(__file__).parent / "fixtures"


def load(world: World, step: int) -> None:
    """Make the tables of an earlier step under the world's prefix."""
    text = (FIXTURES / f"v{step}.{world.name}.sql").read_text(encoding="utf-8")
    assert "jobfence_" in text
    text = text.replace("jobfence_", world.prefix)
    with world.database.engine.begin() as connection:
        for statement in text.split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement)


def ledger(world: World) -> list[int]:
    return [row["version"] for row in world.rows(world.tables.migrations)]


def names_in(world: World) -> set[str]:
    """Return the names of all indexes that are really there."""
    inspector = world.database.inspect()
    return {
        str(index["name"])
        for table in world.tables.tables_for(world.database.dialect)
        for index in inspector.get_indexes(table.name)
    }


def test_A32_a_database_of_step_1_is_upgraded_with_its_queued_and_held_jobs(
    bare: World,
) -> None:
    load(bare, 1)
    store = bare.store()
    store.ensure_ready()

    queued, held = store.get("v1-queued"), store.get("v1-held")
    assert queued is not None
    assert queued.status is JobStatus.QUEUED
    assert queued.scheduled_at_ms == 1200
    assert held is not None
    assert held.status is JobStatus.HANDED_OFF
    assert (held.handoff_id, held.worker_id) == ("v1-handoff", "v1-worker")
    assert held.handed_off_at_ms == 1500
    for job in (queued, held):
        assert (job.schedule_key, job.schedule_order, job.origin_id) == (None,) * 3
        assert (job.timeout_ms, job.execution_mode) == (None, "inline")
    assert ledger(bare) == [1, 2, 3]
    assert bare.rows(bare.tables.schedule_keys) == []
    assert names_in(bare) >= bare.index_names()
    bare.store().ensure_ready(create=False)

    # The jobs go on where they were.
    bare.clock.set(2000)
    assert store.complete("v1-held", "v1-handoff").accepted
    assert bare.counters() == {"account:1": (2, 0)}
    (handoff,) = store.claim(2)
    assert handoff.job.id == "v1-queued"
    assert store.fail("v1-queued", handoff.handoff_id, "no").accepted
    assert store.replace_scheduled("nightly", "report").previous_job_id is None


@only("postgresql", "mariadb")
@pytest.mark.parametrize("create", [True, False])
def test_S1_a_start_beside_another_processs_upgrade_finds_it_done(
    bare: World,
    create: bool,  # noqa: FBT001  a value of the test
) -> None:
    load(bare, 1)
    engine = make_engine(bare.database.url)
    upgraded: list[str] = []

    @event.listens_for(engine, "before_cursor_execute")
    def upgrade(_: object, __: object, statement: str, *___: object) -> None:
        asks = (
            statement.startswith("SELECT") and f"{bare.prefix}migrations" in statement
        )
        if asks and not upgraded:
            upgraded.append(statement)
            bare.store().ensure_ready()

    try:
        store = bare.store(engine)
        store.ensure_ready(create=create)
        assert {job.id for job in store.list_jobs()} == {"v1-queued", "v1-held"}
    finally:
        engine.dispose()
    assert len(upgraded) == 1
    assert ledger(bare) == [1, 2, 3]


def test_S1_a_database_of_step_2_keeps_the_owners_of_its_schedule_keys(
    bare: World,
) -> None:
    load(bare, 2)
    store = bare.store()
    current = store.scheduled_job("nightly").current
    assert current is not None
    assert (current.id, current.schedule_order) == ("v2-scheduled", None)
    assert ledger(bare) == [1, 2, 3]
    (owner,) = bare.rows(bare.tables.schedule_keys)
    assert (owner["job_id"], owner["last_order"]) == ("v2-scheduled", 0)
    replaced = store.replace_scheduled("nightly", "report", [2])
    assert replaced.previous_job_id == "v2-scheduled"
    assert bare.statuses()["v2-scheduled"] == "cancelled"
    (owner,) = bare.rows(bare.tables.schedule_keys)
    assert (owner["job_id"], owner["last_order"]) == (replaced.job_id, 1)


def test_S4_a_check_of_an_old_database_names_what_is_missing_and_adds_nothing(
    bare: World,
) -> None:
    load(bare, 1)
    with pytest.raises(IncompatibleSchema) as refusal:
        bare.store().ensure_ready(create=False)
    for name in ("schedule_keys", "jobs.origin_id", "jobs_schedule_key"):
        assert bare.prefix + name in str(refusal.value)
    assert "jobfence migrate" in str(refusal.value)
    assert ledger(bare) == [1]
    assert bare.prefix + "queues" not in bare.database.inspect().get_table_names()


def test_S2_a_ledger_that_claims_more_than_there_is_is_not_believed(
    bare: World,
) -> None:
    load(bare, 1)
    bare.sql("INSERT INTO {p}migrations (version, at_ms) VALUES (2, 0), (3, 0)")
    with pytest.raises(IncompatibleSchema, match=f"{bare.prefix}\\w+ has no column"):
        bare.store().ensure_ready()
    assert bare.prefix + "queues" not in bare.database.inspect().get_table_names()
