"""What may find a mutant: every check, the sequences, and the races, each by itself."""

import time

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from sqlalchemy import Engine, event

from jobfence.conformance.base import SuiteBase, new_namespace
from jobfence.conformance.examples.racing import Racing
from jobfence.conformance.layers import EXAMPLES, MATRIX, Check, checks
from jobfence.conformance.sql.exploring import explore
from jobfence.conformance.sql.scenarios import SCENARIOS
from jobfence.conformance.sql.scheduler import Scheduler
from jobfence.conformance.sql.swapping import Swapper
from jobfence.conformance.sql.worlds import ModelWorld, Scenario
from jobfence.conformance.stateful.machine import run_stateful, usual_settings
from jobfence.conformance.trace import Entry, check as check_trace
from jobfence.store import SqlJobStore
from jobfence.store.dialects.engines import make_engine
from jobfence.store.sql.auditing import snapshot
from jobfence.store.sql.schema import schema_for
from model_tests.sql_suite import SqlBackdoor
from model_tests.worlds import SqlWorld

# So many seconds may one of them take; a mutant may make the store go on for ever.
PATIENCE_S = {"examples": 5.0, "matrix": 5.0, "sequences": 60.0, "races": 60.0}
# A race finds a mutant only by luck.
_CERTAIN = tuple(each for each in EXAMPLES if each is not Racing)
EXAMPLES_OF_SEQUENCES = {"sqlite": 12, "postgresql": 10, "mariadb": 6}
SCHEDULES = {"postgresql": 100, "mariadb": 8}
_LOCK_WAIT_S = 3


@dataclass(slots=True)
class Killer:
    """One thing that may find a mutant; `families` are the statements it executes."""

    name: str
    layer: str
    run: Callable[[], BaseException | None]
    part: str = ""
    families: frozenset[str] = frozenset()
    seconds: float = 0.0


class Journaled(SuiteBase):
    """Opens stores that write a journal: revisions are judged by it."""

    def __init__(self, engine: Engine, plain: Engine) -> None:
        self._engine, self._plain = engine, plain

    def open_store(self, namespace: str, **given: Any) -> SqlJobStore:
        """Open one."""
        return opened(self._engine, namespace, journal=True, **given)

    def open_backdoor(self, namespace: str) -> SqlBackdoor:
        """Return a way past the store, and past the mutants."""
        return SqlBackdoor(self._plain, schema_for(f"{namespace}_", None))


class Place:
    """A database under two engines: one that mutants are put into, and a plain one."""

    def __init__(self, database: str, url: str) -> None:
        self.database = database
        self.engine, self.plain = named_engine(url), named_engine(url)
        self.suite = Journaled(self.engine, self.plain)
        self.swapper = Swapper(self.engine)
        self.world: SqlWorld | None = None
        self._of_checks, self._of_races = new_namespace(), new_namespace()
        self._scheduler = Scheduler(self.engine)
        # Some checks damage rows past the store: no journal agrees with that.
        self._unaudited: set[str] = set()

    def close(self) -> None:
        """Remove all tables."""
        self.swapper.allow(float("inf"))
        if self.world is not None:
            self.world.close()
        with self.plain.begin() as connection:
            schema_for(f"{self._of_checks}_", None).metadata.drop_all(connection)
        self.engine.dispose()
        self.plain.dispose()

    def killers(self) -> Iterator[Killer]:
        """Return all there are for this database."""
        for layer, classes in (("examples", _CERTAIN), ("matrix", MATRIX)):
            for each in checks(classes):
                part = each.cls.__name__
                yield Killer(str(each), layer, self._checking(each), part)
        yield Killer("sequences", "sequences", self._sequences)
        if self.database in SCHEDULES:
            for scenario in SCENARIOS:
                yield Killer(scenario.name, "races", self._racing(scenario))

    def prepare(self, killer: Killer) -> None:
        """Make what has to be there before there is a mutant."""
        if killer.layer == "races" and self.world is None:
            self.world = SqlWorld(self.engine, self._of_races)
            tables = schema_for(f"{self._of_races}_", None)
            self.world.backdoor = SqlBackdoor(self.plain, tables)

    def version(self) -> str:
        """Return the server's or library's version."""
        with self.plain.connect() as connection:
            found = connection.dialect.server_version_info or ()
        return ".".join(map(str, found[:3]))

    def _checking(self, each: Check) -> Callable[[], BaseException | None]:
        def run() -> BaseException | None:
            problem = each.run(self.suite, self._of_checks)
            if problem is None and str(each) not in self._unaudited:
                problem = self._audit()
            return problem

        return run

    def leave_unaudited(self, killer: Killer) -> None:
        """Judge this one by its own assertions only."""
        self._unaudited.add(killer.name)

    def _audit(self) -> BaseException | None:
        store = opened(self.plain, self._of_checks, journal=True)
        with snapshot(store) as seen:
            verdict = check_trace([Entry.from_row(row) for row in seen.entries()], seen)
        return None if verdict.ok else AssertionError(str(verdict.impossible))

    def _sequences(self) -> BaseException | None:
        """Drive the state machine, always through the same examples."""
        try:
            run_stateful(
                self.suite.open_store,
                settings=settings(
                    usual_settings(),
                    max_examples=EXAMPLES_OF_SEQUENCES[self.database],
                    stateful_step_count=30,
                    derandomize=True,
                    database=None,
                ),
                backdoor=self.suite.open_backdoor(self._of_checks),
                namespace=self._of_checks,
                shortening_s=0,
            )
        except Exception as problem:  # noqa: BLE001  any at all
            return problem
        return self._audit()

    def _racing(self, scenario: Scenario) -> Callable[[], BaseException | None]:
        def run() -> BaseException | None:
            world = self.world
            assert world is not None, "prepare() comes first"
            try:
                with self._scheduler.attached() as monitor:
                    _, wrong = explore(
                        scenario,
                        world,
                        ModelWorld(),
                        self._scheduler,
                        monitor,
                        most=SCHEDULES[self.database],
                    )
            except Exception as problem:  # noqa: BLE001  any at all
                return problem
            return None if wrong is None else AssertionError(str(wrong))

        return run


def opened(engine: Engine, namespace: str, **given: Any) -> SqlJobStore:
    """Open a store on this engine."""
    return SqlJobStore(engine, table_prefix=f"{namespace}_", **given)


def named_engine(url: str) -> Engine:
    """Return an engine that names its parameters, and waits for no lock for long."""
    engine = make_engine(url)
    dialect: Any = engine.dialect
    dialect.paramstyle = {"sqlite": "named"}.get(dialect.name, "pyformat")
    dialect.positional = False
    event.listen(engine, "connect", _impatient[dialect.name])
    return engine


def _run(*statements: str) -> Callable[[Any, object], None]:
    def connected(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        for each in statements:
            cursor.execute(each)
        cursor.close()
        if not each.startswith("PRAGMA"):
            connection.commit()

    return connected


_impatient = {
    # Nothing here loses power, and there are thousands of commits.
    "sqlite": _run("PRAGMA synchronous=OFF"),
    "postgresql": _run(
        f"SET lock_timeout = '{_LOCK_WAIT_S}s'", "SET synchronous_commit = off"
    ),
    "mysql": _run(f"SET SESSION innodb_lock_wait_timeout = {_LOCK_WAIT_S}"),
    "mariadb": _run(f"SET SESSION innodb_lock_wait_timeout = {_LOCK_WAIT_S}"),
}


@dataclass(slots=True)
class Kills:
    """Which killers have found mutants of which statement so far."""

    by_family: dict[str, dict[str, int]] = field(default_factory=dict)

    def note(self, family: str, killer: str) -> None:
        """Count one."""
        known = self.by_family.setdefault(family, {})
        known[killer] = known.get(killer, 0) + 1

    def of(self, family: str, killer: str) -> int:
        """Return how many."""
        return self.by_family.get(family, {}).get(killer, 0)


def timed(work: Callable[[], BaseException | None]) -> tuple[float, object]:
    """Return the seconds and the answer."""
    begin = time.monotonic()
    answer = work()
    return time.monotonic() - begin, answer
