"""A store that was used before a fork serves parent and child, each on its own."""

import sqlite3

import pytest

from sqlalchemy import make_url

from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.states import JobStatus
from tests.store.sql.races import tasks
from tests.store.sql.races.crew import in_processes
from tests.store.sql.races.place import Place

# Other processes write, with stores of their own.
pytestmark = pytest.mark.unnoted

JOBS = 40


def test_F68_F77_a_used_store_is_used_on_both_sides_of_a_fork(place: Place) -> None:
    """Cases F68, F77: the child has connections of its own, the parent keeps its."""
    ids = place.store().enqueue_many([JobRequest("job", [n]) for n in range(JOBS)])
    task = (tasks.use_on_both_sides_of_a_fork, (place.url, place.prefix))
    (forked,) = in_processes([task])
    assert sorted(forked.parent_claims + forked.child_claims) == sorted(ids)
    assert forked.child_claims
    assert forked.parent_connection == forked.connection_before
    assert forked.child_connection != forked.connection_before
    assert place.count(JobStatus.HANDED_OFF) == JOBS
    if place.database == "sqlite":
        connection = sqlite3.connect(make_url(place.url).database or "")
        (found,) = connection.execute("PRAGMA integrity_check").fetchone()
        connection.close()
        assert found == "ok"
