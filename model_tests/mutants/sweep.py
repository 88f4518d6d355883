"""Every mutant of every statement that a workload executes, until something finds it."""

import re
import time

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from jobfence.conformance.sql.mutants import Mutant, family_of, mutants_of
from model_tests.mutants.killers import PATIENCE_S, Killer, Kills, Place, timed

LAYERS = ("examples", "matrix", "sequences", "races")
# Statements about the tables' existence, and those of the suite's own cleaning, are not
# the store's work.
_OURS = re.compile(
    r"\b(jobs|concurrency|schedule_keys|idempotency|queues|owners|locks|journal)\b"
    r"|pg_advisory_xact_lock"
)
_NOT_OURS = re.compile(r"^(CREATE|ALTER|PRAGMA|SHOW|BEGIN)|sqlite_master|pg_catalog")
_NOT_OURS_EITHER = re.compile(r"information_schema|\bmigrations\b|^DELETE FROM \w+$")
_ENOUGH, _SOME, _BRIEF = 2, 20, 8
_GUARD = re.compile(r"^no (AND|OR|ON) | as |nothing")
_LOCK = re.compile(r"FOR UPDATE|FOR SHARE|SHARE MODE|advisory|skip")


@dataclass(frozen=True, slots=True)
class Found:
    """What became of one mutant; `by` None: nothing found it."""

    mutant: Mutant
    layer: str = "survived"
    by: str | None = None
    says: str = ""
    seconds: float = 0.0


@dataclass(slots=True)
class Sweep:
    """The killers of one database, and what they have found."""

    place: Place
    killers: list[Killer] = field(default_factory=list)
    statements: dict[str, dict[str, str]] = field(default_factory=dict)
    kills: Kills = field(default_factory=Kills)

    def __post_init__(self) -> None:
        self.killers = list(self.place.killers())

    def record(self, *parts: str) -> None:
        """
        Run the killers on the store as it is, and note what they execute.

        `parts` are parts of the suite by their class's name; left out, everything.
        """
        for killer in self.killers:
            if (not parts or killer.part in parts) and not killer.families:
                self._record(killer)

    def _record(self, killer: Killer) -> None:
        self.place.prepare(killer)
        with self.place.swapper.noting() as shapes:
            killer.seconds, problem = timed(killer.run)
            if problem is not None and killer.layer == "examples":
                self.place.leave_unaudited(killer)
                killer.seconds, problem = timed(killer.run)
            if problem is not None:
                raise AssertionError(f"{killer.name}, without a mutant: {problem}")
            ours = {k: v for k, v in shapes.items() if is_ours(k)}
            killer.families = frozenset(map(family_of, ours.values()))
            for shape, statement in ours.items():
                alike = self.statements.setdefault(family_of(statement), {})
                alike.setdefault(shape, statement)

    def mutants(self) -> list[Mutant]:
        """Return all there are, statement by statement."""
        found: dict[str, Mutant] = {}
        for family in sorted(self.statements):
            for statement in self.statements[family].values():
                for each in mutants_of(statement):
                    found.setdefault(str(each), each)
        return list(found.values())

    def attempt_by(self, name: str | None, mutant: Mutant) -> Found:
        """Try the killer of this name, then those recorded, and then all others."""
        for killer in self.killers:
            if killer.name == name:
                problem = self.run(killer, [(mutant.family, mutant.change)])
                if problem is not None:
                    return Found(mutant, killer.layer, killer.name)
        found = self.attempt(mutant)
        if found.by is None:
            self.record()
            found = self.attempt(mutant)
        return found

    def attempt(
        self, mutant: Mutant, *more: Mutant, first: str = "", brief: bool = False
    ) -> Found:
        """
        Run what executes the mutant's statement until something finds it.

        `brief` is for one that is expected to survive: some checks only. With `more`
        left out at the same time the races come first: they are what it is about.
        """
        edits = [(each.family, each.change) for each in (mutant, *more)]
        begin = time.monotonic()
        order = self.in_order(mutant, first=first, brief=brief, races_first=bool(more))
        for killer in order:
            problem = self.run(killer, edits)
            if problem is not None:
                self.kills.note(mutant.family, killer.name)
                said = " ".join(str(problem).split())[:200]
                told = f"{type(problem).__name__}: {said}"
                spent = time.monotonic() - begin
                return Found(mutant, killer.layer, killer.name, told, spent)
        return Found(mutant, seconds=time.monotonic() - begin)

    def run(
        self, killer: Killer, edits: Sequence[tuple[str, str]]
    ) -> BaseException | None:
        """Run one killer on a mutant."""
        self.place.prepare(killer)
        with self.place.swapper.mutated(edits):
            self.place.swapper.allow(PATIENCE_S[killer.layer])
            return killer.run()

    def in_order(
        self,
        mutant: Mutant,
        *,
        first: str = "",
        brief: bool = False,
        races_first: bool = False,
    ) -> list[Killer]:
        """
        Return what executes the statement: what found others of it, then cheap ones.

        Some checks, then the sequences, then the other checks, then the races: those
        only if it is about what others do meanwhile, and first if it is about a lock.
        """
        by_place = sorted(
            (each for each in self.killers if mutant.family in each.families),
            key=lambda each: (
                each.name != first,
                -self.kills.of(mutant.family, each.name),
                each.seconds,
            ),
        )
        checks = [each for each in by_place if each.layer in ("examples", "matrix")]
        some, rest = _some(checks)
        sequences = [each for each in by_place if each.layer == "sequences"]
        races = [each for each in by_place if each.layer == "races"]
        if brief:
            return some[:_BRIEF]
        if races_first or _LOCK.search(mutant.change):
            return [*races, *some, *sequences, *rest]
        if mutant.family.startswith("SELECT") or not _GUARD.search(mutant.change):
            races = []
        return [*some, *sequences, *rest, *races]


def _some(checks: Sequence[Killer]) -> tuple[list[Killer], list[Killer]]:
    """
    Split checks into those that are tried first, and others.

    Of those of the matrix that execute the very same statements some are enough: they
    differ in a status and an id.
    """
    some: list[Killer] = []
    rest: list[Killer] = []
    alike = Counter[frozenset[str]]()
    for each in checks:
        alike[each.families] += 1
        if each.layer == "examples" or alike[each.families] <= _ENOUGH:
            (some if len(some) < _SOME else rest).append(each)
    return some, rest


def is_ours(shape: str) -> bool:
    """Whether a statement is one that the store works with."""
    return bool(
        _OURS.search(shape)
        and not _NOT_OURS.search(shape)
        and not _NOT_OURS_EITHER.search(shape)
    )
