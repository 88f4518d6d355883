"""
Bringing a journal in order, without any clock.

A row's revisions follow one another, the entries of one transaction happened together,
and an owner is detached while it is held (`detaching.py`): that is a partial order of
transactions. Any order that keeps to it is as good
as any other, for what it leaves open touched nothing in common. A revision that is
missing, or there twice, is a write that was not noted; a cycle is a lock that was not
held.
"""

import heapq

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from jobfence.conformance.trace.detaching import detachments
from jobfence.conformance.trace.entries import Entry
from jobfence.conformance.trace.verdict import JOURNAL, Refused
from jobfence.store.notes import Entity

Transaction: TypeAlias = Sequence[Entry]
Place: TypeAlias = tuple[str, str, int, str]

# Inside a transaction: jobs first, for they say what counters and owners must be.
_RANK = {entity.value: rank for rank, entity in enumerate(Entity)}
# A schedule key is inserted as revision 0 without being noted.
_FIRST_REVISIONS = {Entity.SCHEDULE_KEY.value: (0, 1)}


@dataclass(frozen=True, slots=True)
class Order:
    """
    Transactions one after the other.

    `gaps` are the entries before which something is missing. `stuck` are entries that
    have no place, for their transactions wait for one another.
    """

    transactions: Sequence[Transaction]
    gaps: Mapping[Place, Refused]
    stuck: Sequence[Entry]


@dataclass(slots=True)
class _Node:
    """A transaction, and those that come after it."""

    entries: list[Entry] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    waits_for: int = 0


def place(entry: Entry) -> Place:
    """Return what tells an entry from all others."""
    return entry.entity, entry.entity_id, entry.rev, entry.tx


def by_time(transaction: Transaction) -> float:
    """Prefer what happened earlier by the clocks, so that a report reads like a log."""
    return transaction[0].at_ms


def in_order(
    entries: Iterable[Entry],
    *,
    late: bool = False,
    prefer: Callable[[Transaction], float] = by_time,
) -> Order:
    """
    Order entries by their revisions and transactions.

    `late` says that rows may have been there before the journal began. `prefer` chooses
    among transactions that may come next: the smallest.
    """
    nodes: dict[str, _Node] = {}
    chains: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        nodes.setdefault(entry.tx, _Node()).entries.append(entry)
        chains.setdefault(entry.key, []).append(entry)
    gaps: dict[Place, Refused] = {}
    for chain in chains.values():
        chain.sort(key=lambda each: each.rev)
        gaps.update(_gaps(chain, late=late))
        for former, latter in pairwise(chain):
            _follow(nodes, former.tx, latter.tx)
    for earlier, later in detachments(chains):
        _follow(nodes, earlier, later)
    for node in nodes.values():
        node.entries.sort(key=lambda each: (_RANK.get(each.entity, 0), *place(each)))
    done = _sorted(nodes, prefer)
    stuck = [each for node in nodes.values() if node.waits_for for each in node.entries]
    return Order(done, gaps, stuck)


def _follow(nodes: Mapping[str, _Node], earlier: str, later: str) -> None:
    if earlier != later:
        nodes[earlier].after.append(later)
        nodes[later].waits_for += 1


def _sorted(
    nodes: Mapping[str, _Node], prefer: Callable[[Transaction], float]
) -> list[Transaction]:
    numbers = {tx: number for number, tx in enumerate(nodes)}

    def ticket(tx: str) -> tuple[float, int, str]:
        return prefer(nodes[tx].entries), numbers[tx], tx

    ready = [ticket(tx) for tx, node in nodes.items() if not node.waits_for]
    heapq.heapify(ready)
    done: list[Transaction] = []
    while ready:
        *_, tx = heapq.heappop(ready)
        done.append(nodes[tx].entries)
        for follower in nodes[tx].after:
            nodes[follower].waits_for -= 1
            if not nodes[follower].waits_for:
                heapq.heappush(ready, ticket(follower))
    return done


def _gaps(chain: Sequence[Entry], *, late: bool) -> Iterable[tuple[Place, Refused]]:
    first = chain[0]
    begins = first.rev - first.writes + 1
    wanted = _FIRST_REVISIONS.get(first.entity, (0,))
    if begins not in wanted and not late:
        yield place(first), _missing(wanted[0], begins)
    for former, latter in pairwise(chain):
        begins = latter.rev - latter.writes + 1
        if begins != former.rev + 1:
            yield place(latter), _missing(former.rev + 1, begins)


def _missing(wanted: int, found: int) -> Refused:
    what = (
        "was not noted"
        if found > wanted
        else "is there twice: two writes did not see each other"
    )
    return Refused(
        JOURNAL,
        expected=f"revision {wanted}",
        seen=f"revision {found}: revision {min(wanted, found)} {what}",
    )
