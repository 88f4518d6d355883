"""Printing: JSON for programs; for people tables, by rich where it is of use."""

import dataclasses
import json
import sys

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import IO

Cell = str | int | None
_ANY_WIDTH = 1_000_000
_LONGEST = 60


def as_json(value: object) -> object:
    """Return a value of the library as what `json` can write."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: as_json(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {str(key): as_json(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [as_json(each) for each in value]
    return value


def print_json(value: object) -> None:
    """Print a value as JSON."""
    print(json.dumps(as_json(value), indent=2))


def compact(value: object) -> str:
    """Return a value as JSON on one line."""
    return json.dumps(as_json(value))


def print_table(
    headers: Sequence[str], rows: Iterable[Sequence[Cell]], *, empty: str
) -> None:
    """Print rows under headers, drawn where a terminal has room, or say there are none."""
    texts = [[shown(cell) for cell in row] for row in rows]
    if not texts:
        print(empty)
    elif not _print_rich(headers, texts):
        _print_plain([list(headers), *texts])


def shown(cell: Cell) -> str:
    """Return a cell as text that cannot steer a terminal."""
    text = "-" if cell is None else str(cell)
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode()
        for char in text
    )


def when(time_ms: int | None) -> str | None:
    """Return a time as people read it, in UTC."""
    if time_ms is None:
        return None
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
    return time.isoformat(" ", "milliseconds").replace("+00:00", "Z")


def last_line(text: str | None) -> str | None:
    """Return the line of a traceback that says what happened, cut to a table's width."""
    lines = (text or "").split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return (said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…") or None


def age(milliseconds: int | None) -> str | None:
    """Return a length of time as people read it."""
    if milliseconds is None:
        return None
    seconds = milliseconds // 1000
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def fancy(stream: IO[str]) -> bool:
    """Whether a stream is a terminal and rich is installed."""
    if not stream.isatty():
        return False
    try:
        import rich  # noqa: F401, PLC0415  an extra
    except ImportError:
        return False
    return True


def _print_rich(headers: Sequence[str], rows: list[list[str]]) -> bool:
    if not fancy(sys.stdout):
        return False
    from rich.console import Console  # noqa: PLC0415  an extra
    from rich.measure import Measurement  # noqa: PLC0415  an extra
    from rich.table import Table  # noqa: PLC0415  an extra
    from rich.text import Text  # noqa: PLC0415  an extra

    table = Table(*headers)
    for row in rows:
        table.add_row(*map(Text, row))  # as Text: a job's name is no markup
    console = Console()
    # One that is too wide would be cut or broken up, and an id is there to be copied.
    unbounded = console.options.update(max_width=_ANY_WIDTH)
    if Measurement.get(console, unbounded, table).maximum > console.width:
        return False
    console.print(table)
    return True


def _print_plain(rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
