"""Runs of the suite in a process of their own: this one runs pytest already."""

import os
import subprocess
import sys

from pathlib import Path

HERE = Path(__file__).parent


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a module of Python's; `adapters` can be imported there."""
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        check=False,
    )
