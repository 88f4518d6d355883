"""
A soak with a journal: threads, killed connections, killed processes.

Whatever happened must have been possible, says Python; and TLC, of one run. `pytest -s`
prints the figures.
"""

import itertools
import os
import random
import subprocess
import sys
import threading
import time

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sqlalchemy import Engine, event
from sqlalchemy.exc import DBAPIError

from jobfence.conformance.trace import Entry, check
from jobfence.conformance.trace.tla import trace_module
from jobfence.statemachine.table import TABLE
from jobfence.store.sql.auditing import snapshot
from tests.store.sql.bench import Database
from tests.store.sql.journal.load import MAX_HANDOFFS, Worker, soak_store
from tests.store.sql.journal.processes import work_and_be_killed
from tests.store.sql.journal.record import keep

THREADS = 4
SEED = 2026
KILL_EVERY = 25  # things done by one thread
RUN_TLC = Path(__file__).parents[4] / "spec" / "trace" / "run.py"

# On the three databases together 10,000 in every run, and 100,000 in a deep one.
TARGETS = [3_400, pytest.param(34_000, marks=pytest.mark.deep)]

# Every row of the table but those for a damaged job: nobody damages one here.
ROWS = {f"{row.trigger}:{row.name}" for row in TABLE if row.trigger != "reject"}


class Killer:
    """Knows the connections of the workers' engines, and kills one."""

    _ID: Mapping[str, Callable[[Any], int]] = {
        "postgresql": lambda driver: int(driver.info.backend_pid),
        "mariadb": lambda driver: int(driver.thread_id()),
    }
    _KILL: Mapping[str, str] = {
        "postgresql": "SELECT pg_terminate_backend({})",
        "mariadb": "KILL CONNECTION {}",
    }

    def __init__(self, database: Database, chance: random.Random) -> None:
        self._database = database
        self._chance = chance
        self._open: set[int] = set()
        self._lock = threading.Lock()
        self.killed = 0

    def watch(self, engine: Engine) -> None:
        if self._database.name in self._KILL:
            event.listen(engine, "connect", self._connected)

    def _connected(self, driver: object, _record: object) -> None:
        with self._lock:
            self._open.add(self._ID[self._database.name](driver))

    def kill_one(self) -> None:
        """Kill one in the middle of whatever it does."""
        with self._lock:
            if not self._open:
                return
            victim = self._chance.choice(sorted(self._open))
            self._open.remove(victim)
            self.killed += self._kill(victim)

    def _kill(self, victim: int) -> bool:
        statement = self._KILL[self._database.name].format(victim)
        with self._database.engine.connect() as connection:
            try:
                connection.exec_driver_sql(statement)
            except DBAPIError as error:
                if "Unknown thread id" not in str(error):
                    raise
                return False  # it had gone already
        return True


@dataclass
class Soak:
    """A soak under way on one database."""

    database: Database
    prefix: str
    target: int
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))
    seen: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        """Let threads and processes work until there are enough transitions."""
        killer = Killer(self.database, random.Random(SEED))
        with self._workers(killer) as workers, ThreadPoolExecutor() as pool:
            running = [
                pool.submit(self._work, each, workers, killer) for each in workers
            ]
            running.append(pool.submit(self._processes, workers))
            for each in running:
                each.result()
        self.seen += sum((each.seen for each in workers), Counter[str]())
        self.seen["connections killed"] += killer.killed

    @contextmanager
    def _workers(self, killer: Killer) -> Iterator[list[Worker]]:
        with ExitStack() as stack:
            workers = []
            for n in range(THREADS):
                store = stack.enter_context(
                    closing(soak_store(self.database.url, self.prefix))
                )
                killer.watch(store.engine)
                workers.append(Worker(store, random.Random(SEED + n)))
            yield workers

    def _enough(self, workers: list[Worker]) -> bool:
        """Count what was answered: some answers were lost, so it is less than was done."""
        made = sum(each.seen["transitions"] for each in workers)
        return made + self.seen["by processes"] > self.target * 1.05

    def _work(self, worker: Worker, all_: list[Worker], killer: Killer) -> None:
        for n in itertools.count(1):
            if self._enough(all_):
                return
            worker.work()
            if n % KILL_EVERY == 0:
                killer.kill_one()

    def _processes(self, workers: list[Worker]) -> None:
        for n in itertools.count():
            if self._enough(workers):
                return
            self.seen["by processes"] += work_and_be_killed(
                self.database.url,
                self.prefix,
                SEED + 100 + n,
                after=self.chance.randrange(1, 8),
            )
            self.seen["processes killed"] += 1


@pytest.mark.parametrize("target", TARGETS)
def test_what_happens_in_a_soak_was_possible(
    database: Database, target: int, tmp_path: Path
) -> None:
    with database.fresh_prefix() as prefix:
        soak = Soak(database, prefix, target)
        with closing(soak_store(database.url, prefix)) as store:
            store.ensure_ready()
            seconds: dict[str, float] = {}
            with timed(seconds, "soak"):
                soak.run()
            with snapshot(store) as seen, timed(seconds, "python"):
                entries = [Entry.from_row(row) for row in seen.entries()]
                verdict = check(entries, seen, max_handoffs=MAX_HANDOFFS)

    figures = {**soak.seen, **verdict.counts}
    sys.stdout.write(f"\n{database.name}: {seconds} s: {figures}\n")
    assert verdict.ok, verdict.impossible
    assert verdict.counts["transitions"] >= target
    # It was no quiet day: every row was taken, every answer given, and much was killed.
    actions = Counter(each.action.removesuffix(":whole") for each in entries)
    assert ROWS - {*actions} == set()
    for sometimes in ("accepted", "repeated", "stale", "recovered", "processes killed"):
        assert soak.seen[sometimes] > 0
    assert (soak.seen["connections killed"] > 0) is (database.name != "sqlite")
    if database.name == "postgresql":
        with timed(seconds, "tlc"):
            judge_by_tlc(entries, tmp_path)
    keep(database, figures, seconds)


@contextmanager
def timed(seconds: dict[str, float], what: str) -> Iterator[None]:
    """Note how long something takes."""
    begun = time.perf_counter()
    yield
    seconds[what] = time.perf_counter() - begun


def judge_by_tlc(entries: list[Entry], folder: Path) -> None:
    """Let the spec itself judge the real system, not only its Python twin."""
    path = folder / "TraceData.tla"
    path.write_text(trace_module(entries, max_handoffs=MAX_HANDOFFS))
    done = subprocess.run(
        [sys.executable, str(RUN_TLC), str(path)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if "the trace was not judged" in done.stderr and os.environ.get("CI") != "true":
        pytest.skip(f"accepted by Python; {done.stderr.strip()}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("accepted: ")
