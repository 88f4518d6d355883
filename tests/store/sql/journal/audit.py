"""Judging the journal that a test's store has written."""

from jobfence.conformance.trace import Entry, Impossible, Verdict, check
from jobfence.store import SqlJobStore
from jobfence.store.sql.auditing import snapshot


def entries_of(store: SqlJobStore) -> list[Entry]:
    """Return the journal without the row about itself, by row and revision."""
    with snapshot(store) as seen:
        found = [Entry.from_row(row) for row in seen.entries()]
    return [each for each in found if each.entity != "journal"]


def verdict_of(store: SqlJobStore) -> Verdict:
    """Judge the journal and the tables."""
    with snapshot(store) as seen:
        return check([Entry.from_row(row) for row in seen.entries()], seen)


def assert_possible(store: SqlJobStore) -> Verdict:
    """Judge them, and fail with what was not possible."""
    verdict = verdict_of(store)
    assert verdict.ok, verdict.impossible
    return verdict


def refused(store: SqlJobStore) -> Impossible:
    """Judge them, and return what was not possible."""
    found = verdict_of(store).impossible
    assert found is not None, "nothing was found"
    return found


def noted(store: SqlJobStore, entity: str, entity_id: str) -> list[tuple[int, str]]:
    """Return the revisions and actions of one row."""
    return [
        (each.rev, each.action)
        for each in entries_of(store)
        if each.key == (entity, entity_id)
    ]
