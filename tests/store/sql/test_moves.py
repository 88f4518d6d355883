"""Rule M20: the UPDATEs are the rows of the table, on every database."""

import re

from typing import Any

import pytest

from sqlalchemy import Connection, Table, Update, delete, insert, select, true
from sqlalchemy.sql import visitors
from sqlalchemy.sql.schema import Column

from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import TABLE, Fence, Transition, Value
from jobfence.statemachine.values import AckResult
from jobfence.store.sql.moving import Move, move_jobs
from jobfence.store.sql.schema import schema_for
from jobfence.store.sql.statements import moves
from jobfence.store.sql.statements.moves import move
from jobfence.store.sql.store import settings_for
from jobfence.store.sql.tx import Tx
from tests.store.sql.bench import World
from tests.store.sql.rows import legal_row

MOVES = [row for row in TABLE if row.source is not None]
JOBS = schema_for("jobfence_", None).jobs
NOW = 5000

COMPARED = {
    Fence.HANDOFF: "handoff_id",
    Fence.DUE: "scheduled_at_ms",
    Fence.LEASE_OVER: "lease_expires_at_ms",
    Fence.SCHEDULED_AT: "scheduled_at_ms",
    Fence.CONCURRENCY_KEY: "concurrency_key",
}
GIVEN = {
    "handoff_id": "h2",
    "worker_id": "w2",
    "last_handoff_id": "h2",
    "last_worker_id": "w2",
    "lease_ms": 60_000,
    "lease_expires_at_ms": 65_000,
    "last_ack": "the trigger",
    "last_error": "second failure ✗",
    "scheduled_at_ms": 9000,
    "concurrency_key": "queue:media",
    "max_concurrency": 9,
    "priority": -1,
}


def name_of(row: Transition) -> str:
    assert row.source is not None
    return f"{row.trigger}-{row.name}-from-{row.source}"


def assignments(statement: Update) -> dict[str, str]:
    """Return what is SET, as text."""
    found = re.search(r" SET (.*) WHERE ", str(statement), re.DOTALL)
    assert found is not None
    return dict(each.split("=", 1) for each in found[1].split(", "))


def compared_columns(statement: Update) -> list[str]:
    """Return the columns in WHERE, one for each comparison."""
    assert statement.whereclause is not None
    return sorted(
        each.name
        for each in visitors.iterate(statement.whereclause)
        if isinstance(each, Column)
    )


@pytest.mark.parametrize("row", MOVES, ids=name_of)
def test_M20_a_move_compares_the_id_the_status_and_the_fences_of_its_row(
    row: Transition,
) -> None:
    fences = [COMPARED[fence] for fence in row.fence]
    assert compared_columns(move(JOBS, row)) == sorted(["id", "status", *fences])


@pytest.mark.parametrize("row", MOVES, ids=name_of)
def test_L2_a_single_owner_leaves_out_the_lease_and_nothing_else(
    row: Transition,
) -> None:
    fences = [COMPARED[fence] for fence in row.fence if fence is not Fence.LEASE_OVER]
    whole = move(JOBS, row, whole=True)
    assert compared_columns(whole) == sorted(["id", "status", *fences])
    assert assignments(whole) == assignments(move(JOBS, row))


@pytest.mark.parametrize("row", MOVES, ids=name_of)
def test_M20_a_move_writes_the_columns_of_its_row_and_the_revision(
    row: Transition,
) -> None:
    assert set(assignments(move(JOBS, row))) == {"status", "rev", *row.writes}


@pytest.mark.parametrize("row", MOVES, ids=name_of)
def test_no_value_that_a_move_sets_reads_another_column(row: Transition) -> None:
    # MySQL runs SET from left to right: `handoff_id = NULL, last = handoff_id` would
    # store NULL.
    for name, value in assignments(move(JOBS, row)).items():
        read = re.findall(r"jobfence_jobs\.(\w+)", value)
        assert set(read) <= {name}


def test_the_test_of_reading_columns_sees_one_that_is_read() -> None:
    claim = next(row for row in MOVES if row.trigger == "claim")
    found = assignments(move(JOBS, claim))
    assert re.findall(r"jobfence_jobs\.(\w+)", found["handoffs"]) == ["handoffs"]


def run_moves(
    connection: Connection, world: World, row: Transition, moves: list[Move]
) -> list[Any]:
    settings = settings_for(
        connection.dialect,
        queues=None,
        clock=world.clock,
        lease_ms=None,
        retry_policy=None,
        max_handoffs=None,
        journal=False,
        table_prefix=world.prefix,
        schema=None,
        ids=None,
        handoff_ids=None,
    )
    return move_jobs(Tx(connection, settings), row, moves)


def run_move(connection: Connection, world: World, row: Transition, move: Move) -> Any:
    return run_moves(connection, world, row, [move])[0]


def put(
    connection: Connection, jobs: Table, status: JobStatus | None, **columns: Any
) -> dict[str, Any]:
    assert status is not None
    connection.execute(delete(jobs))
    connection.execute(insert(jobs).values(legal_row(status, **columns)))
    return read(connection, jobs)


def read(connection: Connection, jobs: Table) -> dict[str, Any]:
    return dict(connection.execute(select(jobs)).mappings().one())


def given_for(row: Transition) -> dict[str, Any]:
    return {
        name: GIVEN[name] for name, value in row.writes.items() if value is Value.GIVEN
    }


@pytest.mark.parametrize("row", MOVES, ids=name_of)
def test_M20_a_moved_row_is_what_the_store_says_it_wrote(
    undone: Connection, world_tables: World, row: Transition
) -> None:
    jobs = world_tables.tables.jobs
    before = put(undone, jobs, row.source)
    world_tables.clock.set(NOW)
    move = Move(before, given_for(row), "h1")
    after = run_move(undone, world_tables, row, move)
    assert after is not None
    assert after == read(undone, jobs)
    untouched = set(before) - set(row.writes) - {"status", "rev"}
    assert {name: after[name] for name in untouched} == {
        name: before[name] for name in untouched
    }
    assert after["status"] == row.dest.value
    assert after["rev"] == before["rev"] + 1


BROKEN: dict[Fence, dict[str, Any]] = {
    Fence.HANDOFF: {},
    Fence.DUE: {"scheduled_at_ms": NOW + 1},
    Fence.LEASE_OVER: {"lease_expires_at_ms": NOW + 1},
    Fence.SCHEDULED_AT: {"scheduled_at_ms": 201},
    Fence.CONCURRENCY_KEY: {"concurrency_key": None, "max_concurrency": None},
}


@pytest.mark.parametrize("row", MOVES, ids=name_of)
def test_M20_status_and_each_fence_are_compared_by_the_database(
    undone: Connection, world_tables: World, row: Transition
) -> None:
    jobs = world_tables.tables.jobs
    world_tables.clock.set(NOW)
    assert row.source is not None
    queued, held = JobStatus.QUEUED, JobStatus.HANDED_OFF
    other = held if row.source is queued else queued
    cases: list[tuple[JobStatus, dict[str, Any], str]] = [(other, {}, "h1")]
    for fence in row.fence:
        shown = "h-other" if fence is Fence.HANDOFF else "h1"
        cases.append((row.source, BROKEN[fence], shown))
    for status, columns, handoff_id in cases:
        before = put(undone, jobs, status, **columns)
        as_read = Move(legal_row(row.source), given_for(row), handoff_id)
        assert run_move(undone, world_tables, row, as_read) is None
        assert read(undone, jobs) == before


@pytest.mark.parametrize("row", MOVES, ids=name_of)
def test_M20_of_several_moved_at_once_those_alone_change_whose_fences_hold(
    undone: Connection, world_tables: World, row: Transition
) -> None:
    jobs = world_tables.tables.jobs
    world_tables.clock.set(NOW)
    assert row.source is not None
    right = given_for(row)
    broken = [(fence, BROKEN[fence]) for fence in row.fence]
    undone.execute(delete(jobs))
    moves = []
    for number, (fence, columns) in enumerate([(None, {}), *broken, (None, {})]):
        own = own_ids(row.source, f"j{number}", f"h{number}")
        undone.execute(insert(jobs).values(legal_row(row.source, **{**own, **columns})))
        given = {
            name: f"new{number}" if name.endswith("handoff_id") else value
            for name, value in right.items()
        }
        shown = "h-other" if fence is Fence.HANDOFF else f"h{number}"
        moves.append(Move(legal_row(row.source, **own), given, shown))
    before = {
        each["id"]: dict(each) for each in undone.execute(select(jobs)).mappings()
    }
    after = run_moves(undone, world_tables, row, moves)
    stored = {
        each["id"]: dict(each) for each in undone.execute(select(jobs)).mappings()
    }
    assert [each is None for each in after] == [False, *(True for _ in broken), False]
    for each, answer in zip(moves, after, strict=True):
        expected = before[each.job_id] if answer is None else answer
        assert stored[each.job_id] == expected


def own_ids(status: JobStatus, job_id: str, handoff_id: str) -> dict[str, str]:
    """Return what no two jobs may share."""
    own = {"id": job_id}
    if legal_row(status)["last_handoff_id"] is not None:
        own["last_handoff_id"] = handoff_id
    if legal_row(status)["handoff_id"] is not None:
        own["handoff_id"] = handoff_id
    return own


def a_stale_completion_changes_nothing(world: World) -> None:
    """Case F5: the same worker has the job again, under another handoff."""
    store = world.store()
    job_id = store.enqueue("thumbnail")
    (first,) = store.claim(worker_id="w")
    assert store.return_to_queue(job_id, first.handoff_id).accepted
    store.claim(worker_id="w")
    before = world.everything()
    assert store.complete(job_id, first.handoff_id).result is AckResult.STALE
    assert world.everything() == before


def test_F5_a_stale_completion_changes_nothing(world: World) -> None:
    a_stale_completion_changes_nothing(world)


def test_without_the_handoff_in_the_one_builder_the_stale_completion_is_accepted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Guards the guard: were the comparison made anywhere else as well, the test above
    # would not notice when the builder loses it.
    blind = {**moves._FENCES, Fence.HANDOFF: lambda *_: true()}  # noqa: SLF001
    monkeypatch.setattr(moves, "_FENCES", blind)
    move.cache_clear()
    try:
        with pytest.raises(AssertionError):
            a_stale_completion_changes_nothing(world)
        (job,) = world.store().list_jobs()
        assert job.status is JobStatus.COMPLETED
    finally:
        move.cache_clear()
