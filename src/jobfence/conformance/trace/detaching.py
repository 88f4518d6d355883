"""
When a replaced owner was detached: what no revision says.

A replacement that finds its owner running reads that job and writes nothing to it (K2).
It was then handed off, so the replacement comes after a claim of it and before the
write that next took it out of its worker's hands.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from jobfence.conformance.trace.entries import BadEntry, Entry
from jobfence.statemachine.states import JobStatus
from jobfence.store.notes import Entity

Chains: TypeAlias = Mapping[tuple[str, str], Sequence[Entry]]
# What it was taken by, if that was noted, and given back by, if it was.
_Held: TypeAlias = tuple[Entry | None, Entry | None]


def detachments(chains: Chains) -> Iterator[tuple[str, str]]:
    """Return pairs of transactions, the earlier first."""
    for (entity, _), chain in chains.items():
        if entity != Entity.SCHEDULE_KEY.value:
            continue
        for former, latter in pairwise(chain):
            owner = _value(former, "job_id")
            if owner is None or owner == _value(latter, "job_id"):
                continue
            job = chains.get((Entity.JOB.value, str(owner)), ())
            if all(entry.tx != latter.tx for entry in job):
                yield from _beside(latter, _when_held(job))


def _beside(detaching: Entry, times: Sequence[_Held]) -> Iterator[tuple[str, str]]:
    """
    Put it into one of the times in which the job was held.

    The first one that had not ended by the clocks: within a millisecond the first one is
    always possible, for a replacement waits for nothing that the job does.
    """
    possible = [
        held for held in times if held[1] is None or held[1].at_ms >= detaching.at_ms
    ]
    for taken, given_back in possible[:1] or times[-1:]:
        if taken is not None:
            yield taken.tx, detaching.tx
        if given_back is not None:
            yield detaching.tx, given_back.tx


def _when_held(job: Sequence[Entry]) -> list[_Held]:
    found: list[_Held] = []
    taken: Entry | None = None
    # One whose first write is not its first revision may have been held before.
    held = bool(job) and job[0].rev - job[0].writes + 1 > 0
    for entry in job:
        now = _value(entry, "status") == JobStatus.HANDED_OFF.value
        if now and not held:
            taken = entry
        elif held and not now:
            found.append((taken, entry))
            taken = None
        held = now
    return [*found, (taken, None)] if held else found


def _value(entry: Entry, name: str) -> object:
    try:
        return entry.values().get(name)
    except BadEntry:  # said by the replay, at its place
        return None
