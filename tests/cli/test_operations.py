"""What an operator does: each command, for people and as JSON."""

import secrets

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobfence import Job, JobStatus, QueuePolicy, SqlJobStore
from jobfence.cli import output
from tests.cli.support import Runner, run_process


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def tables(
    request: pytest.FixtureRequest, database_urls: dict[str, str]
) -> Iterator[tuple[str, ...]]:
    """Give the options that name fresh tables on each database."""
    url = database_urls.get(request.param)
    if url is None:
        pytest.skip(f"{request.param} does not answer")
    prefix = f"cli_{secrets.token_hex(4)}_"
    yield "--url", url, "--table-prefix", prefix
    store = SqlJobStore(url, table_prefix=prefix)
    store.tables.metadata.drop_all(store.engine)
    store.close()


def ended(store: SqlJobStore, *, failed: bool = False) -> str:
    """Return the id of a job that has just ended."""
    job_id = store.enqueue("ended", max_retries=0)
    handoff = store.claim_job(job_id)
    assert handoff is not None
    if failed:
        store.fail(job_id, handoff.handoff_id, "line one\nline \x1b[31mtwo")
    else:
        store.complete(job_id, handoff.handoff_id)
    return job_id


def found(store: SqlJobStore, job_id: str) -> Job:
    job = store.get(job_id)
    assert job is not None
    return job


def test_migrate_makes_the_tables_and_can_be_repeated(
    jobfence: Runner, tables: tuple[str, ...]
) -> None:
    before = jobfence("migrate", "--check", *tables)
    assert before.code == 1
    assert "jobfence migrate" in before.sentence()
    for _ in range(2):
        made = jobfence("migrate", *tables)
        assert (made.code, made.err) == (0, "")
        assert "are at version 3" in made.out
    assert jobfence("migrate", "--check", *tables).code == 0
    figures = jobfence("status", *tables, "--json").json()
    assert figures == {"counts": dict.fromkeys(JobStatus, 0), "queues": []}


def test_migrate_check_changes_nothing(
    jobfence: Runner, url: str, tmp_path: Path
) -> None:
    assert jobfence("migrate", "--check", "--url", url).code == 1
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "jobs.db").touch()
    for _ in range(2):
        assert "lacks jobfence_" in jobfence("migrate", "--check", "--url", url).err


def test_migrate_json_names_the_tables(jobfence: Runner, url: str) -> None:
    made = jobfence("migrate", "--url", url, "--json").json()
    assert isinstance(made, dict)
    assert made["version"] == 3
    assert "jobfence_jobs" in made["tables"]
    assert "jobfence_locks" not in made["tables"]  # MySQL's alone


def test_migrate_sql_prints_statements_that_make_tables_the_store_accepts(
    jobfence: Runner, tables: tuple[str, ...]
) -> None:
    printed = jobfence("migrate", "--sql", *tables)
    assert (printed.code, printed.err) == (0, "")
    _, url, _, prefix = tables
    store = SqlJobStore(url, table_prefix=prefix)
    with store.engine.begin() as connection:
        for statement in printed.out.split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement.replace("%", "%%"))
    store.ensure_ready(create=False)
    assert store.get(store.enqueue("works")) is not None
    store.close()


def test_migrate_sql_connects_to_nothing(jobfence: Runner) -> None:
    nobody = "postgresql://u:secret@127.0.0.1:9/db"
    printed = jobfence("migrate", "--sql", "--url", nobody, "--json").json()
    assert isinstance(printed, dict)
    assert any("CREATE TABLE jobfence_jobs" in each for each in printed["statements"])


def test_status_counts_jobs_and_shows_each_queue(
    jobfence: Runner, url: str, store: SqlJobStore
) -> None:
    store.reconcile_queue_policies({"slow": QueuePolicy(max_concurrent=2)})
    store.enqueue("a", queue="slow", scheduled_at=0)
    ended(store)
    store.pause_queue("slow")
    figures = jobfence("status", "--url", url, "--json").json()
    assert isinstance(figures, dict)
    assert figures["counts"]["queued"] == figures["counts"]["completed"] == 1
    slow = next(each for each in figures["queues"] if each["queue"] == "slow")
    assert (slow["paused"], slow["max_concurrent"], slow["active"]) == (True, 2, 0)

    shown = jobfence("status", "--url", url)
    assert (shown.code, shown.err) == (0, "")
    line = next(each for each in shown.out.splitlines() if each.startswith("slow"))
    assert line.split()[-1] == "paused"
    assert "completed   1" in shown.out


def test_status_of_an_empty_database_says_so(
    jobfence: Runner, url: str, store: SqlJobStore
) -> None:
    assert jobfence("status", "--url", url).out.endswith("no queues yet\n")


def test_the_environment_names_the_database(
    jobfence: Runner, url: str, store: SqlJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBFENCE_URL", url)
    assert jobfence("status").code == 0


def test_list_filters_and_pages(jobfence: Runner, url: str, store: SqlJobStore) -> None:
    ids = [store.enqueue(name, queue=name) for name in ("a", "b", "a")]
    store.cancel(ids[2])

    def listed(*options: str) -> list[str]:
        jobs = jobfence("list", "--url", url, "--json", *options).json()
        assert isinstance(jobs, list)
        return [job["id"] for job in jobs]

    assert listed() == ids
    assert listed("--name", "a") == [ids[0], ids[2]]
    assert listed("--queue", "b") == [ids[1]]
    assert listed("--status", "cancelled") == [ids[2]]
    assert listed("--limit", "1", "--after", ids[0]) == [ids[1]]


def test_list_shows_a_table_and_no_names_that_steer_the_terminal(
    jobfence: Runner, url: str, store: SqlJobStore
) -> None:
    assert jobfence("list", "--url", url).out == "no such jobs\n"
    job_id = store.enqueue("evil\x1b[2J\r\nname", scheduled_at=1_700_000_000_123)
    shown = jobfence("list", "--url", url)
    header, line = shown.out.splitlines()
    assert header.split()[:3] == ["id", "name", "queue"]
    assert line.startswith(f"{job_id}  evil\\x1b[2J\\r\\nname  default")
    assert "2023-11-14 22:13:20.123Z" in line


def test_list_newest_begins_at_the_end_and_shows_what_went_wrong(
    jobfence: Runner, tables: tuple[str, ...]
) -> None:
    _, url, _, prefix = tables
    store = SqlJobStore(url, table_prefix=prefix)
    store.ensure_ready()
    ids = [ended(store, failed=number % 2 == 1) for number in range(5)]
    other = store.enqueue("other", queue="q")
    store.close()

    def listed(*options: str) -> list[str]:
        jobs = jobfence("list", "--newest", *tables, "--json", *options).json()
        assert isinstance(jobs, list)
        return [job["id"] for job in jobs]

    assert listed() == [other, *ids[::-1]]
    assert listed("--limit", "2") == [other, ids[4]]
    assert listed("--limit", "6") == [other, *ids[::-1]]
    assert listed("--status", "failed", "--limit", "1") == [ids[3]]
    assert listed("--queue", " q ") == [other]
    assert listed("--name", "ended", "--limit", "3") == ids[:1:-1]
    assert listed("--name", " ended ", "--limit", "3") == []  # a name is as it is
    shown = jobfence("list", "--newest", "--limit", "3", *tables).out.splitlines()
    assert shown[0].endswith("last error")
    assert shown[3].endswith("line \\x1b[31mtwo")


def test_list_newest_begins_behind_no_job(jobfence: Runner, url: str) -> None:
    ran = jobfence("list", "--newest", "--after", "x", "--url", url)
    assert "--after: not allowed with argument --newest" in ran.sentence()
    assert ran.code == 2


def test_an_error_without_an_end_is_cut_and_an_empty_one_is_none() -> None:
    assert output.last_line("Traceback\n  ValueError: " + "x" * 99) == (
        "ValueError: " + "x" * 48 + "…"
    )
    assert [output.last_line(text) for text in (None, "", " \n\n")] == [None] * 3


def waits(jobfence: Runner, tables: tuple[str, ...], job_id: str) -> list[str]:
    lines = jobfence("show", job_id, *tables).out.splitlines()
    start = "waits for: "
    return [line.removeprefix(start) for line in lines if line.startswith(start)]


def test_show_says_why_a_queued_job_is_not_taken(
    jobfence: Runner, tables: tuple[str, ...]
) -> None:
    _, url, _, prefix = tables
    store = SqlJobStore(url, table_prefix=prefix)
    store.ensure_ready()
    store.reconcile_queue_policies({"slow": QueuePolicy(max_concurrent=1)})
    for _ in range(2):
        store.enqueue("a")
        capped = store.enqueue("a", queue="slow")
        keyed = store.enqueue("a", concurrency_key="acme", max_concurrency=1)
    (running,) = store.claim(1)
    assert len(store.claim(10)) == 3
    [waiting, *_] = [job.id for job in store.list_jobs(status=JobStatus.QUEUED)]
    later = store.enqueue("a", queue="off", scheduled_at=4_000_000_000_000)
    store.pause_queue("off")
    free = store.enqueue("a")
    store.close()
    assert waiting == capped
    assert waits(jobfence, tables, capped) == [
        "a place of queue slow: 1 of 1 are taken"
    ]
    assert waits(jobfence, tables, keyed) == [
        "a place of concurrency key acme: 1 of 1 are taken"
    ]
    assert waits(jobfence, tables, later) == [
        "its time, 2096-10-02 07:06:40.000Z",
        "queue off to be resumed: it is paused",
    ]
    assert waits(jobfence, tables, free) == [
        "a worker with a free place that takes its queue"
    ]
    assert waits(jobfence, tables, running.job.id) == []


def test_show_prints_every_field_that_is_set(
    jobfence: Runner, url: str, store: SqlJobStore
) -> None:
    job_id = ended(store, failed=True)
    shown = jobfence("show", job_id, "--url", url)
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0] == f"id: {job_id}"
    assert "status: failed" in lines
    assert "args: []" in lines
    assert "attempts: 1" in lines
    at = lines.index("last_error:")
    assert lines[at + 1 : at + 3] == ["    line one", "    line \\x1b[31mtwo"]
    assert not any(line.startswith("completed_at") for line in lines)


def test_show_json_is_the_whole_job(
    jobfence: Runner, url: str, store: SqlJobStore
) -> None:
    job_id = store.enqueue("a", [1, None], {"key": {"x": [2]}}, priority=-3)
    shown = jobfence("show", job_id, "--url", url, "--json").json()
    assert isinstance(shown, dict)
    job = found(store, job_id)
    assert shown.keys() == set(Job.__dataclass_fields__)
    assert shown["args"] == [1, None]
    assert shown["kwargs"] == {"key": {"x": [2]}}
    assert shown["scheduled_at_ms"] == job.scheduled_at_ms
    assert shown["status"] == "queued"
    assert shown["priority"] == -3


def test_cancel_ends_a_queued_job(
    jobfence: Runner, url: str, store: SqlJobStore
) -> None:
    job_id = store.enqueue("a")
    done = jobfence("cancel", job_id, "--url", url)
    assert (done.code, done.out) == (0, f"job {job_id}: cancelled\n")
    assert found(store, job_id).status is JobStatus.CANCELLED


def test_cancel_marks_a_running_job(
    jobfence: Runner, url: str, store: SqlJobStore
) -> None:
    job_id = store.enqueue("a")
    store.claim()
    answer = jobfence("cancel", job_id, "--url", url, "--json").json()
    assert answer == {"job_id": job_id, "outcome": "requested"}
    assert "asked to end" in jobfence("cancel", job_id, "--url", url).out
    assert found(store, job_id).cancel_requested


def test_cancel_of_an_ended_or_unknown_job_exits_1_and_changes_nothing(
    jobfence: Runner, url: str, store: SqlJobStore
) -> None:
    job_id = ended(store)
    before = found(store, job_id)
    refused = jobfence("cancel", job_id, "--url", url)
    assert (refused.code, refused.sentence()) == (1, f"job {job_id} has ended already")
    assert found(store, job_id) == before
    refused = jobfence("cancel", "nobody", "--url", url)
    assert (refused.code, refused.sentence()) == (1, "there is no job nobody")


def test_requeue_prints_the_id_of_the_new_job(
    jobfence: Runner, url: str, store: SqlJobStore
) -> None:
    origin = ended(store)
    done = jobfence("requeue", origin, "--url", url)
    new = found(store, done.out.strip())
    assert (new.status, new.origin_id) == (JobStatus.QUEUED, origin)
    answer = jobfence("requeue", origin, "--url", url, "--json").json()
    assert isinstance(answer, dict)
    assert answer["origin_id"] == origin
    assert found(store, answer["job_id"]).origin_id == origin


def test_requeue_of_an_active_or_unknown_job_exits_1_and_stores_nothing(
    jobfence: Runner, url: str, store: SqlJobStore
) -> None:
    job_id = store.enqueue("a")
    refused = jobfence("requeue", job_id, "--url", url)
    assert refused.code == 1
    assert refused.sentence() == (
        f"job {job_id} is queued: only an ended job can run again"
    )
    assert jobfence("requeue", "nobody", "--url", url).code == 1
    assert len(store.list_jobs()) == 1


def test_prune_deletes_by_age_and_status(
    jobfence: Runner, url: str, store: SqlJobStore
) -> None:
    completed, failed = ended(store), ended(store, failed=True)
    waiting = store.enqueue("a")
    kept = jobfence("prune", "--url", url)
    assert (kept.code, kept.out) == (0, "0 jobs deleted\n")
    done = jobfence("prune", "--url", url, "--completed", "0s", "--json").json()
    assert done == {"deleted": 1}
    assert store.get(completed) is None
    done = jobfence("prune", "--url", url, "--failed", "never", "--json").json()
    assert done == {"deleted": 0}
    assert [job.id for job in store.list_jobs()] == [failed, waiting]


def test_pause_and_resume_a_queue(
    jobfence: Runner, url: str, store: SqlJobStore
) -> None:
    store.enqueue("a", queue="q", scheduled_at=datetime.now(UTC) - timedelta(hours=1))
    done = jobfence("pause", "q", "--url", url)
    assert (done.code, done.out) == (0, "queue q paused\n")
    assert store.claim() == []
    answer = jobfence("resume", "q", "--url", url, "--json").json()
    assert answer == {"queue": "q", "paused": False}
    assert len(store.claim()) == 1


def test_the_module_is_the_command(url: str, store: SqlJobStore) -> None:
    shown = run_process("status", "--json", JOBFENCE_URL=url)
    assert isinstance(shown.json(), dict)
