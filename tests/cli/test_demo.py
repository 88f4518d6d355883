"""The demo as a whole: real processes, killed and stopped, on each database."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile

from pathlib import Path

import pytest

from sqlalchemy import create_engine, inspect

from jobfence.cli.demo import files, stage
from tests.cli.support import Runner, run_process

WANTED = {
    "files": 6,
    "completed": 6,
    "wrong": 0,
    "lost": 0,
    "completed_twice": 0,
    "late_accepted": False,
    "changed_meanwhile": 0,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    (folder / "sub").mkdir(parents=True)
    for number in range(5):
        (folder / f"{number}.txt").write_text("line\n" * number)
    (folder / "sub" / "é [x]").write_bytes(b"\xff\x00")
    return folder


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder in which the demo makes its own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def check(verdict: object) -> None:
    assert isinstance(verdict, dict)
    assert {name: verdict[name] for name in WANTED} == WANTED
    assert verdict["recovered_after_kill"] >= 1
    assert verdict["stale_refused"] >= 1
    # Both were run twice, or more often where the machine was very slow.
    assert verdict["runs"] >= WANTED["files"] + 2


def demo_tables(url: str) -> list[str]:
    engine = create_engine(url)
    found = inspect(engine).get_table_names()
    engine.dispose()
    return [name for name in found if name.startswith("jobfence_demo_")]


def children(temporary: Path) -> set[str]:
    """Return the ids of the worker processes of demos with this temporary folder."""
    ours = f"TMPDIR={temporary}".encode()
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            child = b"jobfence.cli.demo.child" in (folder / "cmdline").read_bytes()
            if child and ours in (folder / "environ").read_bytes().split(b"\0"):
                found.add(folder.name)
    return found


def test_nothing_is_lost_or_done_twice_on_sqlite_and_no_trace_is_left(
    jobfence: Runner, folder: Path, temporary: Path
) -> None:
    ran = jobfence("demo", str(folder))
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].startswith(f"6 files under {folder}, 3 worker processes, sqlite:")
    assert re.search(r"^killed demo-[12] in the middle of \S", ran.out, re.MULTILINE)
    assert re.search(r"^stopped demo-[12] in the middle of \S", ran.out, re.MULTILINE)
    assert re.search(
        "^demo-[12] says it is done; answer: stale$", ran.out, re.MULTILINE
    )
    figures = dict(re.findall(r"^([^\d\n]+?)  +(\d+)$", ran.out, re.MULTILINE))
    assert figures["files"] == figures["completed"] == "6"
    assert figures["lost"] == figures["completed twice"] == "0"
    assert figures["results wrong (recomputed)"] == "0"
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("database", ["postgresql", "mariadb"])
def test_nothing_is_lost_on_a_server_and_its_tables_are_dropped(
    jobfence: Runner, folder: Path, database_urls: dict[str, str], database: str
) -> None:
    url = database_urls.get(database)
    if url is None:
        pytest.skip(f"{database} does not answer")
    before = demo_tables(url)
    check(jobfence("demo", str(folder), "--url", url, "--json").json())
    assert demo_tables(url) == before


UNFENCED = """
from jobfence.statemachine.table import Fence
from jobfence.store.sql.statements import moves

moves._FENCES = {
    **moves._FENCES, Fence.HANDOFF: lambda jobs, _: jobs.c.handoff_id.is_not(None)
}
"""


def test_without_the_comparison_of_the_handoff_the_demo_fails(
    jobfence: Runner, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(UNFENCED)  # Python imports it at start
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ran = jobfence("demo", str(folder))
    assert ran.code == 1
    assert re.search(
        "^demo-[12] says it is done; answer: accepted$", ran.out, re.MULTILINE
    )
    assert ran.err == "jobfence: jobs were lost; a late acknowledgement was accepted\n"


def test_two_workers_and_a_single_file_are_enough(
    jobfence: Runner, folder: Path
) -> None:
    verdict = jobfence("demo", str(folder / "sub"), "--workers", "2", "--json").json()
    assert isinstance(verdict, dict)
    assert (verdict["files"], verdict["completed"], verdict["lost"]) == (1, 1, 0)
    assert verdict["recovered_after_kill"] >= 1
    assert verdict["stale_refused"] >= 1


def test_what_is_kept_can_be_looked_at(
    jobfence: Runner, folder: Path, temporary: Path
) -> None:
    ran = jobfence("demo", str(folder), "--keep")
    (made,) = temporary.iterdir()
    url = f"sqlite:///{made}/demo.db"
    assert ran.out.splitlines()[-1] == f"kept: {url}, tables jobfence_*"
    jobs = jobfence("list", "--url", url, "--json").json()
    assert isinstance(jobs, list)
    assert {job["status"] for job in jobs} == {"completed"}


def test_a_file_it_made_is_removed_and_a_file_of_yours_is_kept(
    jobfence: Runner, folder: Path, tmp_path: Path, url: str
) -> None:
    made = tmp_path / "made.db"
    check(jobfence("demo", str(folder), "--url", f"sqlite:///{made}", "--json").json())
    assert list(tmp_path.glob("made.db*")) == []
    jobfence("migrate", "--url", url)
    check(jobfence("demo", str(folder), "--url", url, "--json").json())
    assert demo_tables(url) == []
    assert jobfence("status", "--url", url).code == 0


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
@pytest.mark.parametrize("moment", ["files under", "killed", "stopped"])
def test_a_signal_ends_it_with_all_its_workers(
    folder: Path, temporary: Path, number: signal.Signals, code: int, moment: str
) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "jobfence", "demo", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert demo.stdout is not None
    while moment not in demo.stdout.readline():
        assert demo.poll() is None
    assert children(temporary) or moment == "files under"
    demo.send_signal(number)
    _, errors = demo.communicate(timeout=30)
    assert demo.returncode == code
    assert errors == ("jobfence: interrupted\n" if code == 130 else "")
    assert children(temporary) == set()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--workers", "1"], "--workers must be 2 to 16, not 1"),
        (["--workers", "17"], "--workers must be 2 to 16, not 17"),
        (["--workers", "x"], "invalid int value"),
        (["--url", "sqlite://"], "cannot share memory"),
        (["--url", "sqlite:///:memory:"], "cannot share memory"),
        (["--url", "here"], "must be a database URL"),
    ],
)
def test_a_wrong_option_exits_2(
    jobfence: Runner, folder: Path, options: list[str], problem: str
) -> None:
    ran = jobfence("demo", str(folder), *options)
    assert problem in ran.sentence()
    assert ran.code == 2


def test_a_path_without_files_exits_2(jobfence: Runner, tmp_path: Path) -> None:
    ran = jobfence("demo", str(tmp_path))
    assert ran.sentence().startswith(f"there are no files under {tmp_path} to work on")
    assert ran.code == 2
    ran = jobfence("demo", str(tmp_path / "no"))
    assert f"PATH must be a directory, and {tmp_path / 'no'} is none" in ran.err
    assert ran.code == 2


def test_the_environment_does_not_choose_the_demos_database(
    folder: Path, temporary: Path
) -> None:
    nobody = "postgresql://u@127.0.0.1:9/db"
    ran = run_process("demo", str(folder), "--json", JOBFENCE_URL=nobody)
    check(ran.json())


def test_files_that_were_left_out_are_told(
    jobfence: Runner, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_FILES", 2)
    ran = jobfence("demo", str(folder))
    assert ran.code == 0
    assert ran.out.splitlines()[1].startswith("left out: 4 files")


def test_a_worker_that_keeps_its_job_although_stopped_ends_the_demo(
    jobfence: Runner, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "TAKEN_S", 0)  # shorter than any lease
    ran = jobfence("demo", str(folder), "--json")
    assert re.fullmatch("demo-[12] was stopped, but kept its job", ran.sentence())
    assert ran.code == 1


def test_where_processes_cannot_be_stopped_it_says_so(
    jobfence: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(signal, "SIGSTOP")
    ran = jobfence("demo")
    assert ran.sentence() == "the demo needs the signals SIGKILL and SIGSTOP of POSIX"
    assert ran.code == 1
