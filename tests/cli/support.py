"""Running the command line in this process, and judging what it says."""

import json
import os
import subprocess
import sys

from dataclasses import dataclass

import pytest

from jobfence.cli import main


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    code: int
    out: str
    err: str

    def json(self) -> object:
        assert (self.code, self.err) == (0, "")
        return json.loads(self.out)

    def sentence(self) -> str:
        """Return what it complained of: one line on stderr, and nothing else."""
        assert self.err.startswith("jobfence: ")
        assert self.err.count("\n") == 1
        assert "Traceback" not in self.err
        assert self.out == ""
        return self.err.removeprefix("jobfence: ").rstrip("\n")


class Runner:
    """Runs commands as a user would, but for the process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Ran:
        self._capsys.readouterr()
        code = main(arguments)
        captured = self._capsys.readouterr()
        return Ran(code, captured.out, captured.err)


def run_process(*arguments: str, **environment: str) -> Ran:
    """Run a command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "jobfence", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )
    return Ran(done.returncode, done.stdout, done.stderr)
