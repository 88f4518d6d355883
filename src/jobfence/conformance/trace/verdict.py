"""What a check of a trace says: all of it was possible, or what was the first that was not."""

from collections.abc import Mapping
from dataclasses import dataclass

from jobfence.conformance.trace.entries import Entry

# The rule that a finding about the journal itself names.
JOURNAL = "journal"


class Refused(Exception):
    """Something that the rules do not allow; its place is added by who replays."""

    def __init__(self, rule: str, *, expected: str, seen: str) -> None:
        super().__init__(f"{rule}: expected {expected}; seen {seen}")
        self.rule, self.expected, self.seen = rule, expected, seen


@dataclass(frozen=True, slots=True)
class Impossible:
    """
    What the rules do not allow, and where it is.

    `index` counts the journal's entries in the order in which they were replayed, from
    0; it is their number when all of them were possible and the tables are not what
    they lead to, and None when there is no journal.
    """

    rule: str
    entity: str
    entity_id: str
    expected: str
    seen: str
    index: int | None = None
    tx: str | None = None
    rev: int | None = None
    action: str | None = None

    @classmethod
    def at(cls, entry: Entry, index: int, refused: Refused) -> "Impossible":
        """Say where it was refused."""
        return cls(
            rule=refused.rule,
            entity=entry.entity,
            entity_id=entry.entity_id,
            expected=refused.expected,
            seen=refused.seen,
            index=index,
            tx=entry.tx,
            rev=entry.rev,
            action=entry.action,
        )

    def __str__(self) -> str:
        """Return it as a sentence."""
        where = f"{self.entity} {self.entity_id!r}"
        if self.action is not None:
            where = (
                f"event {self.index}, transaction {self.tx}: {where}, revision "
                f"{self.rev}, {self.action}"
            )
        return f"{where}: rule {self.rule}: expected {self.expected}; seen {self.seen}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    The outcome of a check.

    `counts` says how much was looked at: entries, transactions, transitions of jobs,
    and rows of each table. `earlier` is how many rows were there before the journal
    began: their first entry says what they were.
    """

    impossible: Impossible | None
    counts: Mapping[str, int]
    earlier: int = 0

    @property
    def ok(self) -> bool:
        """Whether all of it was possible."""
        return self.impossible is None
