"""What the demo's viewer sees: a progress bar on a terminal, else lines."""

import sys

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jobfence.cli import output


class Silent:
    """For output that a program reads."""

    def say(self, text: str) -> None:
        """Say nothing."""

    def advance(self, done: int) -> None:
        """Show nothing."""


class Lines(Silent):
    """For files and pipes, and where rich is not installed."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._quarters = 0

    def say(self, text: str) -> None:
        """Print a line."""
        print(output.shown(text), flush=True)

    def advance(self, done: int) -> None:
        """Print a line for each quarter of the whole."""
        quarters = 4 * done // self._total
        if quarters > self._quarters:
            self._quarters = quarters
            self.say(f"completed {done} of {self._total}")


class Bar(Silent):
    """For terminals."""

    def __init__(self, say: Callable[[str], None], advance: Callable[[int], None]):
        self._say, self._advance = say, advance

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._say(output.shown(text))

    def advance(self, done: int) -> None:
        """Move the bar."""
        self._advance(done)


@contextmanager
def screen(total: int, *, silent: bool) -> Iterator[Silent]:
    """Return what fits to standard output."""
    if silent:
        yield Silent()
    elif not output.fancy(sys.stdout):
        yield Lines(total)
    else:
        with _bar(total) as bar:
            yield bar


@contextmanager
def _bar(total: int) -> Iterator[Bar]:
    from rich.progress import (  # noqa: PLC0415  an extra
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.text import Text  # noqa: PLC0415  an extra

    columns = (TextColumn("jobs"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn()) as progress:
        task = progress.add_task("jobs", total=total)
        yield Bar(
            lambda text: progress.console.print(Text(text)),
            lambda done: progress.update(task, completed=done),
        )
