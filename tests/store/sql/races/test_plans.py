"""Claims stay exact whatever plan the database chooses."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sqlalchemy import Connection, Engine, event, func, select

from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Settlement
from tests.store.sql.races.place import Place

MANY = 10_000


@pytest.mark.unnoted  # of ten thousand jobs the plan is asked
@pytest.mark.on("postgresql")
def test_F49_a_claim_of_one_locks_and_takes_one_in_a_nested_loop(place: Place) -> None:
    """Case F49: 10,000 rows, statistics of an empty table, no hash or merge join."""
    store, jobs = place.store(), place.tables.jobs
    with place.looking.connect() as connection:
        engine = connection.execution_options(isolation_level="AUTOCOMMIT")
        engine.exec_driver_sql(f"ANALYZE {jobs.name}, {place.tables.concurrency.name}")
    ids = store.enqueue_many(
        JobRequest("job", [n], concurrency_key=f"k{n % 50}", max_concurrency=5)
        for n in range(MANY)
    )
    with place.looking.connect() as connection, connection.begin():
        for setting in ("hashjoin", "mergejoin", "material"):
            connection.exec_driver_sql(f"SET LOCAL enable_{setting} = off")
        (handoff,) = store.within(connection).claim(1)
        assert handoff.job.id == ids[0]
        with place.looking.connect() as other:
            free = select(jobs.c.id).with_for_update(skip_locked=True)
            assert len(other.execute(free).all()) == MANY - 1
    held = [row["id"] for row in place.jobs().values() if row["handoff_id"] is not None]
    assert held == [handoff.job.id]


@pytest.mark.on("postgresql", "mariadb")
def test_F50_a_second_worker_gets_the_next_job_while_the_first_is_open(
    place: Place,
) -> None:
    """Case F50, and the whole rest for a third with a large limit."""
    store = place.store()
    ids = store.enqueue_many(JobRequest("job", [n]) for n in range(10))
    with place.looking.connect() as connection, connection.begin():
        (first,) = store.within(connection).claim(1)
        (second,) = store.claim(1)
        rest = store.claim(50)
    assert [each.job.id for each in (first, second, *rest)] == ids


@contextmanager
def claims_seen(engine: Engine) -> Iterator[list[tuple[str, Any]]]:
    """Collect the statements that look for jobs to claim."""
    seen: list[tuple[str, Any]] = []

    def note(
        _connection: Connection,
        _cursor: object,
        statement: str,
        parameters: Any,
        *_: Any,
    ) -> None:
        if "SKIP LOCKED" in statement and "LIMIT" in statement:
            seen.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(engine, "before_cursor_execute", note)


@pytest.mark.unnoted
@pytest.mark.on("postgresql")
@pytest.mark.parametrize("analyzed", [False, True])
def test_F50_no_claim_is_sorted_even_with_statistics_of_an_empty_table(
    place: Place,
    analyzed: bool,  # noqa: FBT001  a value of the test
) -> None:
    """Case F50, in the minutes after a large enqueue and later."""
    store, tables = place.store(), place.tables
    names = f"{tables.jobs.name}, {tables.concurrency.name}"
    with place.looking.connect() as connection:
        outside = connection.execution_options(isolation_level="AUTOCOMMIT")
        outside.exec_driver_sql(f"ANALYZE {names}")
        store.enqueue_many(
            JobRequest("job", [n], queue="ab"[n % 2], priority=n % 3)
            for n in range(MANY)
        )
        if analyzed:
            outside.exec_driver_sql(f"ANALYZE {names}")
    with claims_seen(store.engine) as seen:
        for limit in (1, 20, 500):
            store.claim(limit)
            store.claim(limit, queues=["b"])
    assert len(seen) >= 6
    with place.looking.connect() as connection:
        for statement, parameters in seen:
            plan = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)
            steps = "\n".join(plan.scalars())
            assert "Sort" not in steps
            assert f"Index Scan using {place.prefix}jobs_due" in steps


@pytest.mark.unnoted
@pytest.mark.on("mariadb")
@pytest.mark.parametrize("n", [3, 60, 3000])
def test_F50_no_claim_is_sorted(place: Place, n: int) -> None:
    """Case F50: the plan has no filesort, for any limit and any filter."""
    store = place.store()
    store.enqueue_many(
        JobRequest("job", [number], queue="ab"[number % 2], priority=number % 3)
        for number in range(n)
    )
    store.pause_queue("c")
    with claims_seen(store.engine) as seen, store.engine.connect() as connection:
        inside = store.within(connection)
        for limit in (1, 20, 500):
            inside.claim(limit)
            inside.claim(limit, queues=["b"])
            inside.claim(limit, execution_modes=["inline"])
        connection.rollback()
    assert len(seen) >= 9
    with place.looking.connect() as connection:
        for statement, parameters in seen:
            plan = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)
            steps = plan.mappings().all()
            assert not any("filesort" in (step["Extra"] or "") for step in steps)
            looking = [step for step in steps if step["select_type"] == "DERIVED"]
            assert [step["key"] for step in looking] == [f"{place.prefix}jobs_due"]


@pytest.mark.on("mariadb")
def test_a_claim_looks_further_when_others_hold_the_first_jobs(place: Place) -> None:
    """More are held than a first look covers; the best of the free ones is found."""
    store = place.store()
    ids = store.enqueue_many(JobRequest("job", [n]) for n in range(130))
    with place.looking.connect() as connection, connection.begin():
        held = store.within(connection).claim(120)
        assert [each.job.id for each in held] == ids[:120]
        assert [each.job.id for each in store.claim(2)] == ids[120:122]
        assert [each.job.id for each in store.claim(20)] == ids[122:]
    assert place.count(JobStatus.HANDED_OFF) == 130


@pytest.mark.unnoted  # statements are counted
def test_F56_old_jobs_are_pruned_in_batches_while_a_reader_holds_a_snapshot(
    place: Place,
) -> None:
    """Case F56: a thousand at most in a transaction; claims and the reader go on."""
    clock = ManualClock(1000)
    store = place.store(clock=clock)
    store.enqueue_many(JobRequest("old", [n]) for n in range(2500))
    while handoffs := store.claim(500):
        store.settle([Settlement.complete(each) for each in handoffs])
    deletes: list[list[int]] = [[]]

    def note(_c: object, _d: object, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith("DELETE ") and place.tables.jobs.name in statement:
            deletes[-1].append(len(parameters) if isinstance(parameters, list) else 1)

    def committed(_connection: object) -> None:
        deletes.append([])

    event.listen(store.engine, "before_cursor_execute", note)
    event.listen(store.engine, "commit", committed)
    seen = select(func.count()).select_from(place.tables.jobs)
    with place.snapshot() as reader:
        assert reader.execute(seen).scalar_one() == 2500
        clock.advance(10_000)
        new = store.enqueue("new")
        assert store.prune_terminal(completed_ttl_ms=10_000) == 2500
        assert [each.job.id for each in store.claim(5)] == [new]
        assert reader.execute(seen).scalar_one() == 2500
    assert [sum(batch) for batch in deletes if batch] == [1000, 1000, 500]
    assert place.count(JobStatus.COMPLETED) == 0
