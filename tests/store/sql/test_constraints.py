"""Rule M16: rows that the table cannot reach are refused by the database itself."""

import re

from dataclasses import replace
from typing import Any

import pytest

from sqlalchemy import Connection, Table, delete, insert, select, update
from sqlalchemy.exc import DBAPIError

from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import HANDOFF_COLUMNS, TABLE, Value
from jobfence.store.sql import schema
from jobfence.store.sql.schema import check_texts
from tests.store.sql.bench import World
from tests.store.sql.rows import legal_row

Q, H = JobStatus.QUEUED, JobStatus.HANDED_OFF

# For each CHECK by name: rows that break it, and nothing else, from a legal row in
# this status.
ILLEGAL: dict[str, list[tuple[JobStatus, dict[str, Any]]]] = {
    "status": [(Q, {"status": "running"}), (Q, {"status": "QUEUED"})],
    "not_negative": [
        (Q, {"attempts": -1}),
        (Q, {"handoffs": -1}),
        (Q, {"max_retries": -1}),
    ],
    "lease": [(H, {"lease_ms": None}), (H, {"lease_expires_at_ms": None})],
    "lease_held": [(Q, {"lease_ms": 50, "lease_expires_at_ms": 350})],
    "last_handoff": [(H, {"last_handoff_id": "h0"})],
    "capped": [(Q, {"max_concurrency": None}), (Q, {"concurrency_key": None})],
    "not_marked": [(Q, {"cancel_requested": True})],
    "held_handoff_id": [
        (Q, {"handoff_id": "h1", "last_handoff_id": "h1"}),
        (H, {"handoff_id": None}),
    ],
    "held_worker_id": [(Q, {"worker_id": "w"}), (H, {"worker_id": None})],
    "held_handed_off_at_ms": [
        (Q, {"handed_off_at_ms": 1}),
        (H, {"handed_off_at_ms": None}),
    ],
    "completed_at_ms": [
        (Q, {"completed_at_ms": 1}),
        (JobStatus.COMPLETED, {"completed_at_ms": None}),
    ],
    "failed_at_ms": [
        (H, {"failed_at_ms": 1}),
        (JobStatus.FAILED, {"failed_at_ms": None}),
    ],
    "cancelled_at_ms": [
        (JobStatus.COMPLETED, {"cancelled_at_ms": 1}),
        (JobStatus.CANCELLED, {"cancelled_at_ms": None}),
    ],
}
NAMES = list(ILLEGAL)


def test_every_check_has_a_row_that_breaks_it() -> None:
    assert set(ILLEGAL) == set(check_texts())


@pytest.fixture
def jobs(world_tables: World) -> Table:
    return world_tables.tables.jobs


def refused(connection: Connection, statement: Any) -> str:
    """Return the database's reason for refusing a statement."""
    with pytest.raises(DBAPIError) as refusal, connection.begin_nested():
        connection.execute(statement)
    return str(refusal.value.orig)


def stored(connection: Connection, jobs: Table) -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(select(jobs)).mappings()]


def test_a_legal_row_of_each_status_is_taken(undone: Connection, jobs: Table) -> None:
    rows = [
        legal_row(status, id=status.value, last_handoff_id=None) for status in JobStatus
    ]
    for row in rows:
        if row["status"] == H:
            row["last_handoff_id"] = row["handoff_id"]
        undone.execute(insert(jobs).values(row))
    by_id = {row["id"]: row for row in stored(undone, jobs)}
    assert by_id == {row["id"]: row for row in rows}


@pytest.mark.parametrize("name", NAMES)
def test_M16_an_insert_that_breaks_a_check_is_refused(
    undone: Connection, jobs: Table, name: str
) -> None:
    for status, columns in ILLEGAL[name]:
        statement = insert(jobs).values(legal_row(status, **columns))
        assert re.search(rf"{jobs.name}_{name}\b", refused(undone, statement))
        assert stored(undone, jobs) == []


@pytest.mark.parametrize("name", NAMES)
def test_M16_an_update_that_breaks_a_check_is_refused(
    undone: Connection, jobs: Table, name: str
) -> None:
    for status, columns in ILLEGAL[name]:
        undone.execute(delete(jobs))
        undone.execute(insert(jobs).values(legal_row(status)))
        statement = update(jobs).values(columns)
        assert re.search(rf"{jobs.name}_{name}\b", refused(undone, statement))
        assert stored(undone, jobs) == [legal_row(status)]


def test_M16_a_handoff_id_is_in_the_database_once(
    undone: Connection, jobs: Table
) -> None:
    undone.execute(insert(jobs).values(legal_row(H)))
    for other in (
        legal_row(H, id="r2"),
        legal_row(JobStatus.COMPLETED, id="r2", last_handoff_id="h1"),
    ):
        refused(undone, insert(jobs).values(other))
    assert stored(undone, jobs) == [legal_row(H)]


def test_C1_a_counter_has_a_positive_cap_and_no_negative_count(
    undone: Connection, world_tables: World
) -> None:
    table = world_tables.tables.concurrency
    for cap, active in ((0, 0), (-1, 0), (1, -1)):
        counter = {
            "concurrency_key": "k",
            "max_concurrency": cap,
            "active_count": active,
        }
        refused(undone, insert(table).values(counter))
    assert stored(undone, table) == []


def test_what_every_job_has_is_not_null(undone: Connection, jobs: Table) -> None:
    always = ["id", "name", "queue", "args", "kwargs", "args_digest", "status"]
    always += ["priority", "priority_explicit", "attempts", "max_retries", "handoffs"]
    always += ["created_at_ms", "scheduled_at_ms", "cancel_requested"]
    always += ["execution_mode", "rev"]
    for name in always:
        refused(undone, insert(jobs).values(legal_row(Q, **{name: None})))
    assert stored(undone, jobs) == []


def test_M20_the_checks_follow_the_rows_of_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = check_texts()
    changed = tuple(
        replace(row, writes={**row.writes, "done_at_ms": Value.NOW})
        if row.dest is JobStatus.COMPLETED
        else row
        for row in TABLE
    )
    without = tuple(
        replace(
            row,
            writes={n: v for n, v in row.writes.items() if n != "completed_at_ms"},
        )
        for row in changed
    )
    monkeypatch.setattr(schema, "TABLE", without)
    after = check_texts()
    assert "completed_at_ms" not in after
    assert after["done_at_ms"] == "(status = 'completed') = (done_at_ms IS NOT NULL)"
    same = set(before) - {"completed_at_ms"}
    assert {name: after[name] for name in same} == {name: before[name] for name in same}


def test_M20_the_checks_follow_the_columns_that_every_way_out_clears(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schema, "HANDOFF_COLUMNS", (*HANDOFF_COLUMNS, "host"))
    assert check_texts()["held_host"] == (
        "(status = 'handed_off') = (host IS NOT NULL)"
    )
