"""Standard streams that are closed, or whose reader is gone."""

import os
import shlex
import subprocess
import sys

from contextlib import closing
from pathlib import Path

import pytest

from jobfence import JobRequest, SqlJobStore

JOBFENCE = shlex.join([sys.executable, "-m", "jobfence"])


def made(url: str, jobs: int = 0) -> list[str]:
    with closing(SqlJobStore(url)) as store:
        store.ensure_ready()
        return store.enqueue_many([JobRequest("job")] * jobs)


def in_shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "command", ["migrate", "status", "list --json", "pause default", "prune"]
)
def test_a_command_does_its_work_though_nobody_can_be_told(
    tmp_path: Path, command: str
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    made(url)
    ran = in_shell(f"{JOBFENCE} {command} --url {url} >&-")
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_no_file_takes_the_place_of_a_closed_stream(
    tmp_path: Path, closed: str
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    (job_id,) = made(url, 1)
    for command, code in (("cancel", 0), ("requeue", 0), ("show no-such-job", 1)):
        given = command if " " in command else f"{command} {job_id}"
        ran = in_shell(f"{JOBFENCE} {given} --url {url} {closed}")
        assert (command, ran.returncode) == (command, code)
    with closing(SqlJobStore(url)) as store:
        assert sum(store.counts().values()) == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [("--help", 0), ("list --help", 0), ("--version", 0), ("list", 1)],
)
def test_a_reader_that_is_gone_is_not_complained_of(
    tmp_path: Path, arguments: str, code: int
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    made(url, 100)
    environment = {**os.environ, "JOBFENCE_URL": url}
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as output:
        ran = subprocess.run(
            [sys.executable, "-m", "jobfence", *arguments.split()],
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            env=environment,
        )
    assert (ran.returncode, ran.stderr) == (code, "")


def test_a_url_that_is_no_text_is_refused_in_a_sentence() -> None:
    ran = in_shell(f"{JOBFENCE} status --url \"$(printf 'sqlite:///\\377.db')\"")
    assert ran.returncode == 2
    assert ran.stderr.startswith("jobfence: --url must be a database URL")
