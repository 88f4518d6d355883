"""What a policy makes of a queued row, and counters that are made when needed (C)."""

from collections.abc import Collection, Mapping

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


def is_full(tx: Tx, row: Row, counter: Row) -> bool:
    """Whether the counter of the row's stored key has no slot; by the cap of now (O1)."""
    cap = counter["max_concurrency"]
    if is_derived(str(counter["concurrency_key"])):
        cap = tx.policies(latest=True).of(str(row["queue"])).max_concurrent or cap
    return int(str(counter["active_count"])) >= int(str(cap))


def counters_for(
    tx: Tx, caps: Mapping[str, int], *, skip_locked: bool = False
) -> dict[str, Row]:
    """
    Lock the counters of these keys, making the missing ones (C3, C9).

    A derived one takes the cap given. With `skip_locked` those that somebody else holds
    are left out, and so are missing ones: to insert one may wait too.
    """
    missing = set() if skip_locked else lacking(tx, caps)
    if not missing:
        rows = locks.counter_rows(tx, caps, skip_locked=skip_locked)
        return {key: with_cap(tx, row, caps[key]) for key, row in rows.items()}
    found = {}
    for key in sorted(caps):
        # One by one: to make one between the locks of two others keeps the key order.
        if key in missing:
            found[key] = make(tx, key, caps[key])
        else:
            for row in locks.counter_rows(tx, [key]).values():
                found[key] = with_cap(tx, row, caps[key])
    return found


def counter_for(tx: Tx, key: str, cap: int) -> Row:
    """
    Lock one counter, making it if it is missing.

    Also if retention deletes it between the look and the lock (R1). Of several keys
    such a one is left out, for it could be made only against their order.
    """
    return counters_for(tx, {key: cap}).get(key) or make(tx, key, cap)


def make(tx: Tx, key: str, cap: int) -> Row:
    """
    Make and lock a counter that was missing, with its handed-off jobs as active (C9).

    Counted also when somebody else made it meanwhile: they could not see what this
    transaction has changed.
    """
    locked: dict[str, Row] = {}
    while not locked:  # else pruned again before it could be locked
        writes.make_counter(tx, key, cap)
        locked = locks.counter_rows(tx, [key])
    return _counted(tx, locked[key], cap)


def made_if_free(tx: Tx, caps: Mapping[str, int]) -> dict[str, Row]:
    """Make and lock missing counters, but for those that somebody else holds by now."""
    found = {}
    for key in sorted(caps):
        writes.make_counter(tx, key, caps[key])
        for row in locks.counter_rows(tx, [key], skip_locked=True).values():
            found[key] = _counted(tx, row, caps[key])
    return found


def _counted(tx: Tx, row: Row, cap: int) -> Row:
    """Give a locked counter the number of its handed-off jobs, and its cap."""
    key = str(row["concurrency_key"])
    active = held_count(tx, key)
    if active != row["active_count"]:
        statement = counters.set_active(tx.schema)
        writes.counter(tx, statement, key, "count", set_active=active)
    return with_cap(tx, {**row, "active_count": active}, cap)


def lacking(tx: Tx, keys: Collection[str]) -> set[str]:
    """Return the keys that have no counter."""
    known = tx.rows_in(counters.by_keys(tx.schema), counters.KEYS, keys)
    return set(keys) - {str(row["concurrency_key"]) for row in known}


def with_cap(tx: Tx, row: Row, cap: int) -> Row:
    """Give a locked derived counter its policy's cap (C3)."""
    key = str(row["concurrency_key"])
    if not is_derived(key) or row["max_concurrency"] == cap:
        return row
    writes.counter(tx, counters.set_cap(tx.schema), key, "set_cap", set_cap=cap)
    return {**row, "max_concurrency": cap}


def held_count(tx: Tx, key: str) -> int:
    """Count the handed-off jobs of a key (C5); right while its counter is locked."""
    row = tx.one(tx.latest(counters.held_counts(tx.schema, one=True)), at_key=key)
    return 0 if row is None else int(str(row["held"]))
