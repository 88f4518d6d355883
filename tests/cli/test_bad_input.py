"""Whatever is wrong is told in one sentence, with an exit code and no traceback."""

import contextlib
import os
import sqlite3
import subprocess
import sys

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlalchemy import event
from sqlalchemy.pool import Pool

from jobfence import SqlJobStore
from jobfence.cli import diagram
from tests.cli.support import Runner, run_process

NOBODY = "127.0.0.1:9"  # the discard port: nothing listens there


@contextlib.contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path)
    try:
        yield connection
        connection.commit()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "required: COMMAND"),
        (["nonsense"], "invalid choice: 'nonsense'"),
        (["status"], "give --url, or set JOBFENCE_URL"),
        (["status", "--nonsense", "--url", "sqlite://"], "unrecognized arguments"),
        (["status", "--url"], "--url: expected one argument"),
        (["status", "--url", "jobs.db"], "must be a database URL"),
        (["status", "--url", "oracle://h/db"], "not 'oracle'"),
        (["status", "--url", "postgresql://h:port/db"], "must be a database URL"),
        (["status", "--url", "postgresql+no://h/db"], "a driver SQLAlchemy lacks"),
        (["status", "--url", "sqlite://", "--table-prefix", "a b"], "table_prefix"),
        (["list", "--url", "sqlite://", "--limit", "x"], "invalid int value: 'x'"),
        (["list", "--url", "sqlite://", "--status", "done"], "invalid choice"),
        (["prune", "--url", "sqlite://", "--failed", "7w"], "not '7w'"),
        (["prune", "--url", "sqlite://", "--failed", "-1s"], "--failed"),
        (["show", "--url", "sqlite://"], "required: JOB_ID"),
        (["diagram", "--format", "png"], "invalid choice: 'png'"),
        (["worker"], "required: --app"),
    ],
)
def test_a_wrong_command_line_exits_2(
    jobfence: Runner, arguments: list[str], problem: str
) -> None:
    ran = jobfence(*arguments)
    assert problem in ran.sentence()
    assert ran.code == 2


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["list", "--limit", "0"], "limit must be an integer from 1 to 10000, not 0"),
        (["list", "--after", "nobody"], "not 'nobody'"),
        (["pause", ""], "queue must be a non-empty string"),
        (["pause", "x" * 256], "queue"),
        (["prune", "--failed", "999999999999d"], "failed_ttl_ms"),
    ],
)
def test_an_option_that_the_store_refuses_exits_2(
    jobfence: Runner, url: str, store: SqlJobStore, options: list[str], problem: str
) -> None:
    ran = jobfence(*options, "--url", url)
    assert problem in ran.sentence()
    assert ran.code == 2


@pytest.mark.parametrize("scheme", ["postgresql", "mariadb", "mysql"])
def test_an_unreachable_server_exits_1_and_the_password_is_not_shown(
    jobfence: Runner, scheme: str
) -> None:
    ran = jobfence("status", "--url", f"{scheme}://u:sesame@{NOBODY}/db")
    assert ran.sentence().startswith(f"{scheme}://u:***@{NOBODY}/db: ")
    assert "refused" in ran.sentence()
    assert "sesame" not in ran.err
    assert ran.code == 1


@pytest.mark.parametrize(
    ("scheme", "module", "extra"),
    [
        ("postgresql", "psycopg", "postgresql"),
        ("mariadb", "pymysql", "mariadb"),
        ("mysql", "pymysql", "mariadb"),
    ],
)
def test_a_missing_driver_names_the_extra_to_install(
    jobfence: Runner,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
    module: str,
    extra: str,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    ran = jobfence("status", "--url", f"{scheme}://u:sesame@{NOBODY}/db")
    assert f"pip install 'jobfence[{extra}]'" in ran.sentence()
    assert "sesame" not in ran.err
    assert ran.code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["status", "--url", "postgres//u:sesame@h/db"],
        ["status", "--url", "oracle://u:sesame@h/db"],
        ["status", "--url", "postgresql://u:sesame@h:port/db"],
        ["status", "--url", "postgresql://u:ses/sesame@h/db"],
        ["status", "--url", "postgresql+no://u:sesame@h/db"],
        ["status", "postgresql://u:sesame@h/db", "--url", "sqlite://"],
        ["status", "--url", f"postgresql://{NOBODY}/db?password=sesame"],
        ["demo", "--url", f"postgresql://u:sesame@{NOBODY}/db"],
        ["status", "--traceback", "--url", f"postgresql://u:sesame@{NOBODY}/db"],
        ["status", "--url", f"postgresql://ann@srv:sesame@{NOBODY}/db"],
        ["status", "--url", f"postgresql://u:open sesame@{NOBODY}/db"],
        ["status", "--url", f"mariadb://u:open  sesame@{NOBODY}/db"],
        ["status", "--url", f"postgresql://u:open%20sesame@{NOBODY}/db"],
        ["status", "--url", f"postgresql://u:open@sesame@{NOBODY}/db"],
        ["status", "--url", f"postgresql://u:open@sesame/x@{NOBODY}/db"],
        ["status", "--url", f"mariadb://u:open@sesame@{NOBODY}/db"],
        ["status", "--url", f"postgresql+no://u:open@sesame/x@{NOBODY}/db"],
        ["status", "--url", "sqlite://u:open sesame@h/db"],
        ["status", "--url", "sqlite://h/db?password=open sesame"],
        ["demo", "--url", f"postgresql://ann@srv:open sesame@{NOBODY}/db"],
        ["status", "postgresql://u:12 sesame@h/db", "--url", "sqlite://"],
        ["list", "--status", "x://u:a b@sesame@h", "--url", "sqlite://"],
        ["status", "--traceback", "--url", f"postgresql://u:a sesame@{NOBODY}/db"],
    ],
)
def test_a_password_is_never_shown(jobfence: Runner, arguments: list[str]) -> None:
    ran = jobfence(*arguments)
    assert "sesame" not in ran.out + ran.err
    assert ran.code in {1, 2}


def test_a_password_in_the_environment_is_never_shown(
    jobfence: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBFENCE_URL", f"postgresql://u:open@sesame@{NOBODY}/db")
    ran = jobfence("status")
    assert "***" in ran.sentence()
    assert "sesame" not in ran.err
    assert ran.code == 1


def test_a_mistyped_file_is_not_made(
    jobfence: Runner, url: str, tmp_path: Path
) -> None:
    ran = jobfence("status", "--url", url)
    assert ran.code == 1
    assert ran.sentence().endswith("jobs.db; jobfence migrate makes it")
    assert list(tmp_path.iterdir()) == []


def test_a_database_without_tables_is_left_without(
    jobfence: Runner, url: str, tmp_path: Path
) -> None:
    with database(tmp_path / "jobs.db") as connection:
        connection.execute("CREATE TABLE mine (id INTEGER)")
    ran = jobfence("status", "--url", url)
    assert ran.code == 1
    assert "jobfence_jobs" in ran.sentence()
    assert "run `jobfence migrate`" in ran.sentence()
    with database(tmp_path / "jobs.db") as connection:
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
    assert tables == [("mine",)]


def test_a_folder_that_does_not_exist_exits_1(jobfence: Runner, tmp_path: Path) -> None:
    ran = jobfence("migrate", "--url", f"sqlite:///{tmp_path}/no/jobs.db")
    assert "unable to open database file" in ran.sentence()
    assert ran.code == 1


def test_a_file_that_is_no_database_exits_1_and_is_left_alone(
    jobfence: Runner, url: str, tmp_path: Path
) -> None:
    (tmp_path / "jobs.db").write_text("a letter")
    ran = jobfence("migrate", "--url", url)
    assert "file is not a database" in ran.sentence()
    assert ran.code == 1
    assert (tmp_path / "jobs.db").read_text() == "a letter"


def test_a_newer_schema_exits_1(
    jobfence: Runner, url: str, store: SqlJobStore, tmp_path: Path
) -> None:
    with database(tmp_path / "jobs.db") as connection:
        connection.execute("INSERT INTO jobfence_migrations VALUES (99, 0)")
    for command in ("status", "migrate"):
        ran = jobfence(command, "--url", url)
        assert "version 99, made by a newer jobfence" in ran.sentence()
        assert ran.code == 1


def test_a_damaged_table_exits_1_and_names_the_column(
    jobfence: Runner, url: str, store: SqlJobStore, tmp_path: Path
) -> None:
    with database(tmp_path / "jobs.db") as connection:
        connection.execute("ALTER TABLE jobfence_jobs RENAME COLUMN origin_id TO gone")
    for command in ("list", "migrate"):
        ran = jobfence(command, "--url", url)
        assert "table jobfence_jobs has no column origin_id" in ran.sentence()
        assert ran.code == 1


def test_a_damaged_row_exits_1_when_it_is_asked_for(
    jobfence: Runner, url: str, store: SqlJobStore, tmp_path: Path
) -> None:
    job_id = store.enqueue("a")
    with database(tmp_path / "jobs.db") as connection:
        connection.execute("UPDATE jobfence_jobs SET args = '['")
    ran = jobfence("show", job_id, "--url", url)
    assert f"job {job_id} cannot be read: column args" in ran.sentence()
    assert ran.code == 1


def test_a_read_only_file_exits_1_and_nothing_is_written(
    jobfence: Runner, store: SqlJobStore, tmp_path: Path
) -> None:
    url = f"sqlite:///file:{tmp_path}/jobs.db?mode=ro&uri=true"
    ran = jobfence("pause", "q", "--url", url)
    assert "attempt to write a readonly database" in ran.sentence()
    assert ran.code == 1
    assert store.queue_stats() == []


def test_a_full_disk_exits_1_and_nothing_is_half_written(
    jobfence: Runner, url: str, tmp_path: Path
) -> None:
    def fill(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA max_page_count = 4")

    event.listen(Pool, "connect", fill)
    try:
        ran = jobfence("migrate", "--url", url)
    finally:
        event.remove(Pool, "connect", fill)
    assert "database or disk is full" in ran.sentence()
    assert ran.code == 1
    with database(tmp_path / "jobs.db") as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []


def test_what_a_database_refuses_for_reasons_of_its_own_exits_1(
    jobfence: Runner, url: str, store: SqlJobStore, tmp_path: Path
) -> None:
    with database(tmp_path / "jobs.db") as connection:
        connection.execute(
            "CREATE TRIGGER closed BEFORE INSERT ON jobfence_queues "
            "BEGIN SELECT RAISE(ABORT, 'closed for today'); END"
        )
    ran = jobfence("pause", "q", "--url", url)
    assert ran.sentence() == "the database did not do it: closed for today"
    assert ran.code == 1
    assert store.queue_stats() == []


def test_an_error_nobody_thought_of_is_a_sentence_too_and_shown_on_request(
    jobfence: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(diagram.FORMATS, "mermaid", lambda: os.environ["NOT_SET"])
    ran = jobfence("diagram")
    assert ran.sentence().startswith("unexpected KeyError: 'NOT_SET'")
    assert ran.code == 1
    ran = jobfence("diagram", "--traceback")
    assert "Traceback" in ran.err
    assert ran.err.splitlines()[-1].startswith("jobfence: unexpected KeyError")


def test_ctrl_c_exits_130(jobfence: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> str:
        raise KeyboardInterrupt

    monkeypatch.setitem(diagram.FORMATS, "mermaid", interrupt)
    ran = jobfence("diagram")
    assert (ran.code, ran.sentence()) == (130, "interrupted")


def test_ctrl_c_before_anything_is_imported_leaves_no_traceback() -> None:
    code = (
        "import signal, sys, threading, os\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # not so in a batch
        "from jobfence.cli import main\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'jobfence.cli.main':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.exit(main(['diagram']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, "jobfence: interrupted\n")


def test_a_reader_that_went_away_is_no_error_to_tell() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "jobfence", "diagram"],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_full_output_is_told() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "jobfence", "diagram"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_and_version_exit_0(jobfence: Runner) -> None:
    assert jobfence("--version").out.startswith("jobfence 0.1.0, Python 3.")
    for arguments in (["--help"], ["demo", "--help"], ["worker", "--help"]):
        ran = jobfence(*arguments)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith("usage: jobfence")


def test_no_traceback_from_the_real_process() -> None:
    ran = run_process("status", "--url", f"postgresql://u:sesame@{NOBODY}/db")
    assert ran.sentence().startswith("postgresql://u:***@")
    assert ran.code == 1
