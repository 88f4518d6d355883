"""
What the journal costs: the same store with and without it, side by side in one run.

    python -m benchmarks.journal_cost [sqlite] [postgresql] [mariadb] [--rounds N]

Each round gives both a slice of time, in random order, for each piece of work; what is
printed is the median rate of each and the median of the rounds' ratios (with a journal
to without), with the smallest and the largest. Rates are this machine's on this day; the
ratios are what to read.
"""

import argparse
import os
import platform
import random
import statistics
import tempfile

from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import BULK, URLS, Ours, rate

from jobfence import SqlJobStore

SLICE_S = 0.6
FILL = 3  # thousands of jobs for a slice that takes jobs away


def pieces(ours: Ours) -> dict[str, Callable[[], int]]:
    """Return the pieces of work by name."""
    return {
        "enqueue, one": ours.enqueue_one,
        f"enqueue, {BULK} at once": ours.enqueue_bulk,
        "claim and complete, one by one": ours.one_by_one,
        "settle of 50": ours.batch,
    }


def open_store(name: str, folder: Path, *, journal: bool) -> SqlJobStore:
    prefix = "cost_noted_" if journal else "cost_plain_"
    url = f"sqlite:///{folder}/{prefix}.db"
    if name != "sqlite":
        url = os.environ.get(f"JOBFENCE_TEST_{name.upper()}_URL", URLS[name])
    return SqlJobStore(url, table_prefix=prefix, journal=journal)


def compare(name: str, rounds: int, folder: Path) -> None:
    """Print one line for each piece of work."""
    stores = {kept: open_store(name, folder, journal=kept) for kept in (False, True)}
    try:
        for store in stores.values():
            store.ensure_ready()
        sides = {kept: Ours(store) for kept, store in stores.items()}
        for piece in pieces(sides[False]):
            for store in stores.values():
                store.clear()
            pairs = []
            for _ in range(rounds):
                found = {}
                for kept in random.sample([False, True], 2):
                    prepare(sides[kept], piece)
                    found[kept] = rate(pieces(sides[kept])[piece], SLICE_S)
                    sides[kept].finish()
                pairs.append((found[False], found[True]))
            report(name, piece, pairs)
    finally:
        for store in stores.values():
            store.tables.metadata.drop_all(store.engine)
            store.close()


def prepare(ours: Ours, piece: str) -> None:
    """Queue enough jobs for a slice that takes jobs away, and hold what it settles."""
    if not piece.startswith("enqueue"):
        for _ in range(FILL):
            ours.enqueue_bulk()
        if piece.startswith("settle"):
            ours.batch()


def report(name: str, piece: str, pairs: list[tuple[float, float]]) -> None:
    ratios = sorted(noted / plain for plain, noted in pairs)
    print(
        f"{name:<11} {piece:<31} without {statistics.median(p[0] for p in pairs):>8,.0f}/s"
        f"  with {statistics.median(p[1] for p in pairs):>8,.0f}/s"
        f"  ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("databases", nargs="*", default=["sqlite", *URLS])
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )
    for name in given.databases:
        with tempfile.TemporaryDirectory() as folder:
            compare(name, given.rounds, Path(folder))


if __name__ == "__main__":
    main()
