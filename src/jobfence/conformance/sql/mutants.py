"""
Small changes of a store's statements, made while it runs, by a hook of the engine.

No source is changed, so this works on any store on SQLAlchemy whose engine names its
parameters: dropping a condition leaves one unused, which drivers allow by name.

A statement is known by its shape: without the prefix of its tables, the names of its
parameters and the length of its lists; a SELECT also without its conditions. A change is known by what it says, so that it is
the same one on another namespace, another database and another day.
"""

import re

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from sqlalchemy import Connection, Engine, event

from jobfence.conformance.sql.splitting import (
    Clause,
    Part,
    clauses,
    conditions,
    items,
    masked,
    scopes,
)

_PARAMETER = r"(?:%\(\w+\)s(?:::\w+(?:\[\])?)?|(?<![:\w]):\w+)"
_NAMESPACE = re.compile(r"\bc[0-9a-f]{6}\d+_")  # see base.new_namespace
_NO_END = "1000000"


@cache
def shape_of(text: str) -> str:
    """Return a statement, or a piece of one, as it is known."""
    plain = _NAMESPACE.sub("", " ".join(text.split()))
    plain = re.sub(_PARAMETER, "?", plain)
    return re.sub(r"\bIN \(\?(, \?)*\)", "IN (?)", plain)


@cache
def family_of(statement: str) -> str:
    """
    Return the shape of a statement; of a SELECT without its conditions.

    SELECTs that differ in those only are one statement with filters, and a change is
    made in all that have the place for it. The conditions are its own, and those of the
    tables in its FROM that are SELECTs themselves.
    """
    if statement.split(None, 1)[0].upper() != "SELECT":
        return shape_of(statement)
    left = statement
    for at, end in reversed(_conditions_of(statement)):
        left = left[:at] + left[end:]
    return shape_of(left)


def _conditions_of(statement: str) -> list[tuple[int, int]]:
    """Return where the WHERE clauses begin and end that name no other statement."""
    outer = clauses(statement, Part(0, len(statement)))
    tables = [each.body for each in outer if each.word == "FROM"]
    inner = [
        each
        for scope in scopes(statement)
        if any(at.begin <= scope.begin and scope.end <= at.end for at in tables)
        for each in clauses(statement, scope)
    ]
    found = [each for each in (*outer, *inner) if each.word == "WHERE"]
    spans = sorted((each.at, each.body.end) for each in found)
    # One within another goes with it.
    return [
        (at, end)
        for at, end in spans
        if not any(other < at and end < last for other, last in spans)
    ]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one statement: its family, and the statement changed."""

    family: str
    change: str
    mutated: str

    def __str__(self) -> str:
        return f"{self.change} | {self.family}"


@cache
def mutants_of(statement: str) -> tuple[Mutant, ...]:
    """
    Return every small change of a statement.

    A condition, an alternative, a value to set, an order, a limit or a lock is left
    out; a comparison takes the border in or leaves it out; an order is turned round; a
    term of a sum is left out; or the whole statement changes nothing.
    """
    family = family_of(statement)
    verb = statement.split(None, 1)[0].upper()
    if verb not in ("SELECT", "UPDATE", "DELETE", "INSERT"):
        return ()
    seen: Counter[str] = Counter()
    found = []
    for change, mutated in _changes(statement, verb):
        seen[change] += 1
        again = f" #{seen[change]}" if seen[change] > 1 else ""
        found.append(Mutant(family, change + again, mutated))
    return tuple(found)


Change = tuple[str, str]


def _changes(statement: str, verb: str) -> Iterator[Change]:
    for scope in scopes(statement):
        found = clauses(statement, scope)
        for clause in found:
            yield from _in_clause(statement, clause)
        if not found and re.search(r" AND | OR ", masked(statement, scope)):
            yield from _in_condition(statement, scope)
    yield from _in_texts(statement)
    if verb != "SELECT":
        yield "does nothing", _nothing(statement, verb)


def _in_clause(statement: str, clause: Clause) -> Iterator[Change]:
    if clause.word == "WHERE":
        yield from _in_condition(statement, clause.body)
    elif clause.word == "SET":
        yield from _without_items(statement, clause.body)
    elif clause.word == "ORDER BY":
        yield from _in_order(statement, clause)
    elif clause.word == "LIMIT" and not _text(statement, clause.body).isdigit():
        yield "no LIMIT", _with(statement, clause.body, _NO_END)


def _in_condition(statement: str, part: Part) -> Iterator[Change]:
    for joined, each in conditions(statement, part):
        neutral = "1 = 1" if joined == "AND" else "1 = 0"
        told = shape_of(_text(statement, each))
        yield f"no {joined} {told}", _with(statement, each, neutral)


def _without_items(statement: str, part: Part) -> Iterator[Change]:
    parts = items(statement, part)
    for each in parts:
        rest = [_text(statement, other) for other in parts if other != each]
        if rest:
            told = shape_of(_text(statement, each))
            yield f"no SET {told}", _with(statement, part, ", ".join(rest))


def _in_order(statement: str, clause: Clause) -> Iterator[Change]:
    parts = items(statement, clause.body)
    for each in parts:
        key = _text(statement, each)
        rest = [_text(statement, other) for other in parts if other != each]
        whole = Part(clause.at, clause.body.end)
        less = f"ORDER BY {', '.join(rest)}" if rest else ""
        yield f"no ORDER BY {shape_of(key)}", _with(statement, whole, less)
        turned = key.removesuffix(" DESC") if key.endswith(" DESC") else f"{key} DESC"
        yield f"turned ORDER BY {shape_of(key)}", _with(statement, each, turned)


_LOCKS = r" (FOR UPDATE SKIP LOCKED|FOR UPDATE|FOR SHARE|LOCK IN SHARE MODE)\b"
_BORDERS = {"<=": "<", "<": "<=", ">=": ">", ">": ">="}


def _in_texts(statement: str) -> Iterator[Change]:
    """Change what can stand anywhere."""
    for found in re.finditer(r" (<=|>=|<|>) ", statement):
        instead = f" {_BORDERS[found[1]]} "
        told = shape_of(statement[: found.start()].rpartition(" ")[2].lstrip("("))
        told += instead
        yield f"{found[1]} as {told.strip()}", _at(statement, found, instead)
    for found in re.finditer(rf" [+-] (?:{_PARAMETER}|\d+)", statement):
        before = shape_of(statement[: found.start()].rpartition(" ")[2])
        if "=(" in before:
            continue  # x = x without the term: as good as not set at all
        left_out = f"no {shape_of(found[0])} after {before.lstrip('(')}"
        yield left_out, _at(statement, found, "")
    for found in re.finditer(_LOCKS, statement):
        yield f"no{found[0]}", _at(statement, found, "")
    for found in re.finditer(r" SKIP LOCKED\b", statement):
        yield "waits where it should skip", _at(statement, found, "")
    for found in re.finditer(r"pg_advisory_xact_lock\(.*\)", statement):
        yield "no pg_advisory_xact_lock", _at(statement, found, "1")
    for found in re.finditer(r" ON (CONFLICT|DUPLICATE KEY) .*$", statement, re.DOTALL):
        yield f"no ON {found[1]}", _at(statement, found, "")
    for found in re.finditer(r"\bDISTINCT ", statement):
        yield "no DISTINCT", _at(statement, found, "")


def _nothing(statement: str, verb: str) -> str:
    if verb == "INSERT":
        found = re.match(r"INSERT INTO (\S+) \((\w+)", statement)
        assert found is not None, f"not an INSERT of this kind: {statement}"
        table, column = found[1], found[2]
        return f"UPDATE {table} SET {column}={column} WHERE 1 = 0"  # noqa: S608
    last = clauses(statement, Part(0, len(statement)))[-1]
    if last.word == "WHERE":
        return f"{statement[: last.body.begin]}1 = 0"
    return f"{statement} WHERE 1 = 0"


def _text(statement: str, part: Part) -> str:
    return statement[part.begin : part.end]


def _with(statement: str, part: Part, instead: str) -> str:
    return statement[: part.begin] + instead + statement[part.end :]


def _at(statement: str, found: re.Match[str], instead: str) -> str:
    return statement[: found.start()] + instead + statement[found.end() :]


def _number_of(edit: tuple[str, str]) -> int:
    found = re.search(r" #(\d+)$", edit[1])
    return int(found[1]) if found else 1


@cache
def changed(statement: str, edits: tuple[tuple[str, str], ...]) -> str:
    """Return the statement with those edits, of a family and a change each, that fit."""
    family = family_of(statement)
    # What is there twice, from behind: the second is the first when that has gone.
    for wanted, change in sorted(edits, key=_number_of, reverse=True):
        if wanted == family:
            for each in mutants_of(statement):
                if each.change == change:
                    statement = each.mutated
                    break
    return statement


def statements_of(engine: Engine, work: Callable[[], object]) -> list[str]:
    """Return the statements that some work executes, each once."""
    seen: dict[str, None] = {}

    def note(
        _connection: Connection, _cursor: object, statement: str, *_: object
    ) -> None:
        seen[statement] = None

    event.listen(engine, "before_cursor_execute", note)
    try:
        work()
    finally:
        event.remove(engine, "before_cursor_execute", note)
    return list(seen)
