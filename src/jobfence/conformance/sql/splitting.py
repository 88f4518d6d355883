"""
A statement taken apart as text, far enough to change one part of it.

Knows brackets, clauses, and that AND binds tighter than OR; that is enough for the
statements that SQLAlchemy writes. Positions are those of the whole statement.
"""

import re

from collections.abc import Iterator
from dataclasses import dataclass

_CLAUSES = re.compile(
    r"\b(SELECT|(?<!DISTINCT )FROM|SET|WHERE|GROUP BY|ORDER BY|LIMIT|OFFSET|FOR UPDATE|FOR SHARE"
    r"|LOCK IN SHARE MODE|RETURNING|VALUES|ON CONFLICT|ON DUPLICATE KEY UPDATE)\b"
)


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a statement."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause by its first word, and what comes behind it."""

    word: str
    at: int
    body: Part


def scopes(statement: str) -> Iterator[Part]:
    """Return the whole statement and the inside of every pair of brackets."""
    yield Part(0, len(statement))
    opened: list[int] = []
    for found in re.finditer(r"[()]", statement):
        if found[0] == "(":
            # A parameter's own brackets, %(name)s, hold no SQL.
            opened.append(found.end())
        elif opened:
            yield Part(opened.pop(), found.start())


def masked(statement: str, scope: Part) -> str:
    """Return the scope with what is in deeper brackets or quotes made unreadable."""
    depth, quoted, told = 0, False, []
    for letter in statement[scope.begin : scope.end]:
        if letter == "'":
            quoted = not quoted
        depth -= letter == ")" and not quoted
        told.append("#" if depth or quoted else " " if letter == "\n" else letter)
        depth += letter == "(" and not quoted
    return "".join(told)


def clauses(statement: str, scope: Part) -> list[Clause]:
    """Return the clauses of a scope; none if it is not a statement."""
    shown = masked(statement, scope)
    found = list(_CLAUSES.finditer(shown))
    ends = [*(each.start() for each in found[1:]), len(shown)][: len(found)]
    return [
        Clause(
            each[1],
            scope.begin + each.start(),
            _trimmed(statement, scope.begin + each.end(), scope.begin + end),
        )
        for each, end in zip(found, ends, strict=True)
    ]


def items(statement: str, part: Part) -> list[Part]:
    """Split at commas."""
    return _split(statement, part, ",")


def conditions(statement: str, part: Part) -> Iterator[tuple[str, Part]]:
    """Return the parts of a condition, each with what joins it to others: AND or OR."""
    alternatives = _split(statement, part, r" OR ")
    for each in alternatives:
        if len(alternatives) > 1:
            yield "OR", each
        both = _split(statement, each, r" AND ")
        if len(both) > 1 or len(alternatives) == 1:
            for one in both:
                yield "AND", one


def _split(statement: str, part: Part, separator: str) -> list[Part]:
    shown = masked(statement, part)
    found, begin = [], 0
    for each in re.finditer(separator, shown):
        found.append((begin, each.start()))
        begin = each.end()
    return [
        _trimmed(statement, part.begin + start, part.begin + end)
        for start, end in [*found, (begin, len(shown))]
    ]


def _trimmed(statement: str, begin: int, end: int) -> Part:
    text = statement[begin:end]
    return Part(
        begin + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())
    )
