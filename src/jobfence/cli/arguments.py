"""Options that several commands share, and the checks of what they are given."""

import argparse
import contextlib
import math
import os
import re

from collections.abc import Callable
from typing import NoReturn, TypeAlias

from jobfence.cli.failures import UsageError

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"  # noqa: SLF001  typeshed's name
URL_VARIABLE = "JOBFENCE_URL"
Run = Callable[[argparse.Namespace], int]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9]*(\+[A-Za-z0-9_]+)?://")
_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one sentence, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Raise, for `main` to print and to choose the exit code."""
        raise UsageError(message)


def add_command(commands: "Commands", name: str, run: Run, summary: str) -> Parser:
    """Add a command that is done by a function."""
    parser = commands.add_parser(name, help=summary, description=summary)
    parser.add_argument(
        "--traceback", action="store_true", help="show where an error came from"
    )
    parser.set_defaults(run=run)
    return parser


def add_url(parser: Parser) -> None:
    """Add the option that names a database."""
    parser.add_argument(
        "--url",
        default=os.environ.get(URL_VARIABLE),
        help=f"the database, such as sqlite:///jobs.db; default: ${URL_VARIABLE}",
    )


def add_tables(parser: Parser) -> None:
    """Add the options that say where in it the tables are."""
    parser.add_argument(
        "--table-prefix", default="jobfence_", help="default: %(default)s"
    )
    parser.add_argument("--schema", help="the database schema that holds the tables")


def add_json(parser: Parser) -> None:
    """Add the option for programs that read the output."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def database_url(args: argparse.Namespace) -> str:
    """
    Return the URL that was given.

    One that is none is not repeated: it may hold a password that nobody would find.
    """
    url: str | None = args.url
    if not url:
        raise UsageError(f"give --url, or set {URL_VARIABLE}")
    if not (_URL.match(url) and _is_text(url)):
        raise UsageError(
            "--url must be a database URL, such as sqlite:///jobs.db or "
            "postgresql://user@host/database"
        )
    return url


def _is_text(given: str) -> bool:
    """Whether the bytes that were given are characters, which not all of a path are."""
    return not any("\ud800" <= char <= "\udfff" for char in given)


def duration_ms(text: str) -> int | None:
    """Return a length such as 7d, 12h, 30m, 45s or 500ms; None for `never`."""
    if text == "never":
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"must be a length such as 7d, 12h, 30m, 45s or 500ms, or never, "
            f"not {text!r}"
        )
    return int(match[1]) * _UNITS_MS[match[2]]


def seconds(text: str) -> float:
    """Return a wait such as 30 or 0.5."""
    with contextlib.suppress(ValueError):
        found = float(text)
        if 0 <= found < math.inf:
            return found
    raise argparse.ArgumentTypeError(
        f"must be a number of seconds, 0 or more, not {text!r}"
    )
