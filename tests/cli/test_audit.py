"""`jobfence audit`: what it says of a right database, of a wrong one, and of none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlalchemy import MetaData, create_engine, select

from jobfence import SqlJobStore
from tests.cli.support import Runner


@pytest.fixture
def noted(url: str) -> Iterator[SqlJobStore]:
    """Give a store that keeps a journal."""
    store = SqlJobStore(url, journal=True)
    store.ensure_ready()
    yield store
    store.close()


def work(store: SqlJobStore) -> str:
    """Let a keyed job be handed off and complete, and another be handed off."""
    capped = {"concurrency_key": "k", "max_concurrency": 2}
    for _ in range(2):
        store.enqueue("work", **capped)  # type: ignore[arg-type]
    first, second = store.claim(2)
    store.complete(first.job.id, first.handoff_id)
    return second.job.id


def edit(url: str, statement: str, *values: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql(statement, values)
    engine.dispose()


def dump(url: str) -> list[object]:
    """Return every row of every table."""
    engine, tables = create_engine(url), MetaData()
    tables.reflect(engine)
    with engine.connect() as connection:
        rows: list[object] = [
            connection.execute(select(table)).all() for table in tables.sorted_tables
        ]
    engine.dispose()
    return rows


def test_a_right_journal_is_ok(jobfence: Runner, url: str, noted: SqlJobStore) -> None:
    work(noted)

    ran = jobfence("audit", "--url", url)

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        # One says how the journal began; two jobs twice handed off, one ended; the
        # counter was made, raised and lowered.
        (
            "OK: 9 entries of the journal, written by 5 transactions, and the tables "
            "are what they lead to"
        ),
        "5 transitions of 2 jobs; 1 counters, 0 schedule keys",
    ]


def test_the_first_impossible_event_is_named(
    jobfence: Runner, url: str, noted: SqlJobStore
) -> None:
    job_id = work(noted)
    edit(url, "UPDATE jobfence_jobs SET attempts = 1 WHERE id = ?", job_id)
    (held,) = noted.handoffs_for_worker("local")
    noted.complete(held.job.id, held.handoff_id)

    ran = jobfence("audit", "--url", url)

    assert (ran.code, ran.err) == (1, "")
    lines = ran.out.splitlines()
    assert lines[0].startswith("impossible: event 9 of 11, in transaction ")
    assert lines[0].endswith(f": job {job_id}, revision 2, complete:complete")
    assert lines[1:] == [
        "rule:       M3",
        "expected:   attempts still 0: complete leaves it",
        "seen:       1",
    ]


def test_a_row_that_is_not_what_the_journal_leads_to_is_named(
    jobfence: Runner, url: str, noted: SqlJobStore
) -> None:
    job_id = work(noted)
    edit(url, "UPDATE jobfence_jobs SET priority = 1 WHERE id = ?", job_id)

    ran = jobfence("audit", "--url", url)

    assert ran.code == 1
    assert ran.out.splitlines() == [
        f"impossible: job {job_id} as it stands",
        "rule:       journal",
        "expected:   priority 0, as last noted",
        "seen:       1: a write that was not noted",
    ]


def test_json_says_the_same(jobfence: Runner, url: str, noted: SqlJobStore) -> None:
    job_id = work(noted)
    counts = {
        "entries": 9,
        "transactions": 5,
        "transitions": 5,
        "jobs": 2,
        "counters": 1,
        "schedule_keys": 0,
    }
    assert jobfence("audit", "--url", url, "--json").json() == {
        "ok": True,
        "journal": True,
        "counts": counts,
        "earlier": 0,
        "impossible": None,
    }
    edit(url, "UPDATE jobfence_concurrency SET active_count = 2")

    ran = jobfence("audit", "--url", url, "--json")

    assert ran.code == 1
    assert '"entity": "counter"' in ran.out
    assert '"expected": "active_count 1, as last noted"' in ran.out
    assert job_id not in ran.out


def test_a_database_without_a_journal_says_so_and_its_tables_are_checked(
    jobfence: Runner, url: str, store: SqlJobStore
) -> None:
    work(store)

    ran = jobfence("audit", "--url", url)

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        (
            "this database has no journal (a store writes one with journal=True); only "
            "the tables as they stand were checked"
        ),
        "OK",
    ]
    assert jobfence("audit", "--url", url, "--json").json() == {
        "ok": True,
        "journal": False,
        "problems": [],
    }


def test_what_is_wrong_in_tables_without_a_journal_is_listed(
    jobfence: Runner, url: str, store: SqlJobStore
) -> None:
    work(store)
    edit(url, "UPDATE jobfence_concurrency SET active_count = 2")
    for number in range(25):
        edit(
            url,
            "INSERT INTO jobfence_concurrency (concurrency_key, max_concurrency, "
            "active_count) VALUES (?, 1, 1)",
            f"x{number:02}",
        )

    ran = jobfence("audit", "--url", url)

    assert (ran.code, ran.err) == (1, "")
    lines = ran.out.splitlines()
    assert len(lines) == 1 + 20 + 2
    assert lines[1] == (
        "counter 'k': rule C5: expected active 1: so many jobs of this key are handed "
        "off; seen active 2"
    )
    assert lines[-2:] == ["and 6 more", "26 problems"]


def test_rows_from_before_the_journal_are_counted(
    jobfence: Runner, url: str, store: SqlJobStore
) -> None:
    work(store)
    later = SqlJobStore(url, journal=True)
    later.enqueue("work")
    later.close()

    ran = jobfence("audit", "--url", url)

    assert ran.code == 0
    assert ran.out.splitlines()[-1] == (
        "3 rows were there before the journal began: what they were then is not known"
    )


def test_what_other_commands_change_is_noted_too(
    jobfence: Runner, url: str, noted: SqlJobStore
) -> None:
    job_id = noted.enqueue("work")
    assert jobfence("cancel", job_id, "--url", url).code == 0
    assert jobfence("requeue", job_id, "--url", url).code == 0
    assert jobfence("prune", "--cancelled", "0ms", "--url", url).code == 0
    edit(url, "DROP TABLE jobfence_schedule_keys")
    assert jobfence("migrate", "--url", url).code == 0

    ran = jobfence("audit", "--url", url)

    assert (ran.code, ran.err) == (0, "")
    assert "4 transitions" not in ran.out
    assert "3 transitions of 2 jobs" in ran.out


def test_no_database_is_made_by_looking_at_it(jobfence: Runner, url: str) -> None:
    ran = jobfence("audit", "--url", url)

    assert ran.code == 1
    assert "there is no file" in ran.sentence()
    assert jobfence("audit").code == 2


def test_a_journal_is_written_for_tlc(
    jobfence: Runner, url: str, noted: SqlJobStore, tmp_path: Path
) -> None:
    work(noted)
    path = tmp_path / "TraceData.tla"

    assert jobfence("audit", "--url", url, "--tla", str(path)).code == 0

    assert path.read_text().startswith("---- MODULE TraceData ----\n")
    nowhere = jobfence("audit", "--url", url, "--tla", str(tmp_path / "no" / "file"))
    assert nowhere.code == 2
    assert "there is no directory" in nowhere.sentence()


def test_what_is_no_trace_is_not_written_for_tlc(
    jobfence: Runner, url: str, store: SqlJobStore, tmp_path: Path
) -> None:
    path = tmp_path / "TraceData.tla"
    store.enqueue("work")
    without = jobfence("audit", "--url", url, "--tla", str(path))
    assert "this database has no journal" in without.sentence()
    late = SqlJobStore(url, journal=True)
    late.enqueue("work")
    late.close()
    begun_late = jobfence("audit", "--url", url, "--tla", str(path))

    assert "when there were rows already" in begun_late.sentence()
    assert (without.code, begun_late.code) == (1, 1)
    assert not path.exists()


def test_a_row_of_the_journal_that_is_none_is_said_to_be(
    jobfence: Runner, url: str, noted: SqlJobStore
) -> None:
    work(noted)
    edit(url, "UPDATE jobfence_journal SET at_ms = 'noon' WHERE action = 'create'")

    ran = jobfence("audit", "--url", url)

    assert ran.code == 1
    assert "a row of the journal is no entry: at_ms is 'noon'" in ran.sentence()


def test_a_job_given_up_too_early_is_found_if_the_limit_is_told(
    jobfence: Runner, url: str
) -> None:
    store = SqlJobStore(url, journal=True, max_handoffs=1)
    job_id = store.enqueue("work")
    (handoff,) = store.claim()
    store.return_to_queue(job_id, handoff.handoff_id)
    store.close()

    assert jobfence("audit", "--url", url).code == 0
    assert jobfence("audit", "--url", url, "--max-handoffs", "1").code == 0
    ran = jobfence("audit", "--url", url, "--max-handoffs", "2")
    assert ran.code == 1
    assert "M7b" in ran.out


def test_a_limit_on_handoffs_that_is_none_is_refused(
    jobfence: Runner, url: str
) -> None:
    ran = jobfence("audit", "--url", url, "--max-handoffs", "0")
    assert ran.code == 2
    assert ran.sentence().startswith("--max-handoffs must be 1 or more, not 0")


@pytest.mark.parametrize(
    "losing",
    [
        "DELETE FROM jobfence_journal",
        "DELETE FROM jobfence_journal WHERE action = 'begin'",
        "DELETE FROM jobfence_journal WHERE 1 = 0",
    ],
)
def test_an_audit_writes_nothing_whatever_the_journal_lacks(
    jobfence: Runner, url: str, noted: SqlJobStore, losing: str
) -> None:
    work(noted)
    edit(url, losing)
    before = dump(url)

    ran = jobfence("audit", "--url", url)

    assert dump(url) == before
    # Without its first entry a journal is taken for complete, which this one is.
    assert (ran.code, ran.err) == (0, "")
    assert "were there before" not in ran.out
