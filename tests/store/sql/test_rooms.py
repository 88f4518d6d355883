"""What each database's errors mean to the store."""

import sqlite3

import psycopg
import pymysql  # type: ignore[import-untyped]
import pytest

from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from jobfence.statemachine.errors import RetryableError
from jobfence.store.dialects.base import Fault, Room
from jobfence.store.dialects.rooms import room_for
from tests.store.sql.bench import World, only
from tests.store.sql.faults import sqlite_error


def wrapped(error: BaseException, *, invalidated: bool = False) -> DBAPIError:
    return DBAPIError(None, None, error, connection_invalidated=invalidated)


def of_server(number: int) -> Exception:
    error: Exception = pymysql.err.OperationalError(number, "said the server")
    return error


Case = tuple[BaseException, bool, Fault]
ERRORS: dict[str, list[Case]] = {
    "sqlite://": [
        (sqlite_error("locked", sqlite3.SQLITE_BUSY), False, Fault.RETRY),
        (sqlite_error("locked", sqlite3.SQLITE_BUSY_SNAPSHOT), False, Fault.RETRY),
        (
            sqlite_error("key", sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY),
            False,
            Fault.DUPLICATE,
        ),
        (sqlite_error("check", sqlite3.SQLITE_CONSTRAINT_CHECK), False, Fault.OTHER),
        (sqlite_error("syntax", sqlite3.SQLITE_ERROR), False, Fault.OTHER),
        (sqlite_error("disk", sqlite3.SQLITE_IOERR_WRITE), False, Fault.UNAVAILABLE),
        (sqlite3.ProgrammingError("of the driver"), False, Fault.OTHER),
    ],
    "postgresql+psycopg://": [
        (psycopg.errors.DeadlockDetected(), False, Fault.RETRY),
        (psycopg.errors.UniqueViolation(), False, Fault.DUPLICATE),
        (psycopg.errors.UndefinedTable(), False, Fault.SCHEMA),
        (psycopg.errors.ReadOnlySqlTransaction(), False, Fault.UNAVAILABLE),
        (psycopg.errors.AdminShutdown(), False, Fault.LOST),
        (psycopg.OperationalError("gone"), True, Fault.LOST),
        (psycopg.OperationalError("no server"), False, Fault.UNAVAILABLE),
        (psycopg.errors.ConnectionFailure(), False, Fault.UNAVAILABLE),
        (psycopg.errors.CheckViolation(), False, Fault.OTHER),
    ],
    "mysql+pymysql://": [
        (of_server(1213), False, Fault.RETRY),
        (of_server(1062), False, Fault.DUPLICATE),
        (of_server(1146), False, Fault.SCHEMA),
        (of_server(1045), False, Fault.UNAVAILABLE),
        (of_server(2013), True, Fault.LOST),
        (pymysql.err.InterfaceError(0, ""), True, Fault.LOST),
        (pymysql.err.InterfaceError(0, ""), False, Fault.OTHER),
        (pymysql.err.InternalError(), False, Fault.OTHER),
        (of_server(4025), False, Fault.OTHER),
    ],
}


def room_of(url: str) -> Room:
    return room_for(make_url(url).get_dialect()())


@pytest.mark.parametrize("url", ERRORS)
def test_an_error_is_told_by_its_code(url: str) -> None:
    room = room_of(url)
    for error, invalidated, fault in ERRORS[url]:
        assert room.fault(wrapped(error, invalidated=invalidated)) is fault, error


def test_a_message_is_one_line_in_the_servers_words() -> None:
    mysql = room_of("mysql+pymysql://")
    assert mysql.message(wrapped(of_server(1049))) == "said the server"
    no_words = wrapped(pymysql.err.InterfaceError(0, ""))
    assert mysql.message(no_words) == "(0, '')"
    other = room_of("sqlite://")
    assert other.message(wrapped(sqlite3.Error("two\n  lines"))) == "two lines"


@only("postgresql", "mariadb")
def test_an_error_that_means_nothing_to_the_store_comes_as_it_is(world: World) -> None:
    store = world.store(ids=lambda: "an id that is too long" * 100)
    with pytest.raises(DBAPIError, match="too long"):
        store.enqueue("job")
    assert world.statuses() == {}


def test_M19_handoff_ids_that_are_not_unique_are_found_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    store = world.store(handoff_ids=lambda: "always the same")
    one, two = store.enqueue("one"), store.enqueue("two")
    assert [each.job.id for each in store.claim()] == [one]
    with pytest.raises(RetryableError):
        store.claim()
    with pytest.raises(RetryableError):
        store.claim_job(two)
    assert world.statuses() == {one: "handed_off", two: "queued"}
