"""Counters against the jobs that moved beside them (rules C3, C4, C5, R1)."""

from jobfence.conformance.trace.entries import Entry, Values
from jobfence.conformance.trace.facts import Facts, Happened
from jobfence.conformance.trace.rows import number
from jobfence.conformance.trace.verdict import Refused
from jobfence.store.notes import Action

# What sets the number from the jobs instead of counting on.
_RECOUNTS = {Action.CREATE, Action.COUNT, Action.REPAIR}
_CAPS = {Action.CREATE, Action.SET_CAP}
_KNOWN = {*_RECOUNTS, *_CAPS, Action.RESERVE, Action.RELEASE}


def check_counter(
    entry: Entry,
    before: Values | None,
    after: Values | None,
    happened: Happened,
    *,
    known: bool,
) -> None:
    """
    Judge one write of a counter; `known` says that `before` is what it was.

    That the number is right in the end is `check_held`'s; this is about the way.
    """
    key = entry.entity_id
    if entry.action == Action.DELETE:
        _check_delete(before)
        return
    assert after is not None
    actions = set(entry.actions)
    strange = actions - _KNOWN
    if strange:
        raise Refused(
            "C4", expected="a write that counters have", seen=" and ".join(strange)
        )
    if known and (before is None) is not (Action.CREATE in actions):
        there = "none" if before is None else "one"
        raise Refused(
            "C3", expected="`create` exactly where there is no counter", seen=there
        )
    joined, left = happened.joined[key], happened.left[key]
    _check_pair(actions, Action.RESERVE, joined, "handed off")
    _check_pair(actions, Action.RELEASE, left, "leaving")
    if Action.RESERVE in actions:
        _check_cap(after)
    if before is not None:
        _check_change(actions, before, after, joined - left)


def _check_delete(before: Values | None) -> None:
    active = 0 if before is None else before["active_count"]
    if active != 0:
        raise Refused("R1", expected="a counter at 0 to be deleted", seen=str(active))


def _check_pair(actions: set[str], action: Action, jobs: int, what: str) -> None:
    """Refuse a slot without its job, and a job without its slot."""
    if action in actions and not jobs:
        raise Refused(
            "C4",
            expected=f"{action} only with a job of this key {what}",
            seen="none in this transaction",
        )
    if jobs and not actions & {action, *_RECOUNTS}:
        raise Refused(
            "C4",
            expected=f"{action}, for {jobs} of this key {what}",
            seen="+".join(sorted(actions)),
        )


def _check_cap(after: Values) -> None:
    active, cap = number(after, "active_count"), number(after, "max_concurrency")
    if active > cap:
        raise Refused(
            "C4", expected=f"at most {cap} active after a claim", seen=str(active)
        )


def _check_change(
    actions: set[str], before: Values, after: Values, change: int
) -> None:
    was, now = number(before, "active_count"), number(after, "active_count")
    if not actions & _RECOUNTS and now != was + change:
        raise Refused(
            "C4", expected=f"active {was + change}, from {was}", seen=f"active {now}"
        )
    if Action.REPAIR in actions and now == was:
        raise Refused(
            "C9",
            expected="a repair only of a counter that is wrong",
            seen=f"one that was {was}, as it must be: somebody else has written it",
        )
    if not actions & _CAPS and before["max_concurrency"] != after["max_concurrency"]:
        raise Refused(
            "C3",
            expected=f"cap still {before['max_concurrency']}",
            seen=f"cap {after['max_concurrency']}",
        )


def check_held(key: str, facts: Facts, *, known: bool) -> None:
    """C5: at every commit a counter is the handed-off jobs of its key."""
    counter, held = facts.counters.get(key), facts.held[key]
    if counter is None:
        if held and known:
            raise Refused("C5", expected=f"a counter of {held}", seen="none")
        return
    active = number(counter, "active_count")
    if active != held:
        raise Refused(
            "C5",
            expected=f"active {held}: so many jobs of this key are handed off",
            seen=f"active {active}",
        )
