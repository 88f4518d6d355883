"""Several processes open the same new database at one moment (S1)."""

import sqlite3

from functools import partial

import pytest

from sqlalchemy import inspect, make_url

from jobfence.store.dialects.rooms import room_for
from jobfence.store.sql.readiness import look
from jobfence.store.sql.schema import VERSION
from tests.store.sql.races import tasks
from tests.store.sql.races.crew import in_processes, together
from tests.store.sql.races.place import Place, PlaceFactory

# Other processes write, with stores of their own.
pytestmark = pytest.mark.unnoted

PROCESSES = 8


def test_F67_F85_eight_processes_make_the_tables_at_once(
    new_place: PlaceFactory,
) -> None:
    """Cases F67, F85: all return, nothing is there twice, all of it is there."""
    place = new_place()
    task = (tasks.make_tables, (place.url, place.prefix))
    ids = [job_id for job_id, _troubles in in_processes([task] * PROCESSES)]
    assert_complete(place)
    assert set(place.jobs()) == set(ids)
    assert len(set(ids)) == PROCESSES
    if place.database == "sqlite":
        # A plain connection, which sets nothing itself: the file keeps its mode.
        connection = sqlite3.connect(make_url(place.url).database or "")
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        connection.close()
        assert mode == "wal"


def test_A26_threads_of_several_stores_make_the_tables_at_once(
    new_place: PlaceFactory,
) -> None:
    """Case A26: three stores, three threads each; one may already be at work."""
    place = new_place()
    stores = [place.store() for _ in range(3)]
    together(
        *[store.ensure_ready for store in stores for _ in range(3)],
        *[partial(store.enqueue, "job") for store in stores],
    )
    assert_complete(place)
    assert len(place.jobs()) == 3


def assert_complete(place: Place) -> None:
    ledger = place.rows(place.tables.migrations)
    assert sorted(row["version"] for row in ledger) == list(range(1, VERSION + 1))
    with place.looking.connect() as connection:
        room = room_for(connection.dialect)
        assert look(connection, place.tables, room).complete
        found = inspect(connection).get_table_names()
    wanted = place.tables.tables_for(place.looking.dialect.name)
    assert sorted(name for name in found if name.startswith(place.prefix)) == sorted(
        table.name for table in wanted
    )
