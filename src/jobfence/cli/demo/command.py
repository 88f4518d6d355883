"""The command itself: a place for the tables, the play, the verdict, and no traces."""

import argparse
import contextlib
import secrets
import shutil
import signal
import tempfile
import time

from collections.abc import Iterator
from pathlib import Path

from jobfence.cli import output
from jobfence.cli.arguments import database_url
from jobfence.cli.demo import MOST_WORKERS
from jobfence.cli.demo.crew import Crew
from jobfence.cli.demo.files import MOST_BYTES, MOST_FILES, Found, find
from jobfence.cli.demo.interruption import ended_by_signals, uninterrupted
from jobfence.cli.demo.place import Place
from jobfence.cli.demo.screen import Silent, screen
from jobfence.cli.demo.stage import Stage
from jobfence.cli.demo.verdict import Verdict, judge
from jobfence.cli.failures import OK, CommandFailed, UsageError
from jobfence.cli.stores import sqlite_file, told_with_url
from jobfence.statemachine.hiding import without_password

LEAST_WORKERS = 2


def demonstrate(args: argparse.Namespace) -> int:
    """Run the demo and print what came of it."""
    root: Path = args.path
    found = _checked(args, root)
    with ended_by_signals(), _place(args) as (url, place):
        with screen(len(found.files), silent=args.json) as shown:
            _introduce(shown, found, root, url=url, workers=args.workers)
            begun = time.monotonic()
            with Crew() as crew:
                stage = Stage(place, root, crew, url=url, say=shown.say)
                played = stage.play(found.files, args.workers, shown.advance)
            verdict = judge(place, root, played, time.monotonic() - begun)
        return _report(args, verdict)


def _checked(args: argparse.Namespace, root: Path) -> Found:
    if not hasattr(signal, "SIGSTOP"):
        raise CommandFailed("the demo needs the signals SIGKILL and SIGSTOP of POSIX")
    if not LEAST_WORKERS <= args.workers <= MOST_WORKERS:
        raise UsageError(
            f"--workers must be {LEAST_WORKERS} to {MOST_WORKERS}, not {args.workers}"
        )
    if not root.is_dir():
        raise UsageError(f"PATH must be a directory, and {root} is none")
    found = find(root)
    if not found.files:
        raise UsageError(f"there are no files under {root.resolve()} to work on")
    return found


def _introduce(
    shown: Silent, found: Found, root: Path, *, url: str, workers: int
) -> None:
    shown.say(
        f"{len(found.files)} files under {root.resolve()}, {workers} worker processes, "
        f"{without_password(url)}"
    )
    if found.left_out:
        shown.say(
            f"left out: {found.left_out} files, unreadable, over {MOST_BYTES >> 20} MiB "
            f"or beyond the first {MOST_FILES}"
        )


def _report(args: argparse.Namespace, verdict: Verdict) -> int:
    problems = verdict.problems()
    if args.json:
        output.print_json(verdict)
    else:
        output.print_table(["", "demo"], verdict.rows(), empty="")
    if problems:
        raise CommandFailed("; ".join(problems))
    return OK


@contextlib.contextmanager
def _place(args: argparse.Namespace) -> Iterator[tuple[str, Place]]:
    """Give the demo its tables, and take them away unless they are to be kept."""
    clean_up = contextlib.ExitStack()
    try:
        url, prefix = _temporary(args, clean_up) if args.url is None else _given(args)
        place = Place(url, prefix)
        path = sqlite_file(place.store)
        if path is not None and not path.exists() and not args.keep:
            clean_up.callback(_remove, path)
        clean_up.callback(place.close)
        with told_with_url(url):
            place.make()
            if args.url is not None and not args.keep:
                clean_up.callback(place.drop)
            yield url, place
    finally:
        with uninterrupted():
            clean_up.close()
    if args.keep and not args.json:
        print(f"kept: {without_password(url)}, tables {prefix}*")


def _remove(path: Path) -> None:
    """Remove a SQLite file that the demo made, with what SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm", "-turn"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _temporary(
    args: argparse.Namespace, clean_up: contextlib.ExitStack
) -> tuple[str, str]:
    folder = Path(tempfile.mkdtemp(prefix="jobfence-demo-"))
    if not args.keep:
        clean_up.callback(shutil.rmtree, folder)
    return f"sqlite:///{folder / 'demo.db'}", "jobfence_"


def _given(args: argparse.Namespace) -> tuple[str, str]:
    url = database_url(args)
    if url.startswith("sqlite") and url.partition("://")[2] in ("", "/", "/:memory:"):
        raise UsageError("--url: the workers are processes, and cannot share memory")
    # Other tables for each run: two at once do not meet, nor those of an application.
    return url, f"jobfence_demo_{secrets.token_hex(3)}_"
