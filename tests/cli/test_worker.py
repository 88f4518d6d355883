"""`jobfence worker`: which apps it takes, and that it drains when told to."""

import os
import signal
import subprocess
import sys
import time

from pathlib import Path

import pytest

from jobfence import JobStatus, SqlJobStore
from jobfence.cli import loading
from tests.cli.support import Runner

APP = """
from pathlib import Path
from jobfence import JobApp
app = JobApp({url!r})
here = Path(__file__).parent

@app.job("touch")
def touch(name):
    (here / name).touch()

@app.job("wait")
def wait():
    (here / "started").touch()
    while not (here / "go on").exists():
        pass

def make():
    return app

empty = JobApp({url!r})
nothing = 3
"""
TEXTS = {
    "needs_more.py": "import not_there_at_all\n",
    "broken.py": "def (\n",
    "exits.py": "import sys\nsys.exit('no')\n",
    "raises.py": "raise RuntimeError('one\\ntwo')\n",
}


@pytest.fixture
def shop(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a directory with modules in it, to run commands from."""
    (tmp_path / "shop.py").write_text(APP.format(url=url))
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("shop", *(name.removesuffix(".py") for name in TEXTS)):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("shop", "must be like package.module:name, not shop"),
        (":app", "must be like package.module:name, not :app"),
        ("shop:", "must be like package.module:name, not shop:"),
        ("shop:nope", "shop has no nope"),
        ("shop:app.nope", "shop has no app.nope"),
        ("shop:nothing", "shop:nothing is int, and must be a JobApp"),
        ("shop:touch", "calling shop:touch raised TypeError"),
        ("shop:empty", "shop:empty has no jobs"),
        ("not_there:app", "there is no module not_there here or on sys.path"),
        ("jobfence.nope:app", "there is no module jobfence.nope here"),
        ("needs_more:app", "raised ModuleNotFoundError: No module named 'not_there"),
        ("broken:app", "raised SyntaxError"),
        ("exits:app", "importing exits raised SystemExit: no ("),
        ("raises:app", "importing raises raised RuntimeError: one two ("),
    ],
)
def test_an_app_that_cannot_be_had_exits_2(
    jobfence: Runner, shop: Path, reference: str, problem: str
) -> None:
    ran = jobfence("worker", "--app", reference)
    assert problem in ran.sentence()
    assert ran.code == 2


def test_the_line_that_failed_is_named(jobfence: Runner, shop: Path) -> None:
    ran = jobfence("worker", "--app", "raises:app")
    assert f"({shop / 'raises.py'}, line 1)" in ran.sentence()


def test_ctrl_c_while_the_app_is_imported_exits_130(
    jobfence: Runner, shop: Path
) -> None:
    (shop / "interrupted.py").write_text("raise KeyboardInterrupt")
    ran = jobfence("worker", "--app", "interrupted:app")
    assert (ran.code, ran.sentence()) == (130, "interrupted")


def test_the_current_directory_is_looked_in_once(shop: Path) -> None:
    for _ in range(2):
        assert loading.load("--app", "shop:nothing") == 3
    assert sys.path.count(str(shop)) == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--concurrency", "0"], "concurrency must be"),
        (["--lease-ms", "1"], "lease_ms must be"),
        (["--poll-ms", "0"], "poll_ms must be"),
        (["--queue", ""], "queue"),
        (["--worker-id", ""], "worker_id"),
        (["--timeout-ms", "x"], "invalid int value"),
        (["--grace", "x"], "must be a number of seconds, 0 or more, not 'x'"),
        (["--grace", "nan"], "not 'nan'"),
        (["--grace", "-1"], "not '-1'"),
        (["--grace", "1e400"], "not '1e400'"),
        (["--log-level", "loud"], "invalid choice"),
    ],
)
def test_a_wrong_option_exits_2(
    jobfence: Runner, shop: Path, options: list[str], problem: str
) -> None:
    ran = jobfence("worker", "--app", "shop:app", *options)
    assert problem in ran.sentence()
    assert ran.code == 2


class RunningWorker:
    """`jobfence worker` as a process."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "jobfence", "worker", *options],
            cwd=folder,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def wait_until_exists(self, path: Path) -> None:
        deadline = time.monotonic() + 30
        while not path.exists():
            assert self.popen.poll() is None, self.popen.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def ended(self) -> tuple[int, str]:
        _, errors = self.popen.communicate(timeout=30)
        return self.popen.returncode, errors


def test_it_runs_jobs_and_sigterm_drains_it(shop: Path, store: SqlJobStore) -> None:
    done = store.enqueue("touch", ["touched"])
    other = store.enqueue("touch", ["other"], queue="other")
    worker = RunningWorker(
        shop,
        *("--app", "shop:make", "--concurrency", "2", "--queue", "default"),
        *("--worker-id", "w-1", "--poll-ms", "50", "--lease-ms", "30000"),
        *("--timeout-ms", "0"),
    )
    worker.wait_until_exists(shop / "touched")
    waits = store.enqueue("wait")
    worker.wait_until_exists(shop / "started")
    held = store.get(waits)
    assert held is not None
    assert (held.worker_id, held.status) == ("w-1", JobStatus.HANDED_OFF)
    worker.popen.send_signal(signal.SIGTERM)
    (shop / "go on").touch()
    code, errors = worker.ended()
    assert code == 0
    assert "INFO worker_stopped worker_id=w-1" in errors
    assert "Traceback" not in errors
    status = {job.id: job.status for job in store.list_jobs()}
    assert status == {
        done: JobStatus.COMPLETED,
        other: JobStatus.QUEUED,
        waits: JobStatus.COMPLETED,
    }


def test_a_second_signal_gives_back_what_does_not_end(
    shop: Path, store: SqlJobStore
) -> None:
    waits = store.enqueue("wait")
    worker = RunningWorker(shop, "--app", "shop:app", "--log-level", "error")
    worker.wait_until_exists(shop / "started")
    worker.popen.send_signal(signal.SIGINT)
    time.sleep(0.1)  # two signals at once are one to the kernel
    worker.popen.send_signal(signal.SIGINT)
    assert worker.ended() == (0, "")
    job = store.get(waits)
    assert job is not None
    assert (job.status, job.attempts) == (JobStatus.QUEUED, 0)


def test_a_database_that_does_not_answer_exits_1(jobfence: Runner, shop: Path) -> None:
    (shop / "gone.py").write_text(
        "from jobfence import JobApp\n"
        "app = JobApp('postgresql://u:sesame@127.0.0.1:9/db')\n"
        "app.job('a')(print)\n"
    )
    ran = jobfence("worker", "--app", "gone:app")
    assert "refused" in ran.sentence()
    assert "sesame" not in ran.err
    assert ran.code == 1
