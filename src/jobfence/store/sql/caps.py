"""What a policy makes of a queued row, and counters that are made when needed (C)."""

from collections.abc import Mapping

from jobfence.statemachine.policy import is_derived, resolve_concurrency
from jobfence.store.sql import locks, writes
from jobfence.store.sql.rows import Row
from jobfence.store.sql.statements import counters
from jobfence.store.sql.tx import Tx


def adopted(tx: Tx, row: Row) -> Row:
    """Return a queued row as its queue's present policy would have it (C8)."""
    policy = tx.policies(latest=True).of(str(row["queue"]))
    after = dict(row)
    key = row["concurrency_key"]
    if key is None or (isinstance(key, str) and is_derived(key)):
        concurrency = resolve_concurrency(str(row["queue"]), policy)
        after["concurrency_key"] = concurrency.key
        after["max_concurrency"] = concurrency.cap
    if not row["priority_explicit"]:
        after["priority"] = policy.priority
    return after


def differs(before: Row, after: Row) -> bool:
    """Whether adopting changes the row."""
    names = ("concurrency_key", "max_concurrency", "priority")
    return any(before[name] != after[name] for name in names)


def counters_for(
    tx: Tx, caps: Mapping[str, int], *, skip_locked: bool = False
) -> dict[str, Row]:
    """
    Lock the counters of these keys, making the missing ones (C3, C9).

    A derived one takes the cap given. With `skip_locked` those that somebody else holds
    are left out, and so are missing ones: to insert one may wait too.
    """
    known = tx.run(counters.by_keys(tx.schema), in_keys=sorted(caps)).mappings().all()
    present = {str(row["concurrency_key"]) for row in known}
    made = set()
    for key in [] if skip_locked else sorted(set(caps) - present):
        if writes.make_counter(tx, key, caps[key]):
            made.add(key)
    rows = locks.counter_rows(tx, caps, skip_locked=skip_locked)
    return {
        key: _corrected(tx, row, caps[key], made=key in made)
        for key, row in rows.items()
    }


def _corrected(tx: Tx, row: Row, cap: int, *, made: bool) -> Row:
    """Give a locked counter the handed-off jobs, or the policy's cap, if it lacks them."""
    key, after = str(row["concurrency_key"]), dict(row)
    if made:
        after["active_count"] = held_count(tx, key)
        if after["active_count"] != row["active_count"]:
            writes.counter(
                tx,
                counters.set_active(tx.schema),
                key,
                "count",
                set_active=after["active_count"],
            )
    if is_derived(key) and row["max_concurrency"] != cap:
        writes.counter(tx, counters.set_cap(tx.schema), key, "set_cap", set_cap=cap)
        after["max_concurrency"] = cap
    return after


def held_count(tx: Tx, key: str) -> int:
    """Count the handed-off jobs of a key (C5); right while its counter is locked."""
    row = tx.one(tx.latest(counters.held_counts(tx.schema, one=True)), at_key=key)
    return 0 if row is None else int(str(row["held"]))


def make_missing(tx: Tx, key: object, cap: object) -> None:
    """Make the counter of a key that has none, from its handed-off jobs."""
    if not (isinstance(key, str) and isinstance(cap, int)):
        return
    if not tx.rows(counters.by_keys(tx.schema), in_keys=[key]):
        counters_for(tx, {key: cap})
