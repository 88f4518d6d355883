"""
Hold the store against hand-written loops, side by side in one run.

    python -m benchmarks.measure [sqlite] [postgresql] [mariadb] [--rounds N] [--profile]

Each round runs a slice of the yardstick and a slice of the store in random order, for
every piece of work; what is printed is the median rate of each and the median of the
rounds' ratios, with the smallest and the largest. Rates are this machine's on this day;
the ratios are what to read. `--profile` says where the store's time goes instead.
"""

import argparse
import cProfile
import os
import platform
import pstats
import random
import statistics
import tempfile
import time

from collections.abc import Callable
from pathlib import Path

from benchmarks.yardsticks import (
    BATCH,
    BULK,
    MariaDBYardstick,
    PostgreSQLYardstick,
    SQLiteYardstick,
    Yardstick,
)
from sqlalchemy.engine import make_url

from jobfence import JobRequest, Settlement, SqlJobStore
from jobfence.statemachine.values import Handoff

URLS = {
    "postgresql": "postgresql+psycopg://postgres@127.0.0.1:5432/test",
    "mariadb": "mariadb+pymysql://root@127.0.0.1:3306/test",
}
PREFIX = "bench_"
SLICE_S = 0.6
WORK = ("enqueue_one", "enqueue_bulk", "one_by_one", "batch")


class Ours:
    """The same four pieces of work through the store."""

    def __init__(self, store: SqlJobStore) -> None:
        self._store = store
        self._held: list[Handoff] = []

    def enqueue_one(self) -> int:
        self._store.enqueue("noop", [1, "abcdefghij"], {"pad": "x" * 60})
        return 1

    def enqueue_bulk(self) -> int:
        requests = [
            JobRequest("noop", [1, "abcdefghij"], {"pad": "x" * 60})
            for _ in range(BULK)
        ]
        return len(self._store.enqueue_many(requests))

    def one_by_one(self) -> int:
        (handoff,) = self._store.claim()
        assert self._store.complete(handoff.job.id, handoff.handoff_id).accepted
        return 1

    def batch(self) -> int:
        acks, self._held = self._store.settle(
            [Settlement.complete(each) for each in self._held], claim=BATCH
        )
        return len(acks)

    def settle_one(self) -> int:
        acks, self._held = self._store.settle(
            [Settlement.complete(each) for each in self._held[:1]], claim=1
        )
        return len(acks)

    def finish(self) -> None:
        self._store.settle([Settlement.complete(each) for each in self._held])
        self._held = []


def rate(work: Callable[[], int], seconds: float) -> float:
    """Run a piece of work for a while; return jobs a second."""
    done, begin = 0, time.perf_counter()
    while (spent := time.perf_counter() - begin) < seconds:
        done += work()
    return done / spent


def open_both(name: str, folder: Path) -> tuple[Yardstick, SqlJobStore]:
    """Open a yardstick and a store on one database, both empty."""
    if name == "sqlite":
        store = SqlJobStore(f"sqlite:///{folder}/ours.db")
        return SQLiteYardstick(f"{folder}/yard.db"), store
    text = os.environ.get(f"JOBFENCE_TEST_{name.upper()}_URL", URLS[name])
    store, url = SqlJobStore(text, table_prefix=PREFIX), make_url(text)
    if name == "postgresql":
        plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
        return PostgreSQLYardstick(plain), store
    return (
        MariaDBYardstick(
            host=url.host,
            port=url.port or 3306,
            user=url.username,
            password=url.password or "",
            database=url.database,
        ),
        store,
    )


def fill(yardstick: Yardstick, ours: Ours, work: str) -> None:
    """Queue enough jobs for the slices that take jobs away."""
    if work in ("one_by_one", "batch"):
        for _ in range(10 if work == "one_by_one" else 60):
            yardstick.enqueue_bulk()
            ours.enqueue_bulk()


def compare(name: str, rounds: int, folder: Path) -> None:
    """Print one line for each piece of work."""
    yardstick, store = open_both(name, folder)
    store.ensure_ready()
    store.clear()
    ours = Ours(store)
    try:
        for work in WORK:
            fill(yardstick, ours, work)
            pairs = []
            for _ in range(rounds):
                sides: list[Yardstick | Ours] = [yardstick, ours]
                random.shuffle(sides)
                rates = {id(side): rate(getattr(side, work), SLICE_S) for side in sides}
                pairs.append((rates[id(yardstick)], rates[id(ours)]))
                if work == "one_by_one":
                    fill(yardstick, ours, work)
            ours.finish()
            report(name, work, pairs)
    finally:
        store.tables.metadata.drop_all(store.engine)
        store.close()
        yardstick.close()


def report(name: str, work: str, pairs: list[tuple[float, float]]) -> None:
    ratios = sorted(mine / theirs for theirs, mine in pairs)
    print(
        f"{name:<11} {work:<13} yardstick {statistics.median(p[0] for p in pairs):>9,.0f}/s"
        f"  jobfence {statistics.median(p[1] for p in pairs):>9,.0f}/s"
        f"  ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
        flush=True,
    )


def profile(name: str, folder: Path) -> None:
    """Print where the time of each piece of work goes."""
    yardstick, store = open_both(name, folder)
    store.ensure_ready()
    store.clear()
    ours = Ours(store)
    try:
        for work in WORK:
            fill(yardstick, ours, work)
            profiler = cProfile.Profile()
            profiler.runcall(rate, getattr(ours, work), SLICE_S)
            print(f"== {name} {work}")
            pstats.Stats(profiler).sort_stats("tottime").print_stats(14)
            ours.finish()
    finally:
        store.tables.metadata.drop_all(store.engine)
        store.close()
        yardstick.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("databases", nargs="*", default=["sqlite", *URLS])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )
    for name in given.databases:
        with tempfile.TemporaryDirectory() as folder:
            if given.profile:
                profile(name, Path(folder))
            else:
                compare(name, given.rounds, Path(folder))


if __name__ == "__main__":
    main()
