"""Bad URLs, servers, files and options: one clear sentence, a type, nothing written."""

import asyncio
import importlib.util
import os
import secrets
import stat

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL, make_url

from jobfence.statemachine.errors import (
    IncompatibleSchema,
    InvalidOption,
    JobfenceError,
    MissingDriver,
    StoreUnavailable,
)
from jobfence.statemachine.policy import QueuePolicy
from jobfence.store import AsyncSqlJobStore, SqlJobStore
from jobfence.store.dialects.rooms import room_for
from tests.store.sql.bench import Database, World, only


def sentence(error: BaseException) -> str:
    """Return an error's message, which must be one line without a traceback."""
    text = str(error)
    assert text
    assert "\n" not in text
    assert "Traceback" not in text
    return text


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "must be a database URL"),
        ("jobs.db", "must be a database URL"),
        ("oracle://u@h/d", "mariadb, mysql, postgresql, sqlite"),
        ("redis://localhost", "mariadb, mysql, postgresql, sqlite"),
        ("sqlite+nothing:///jobs.db", "driver SQLAlchemy lacks"),
        (None, "must be a database URL"),
        (5, "must be a database URL"),
        (b"sqlite://", "must be a database URL"),
        (Path("/tmp/jobs.db"), "must be a database URL"),  # noqa: S108
    ],
)
def test_a_url_that_is_none_is_refused(url: Any, words: str) -> None:
    with pytest.raises(InvalidOption, match=words) as refusal:
        SqlJobStore(url)
    assert refusal.value.option == "url"
    sentence(refusal.value)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite://h/jobs.db?password=SESAME", "Invalid SQLite URL"),
        ("sqlite://u:SESAME@/jobs.db", "Invalid SQLite URL"),
        ("sqlite:///jobs.db?timeout=long", "could not convert string to float"),
        ("postgresql://u:SESAME@/d?host=a,b&port=1", "number of hosts and ports"),
        ("mysql://u:SESAME@h/d?read_timeout=long", "invalid literal for int"),
    ],
)
def test_a_url_that_its_driver_cannot_use_is_refused(url: str, words: str) -> None:
    for kind in (SqlJobStore, AsyncSqlJobStore):
        with pytest.raises(InvalidOption, match=words) as refusal:
            kind(url)
        assert refusal.value.option == "url"
        assert "SESAME" not in sentence(refusal.value)
        assert refusal.value.__cause__ is None, "it may hold the password"


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        ("nonsense=1", "'nonsense'"),
        ("ssl_ca=/nowhere", "No such file"),
        (f"ssl_ca={__file__}", "no certificate"),
    ],
)
def test_a_url_whose_driver_refuses_it_only_when_it_connects(
    parameter: str, words: str
) -> None:
    store = SqlJobStore(f"mysql://u:SESAME@127.0.0.1:9/d?{parameter}")
    for call in (store.counts, store.ensure_ready, lambda: store.enqueue("job")):
        with pytest.raises(InvalidOption, match=words) as refusal:
            call()
        assert "SESAME" not in sentence(refusal.value)


@pytest.mark.parametrize(
    ("where", "words"),
    [("127.0.0.1:9/d?nonsense=1", "'nonsense'"), ("127.0.0.1:99999/d", "port must be")],
)
def test_the_same_of_an_async_driver(where: str, words: str) -> None:
    async def ask() -> None:
        store = AsyncSqlJobStore(f"mysql://u:SESAME@{where}")
        with pytest.raises(InvalidOption, match=words) as refusal:
            await store.counts()
        assert "SESAME" not in sentence(refusal.value)
        await store.close()

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("parameter", "words"),
    [("mode=none", "access mode"), ("cache=none", "cache mode"), ("vfs=no", "vfs")],
)
def test_what_a_url_asks_of_sqlite_in_vain_is_told(
    tmp_path: Path, parameter: str, words: str
) -> None:
    store = SqlJobStore(f"sqlite:///file:{tmp_path}/jobs.db?{parameter}&uri=true")
    for call in (store.counts, store.ensure_ready, lambda: store.enqueue("job")):
        with pytest.raises(StoreUnavailable, match=f"no such {words}") as refusal:
            call()
        sentence(refusal.value)
    assert list(tmp_path.iterdir()) == []


@only("mariadb")
@pytest.mark.parametrize(
    ("parameter", "words"),
    [("sql_mode", "sql_mode"), ("init_command", "error in your SQL syntax")],
)
def test_what_a_url_asks_of_mariadb_in_vain_is_told(
    database: Database, parameter: str, words: str
) -> None:
    url = make_url(database.url).update_query_dict({parameter: "none"})
    store = SqlJobStore(url)
    for call in (store.counts, store.ensure_ready, lambda: store.enqueue("job")):
        with pytest.raises(StoreUnavailable, match=words) as refusal:
            call()
        sentence(refusal.value)


@pytest.mark.parametrize(
    ("url", "driver", "extra"),
    [
        ("postgresql://u:secret@h/d", "psycopg", "postgresql"),
        ("mysql://u:secret@h/d", "pymysql", "mariadb"),
        ("mariadb://u:secret@h/d", "pymysql", "mariadb"),
    ],
)
def test_a_missing_driver_is_named_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, url: str, driver: str, extra: str
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingDriver) as refusal:
        SqlJobStore(url)
    assert (refusal.value.driver, refusal.value.extra) == (driver, extra)
    text = sentence(refusal.value)
    assert f"pip install 'jobfence[{extra}]'" in text
    assert "secret" not in text


def test_another_driver_that_is_not_installed_is_named() -> None:
    with pytest.raises(
        InvalidOption, match="pg8000, which is not installed"
    ) as refusal:
        SqlJobStore("postgresql+pg8000://u:secret@h/d")
    assert "secret" not in sentence(refusal.value)


def test_an_engine_of_another_database_is_refused() -> None:
    class Elsewhere:
        name = "oracle"

    with pytest.raises(InvalidOption, match="sqlite, postgresql, mariadb or mysql"):
        room_for(Elsewhere())  # type: ignore[arg-type]


def elsewhere(world_of: Database, **parts: Any) -> URL:
    return make_url(world_of.url).set(**parts)


def unavailable(url: URL) -> StoreUnavailable:
    store = SqlJobStore(url)
    try:
        with pytest.raises(StoreUnavailable) as failure:
            store.enqueue("thumbnail")
        with pytest.raises(StoreUnavailable):
            store.counts()
    finally:
        store.close()
    assert not failure.value.in_doubt
    sentence(failure.value)
    return failure.value


@only("postgresql", "mariadb")
def test_a_server_that_cannot_be_reached_says_so(database: Database) -> None:
    failure = unavailable(elsewhere(database, host="127.0.0.1", port=1))
    assert "127.0.0.1" in str(failure)


@only("postgresql", "mariadb")
def test_a_database_that_is_not_there_is_named(database: Database) -> None:
    failure = unavailable(elsewhere(database, database="jf_nowhere"))
    assert "jf_nowhere" in str(failure)


@only("postgresql", "mariadb")
def test_a_user_who_may_not_enter_is_named_and_the_password_is_not(
    database: Database,
) -> None:
    failure = unavailable(
        elsewhere(database, username="jf_nobody", password="jf_secret")  # noqa: S106
    )
    assert "jf_nobody" in str(failure)
    assert "jf_secret" not in str(failure)


@pytest.mark.parametrize("scheme", ["postgresql", "mariadb"])
@pytest.mark.parametrize(
    "place",
    [
        "ann@srv:sesame@127.0.0.1:9/db",
        "u:open sesame@127.0.0.1:9/db",
        "u:open@sesame@127.0.0.1:9/db",
        "u:open@sesame/x@127.0.0.1:9/db",
    ],
)
def test_no_part_of_a_password_is_shown_however_it_was_read(
    scheme: str, place: str
) -> None:
    failure = unavailable(make_url(f"{scheme}://{place}"))
    assert ":***@127.0.0.1:9/db did not do it: " in str(failure)
    assert "sesame" not in str(failure)


def test_a_password_among_the_parameters_is_not_shown() -> None:
    given = "127.0.0.1:9/db?password=sesame"
    failure = unavailable(make_url(f"postgresql://{given}"))
    assert "127.0.0.1:9/db?password=*** did not do it: " in str(failure)
    with pytest.raises(InvalidOption) as refusal:
        SqlJobStore(f"postgresql+no://{given}")
    assert refusal.value.value == "postgresql+no://127.0.0.1:9/db?password=***"


def closed_directory(tmp_path: Path) -> Path:
    return tmp_path / "nowhere" / "jobs.db"


def a_directory(tmp_path: Path) -> Path:
    return tmp_path


def not_a_database(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.db"
    path.write_bytes(b"This is a letter, not a database. " * 100)
    return path


def cut_short(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.db"
    with_jobs(path)
    path.write_bytes(path.read_bytes()[:5000])
    return path


def with_jobs(path: Path) -> None:
    store = SqlJobStore(f"sqlite:///{path}")
    store.enqueue("thumbnail")
    with store.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").all()
    store.close()


@pytest.mark.parametrize(
    "damage", [closed_directory, a_directory, not_a_database, cut_short]
)
def test_a_file_that_is_no_database_is_unavailable(
    tmp_path: Path, damage: Callable[[Path], Path]
) -> None:
    path = damage(tmp_path)
    before = path.read_bytes() if path.is_file() else None
    failure = unavailable(make_url(f"sqlite:///{path}"))
    assert f"the database sqlite:///{path} did not do it" in str(failure)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_file_that_may_not_be_written_can_still_be_read(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with_jobs(path)
    before = path.read_bytes()
    # A read-only connection stands for a read-only file: the superuser may write any.
    store = SqlJobStore(f"sqlite:///file:{path}?mode=ro&uri=true")
    try:
        assert len(store.list_jobs()) == 1
        for write in (lambda: store.enqueue("thumbnail"), store.claim):
            with pytest.raises(StoreUnavailable, match="readonly") as failure:
                write()
            sentence(failure.value)
    finally:
        store.close()
    assert path.read_bytes() == before


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write any file"
)
def test_a_read_only_file_refuses_to_be_written(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with_jobs(path)
    path.chmod(stat.S_IRUSR)
    store = SqlJobStore(f"sqlite:///{path}")
    with pytest.raises(StoreUnavailable, match="readonly"):
        store.enqueue("thumbnail")
    store.close()


class Nothing:
    """An object without any method that a store could want."""


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("queues", ["media"]),
        ("queues", {"media": 3}),
        ("queues", {"": QueuePolicy()}),
        ("queues", {"a": QueuePolicy(), " a": QueuePolicy()}),
        ("clock", 5),
        ("clock", Nothing()),
        ("lease_ms", 0),
        ("lease_ms", -1),
        ("lease_ms", 1.5),
        ("lease_ms", True),
        ("lease_ms", "60000"),
        ("lease_ms", 2**31),
        ("retry_policy", 5),
        ("retry_policy", Nothing()),
        ("max_handoffs", 0),
        ("max_handoffs", True),
        ("max_handoffs", "3"),
        ("journal", 1),
        ("journal", None),
        ("table_prefix", ""),
        ("table_prefix", "1st"),
        ("table_prefix", "jobs; DROP TABLE users"),
        ("table_prefix", "x" * 31),
        ("table_prefix", "prefix\n"),
        ("table_prefix", None),
        ("table_prefix", ["jobs_"]),
        ("table_prefix", b"jobs_"),
        ("schema", ""),
        ("schema", 5),
        ("schema", ["s"]),
        ("schema", "s\0"),
        ("ids", 5),
        ("handoff_ids", "fixed"),
    ],
)
def test_E1_a_bad_option_of_the_store_is_named_and_nothing_is_opened(
    tmp_path: Path, option: str, value: Any
) -> None:
    path = tmp_path / "jobs.db"
    with pytest.raises(InvalidOption) as refusal:
        SqlJobStore(f"sqlite:///{path}", **{option: value})
    assert refusal.value.option.startswith(option)
    assert option in sentence(refusal.value)
    assert not path.exists()


def test_an_unknown_option_is_a_mistake_of_the_callers() -> None:
    with pytest.raises(TypeError, match="lease"):
        SqlJobStore("sqlite://", lease=5)  # type: ignore[call-arg]


def test_S4_only_a_flag_says_whether_to_create(world: World) -> None:
    for wrong in (1, None, "no"):
        with pytest.raises(InvalidOption, match="create"):
            world.store().ensure_ready(create=wrong)  # type: ignore[arg-type]


@only("mariadb")
def test_a_connection_that_counts_changed_rows_is_refused(world: World) -> None:
    found_rows = 2  # CLIENT.FOUND_ROWS
    engine = create_engine(world.database.url)

    @event.listens_for(engine, "do_connect")
    def connect(_: object, __: object, ___: object, parameters: dict[str, Any]) -> None:
        parameters["client_flag"] &= ~found_rows

    for create in (True, False):
        with pytest.raises(IncompatibleSchema, match=r"CLIENT\.FOUND_ROWS"):
            world.store(engine).ensure_ready(create=create)
    store = world.store(engine)
    for _ in range(2):
        with pytest.raises(IncompatibleSchema, match=r"CLIENT\.FOUND_ROWS"):
            store.enqueue("thumbnail")
    with (
        pytest.raises(IncompatibleSchema, match=r"CLIENT\.FOUND_ROWS"),
        engine.begin() as connection,
    ):
        store.within(connection).enqueue("thumbnail")
    engine.dispose()
    assert world.rows(world.tables.locks) == []
    assert world.statuses() == {}


@contextmanager
def reader(world: World) -> Iterator[URL]:
    """Lend the URL of a user who may read the database and nothing else."""
    url = make_url(world.database.url)
    name, password = f"{world.prefix}reader", secrets.token_hex(8)
    world.sql(f"CREATE USER '{name}'@'%%' IDENTIFIED BY '{password}'")
    try:
        world.sql(f"GRANT SELECT ON `{url.database}`.* TO '{name}'@'%%'")
        yield url.set(username=name, password=password)
    finally:
        world.sql(f"DROP USER '{name}'@'%%'")


@only("mariadb")
def test_a_user_who_may_only_read_can_read(world: World) -> None:
    job_id = world.store().enqueue("thumbnail")
    with reader(world) as url:
        store = SqlJobStore(url, table_prefix=world.prefix)
        try:
            store.ensure_ready(create=False)
            store.ensure_ready()
            assert [job.id for job in store.list_jobs()] == [job_id]
            assert sum(store.counts().values()) == 1
            with store.engine.connect() as connection:
                assert store.within(connection).get(job_id) is not None
            with pytest.raises(StoreUnavailable, match="denied") as failure:
                store.enqueue("refused")
            sentence(failure.value)
        finally:
            store.close()
    assert list(world.statuses()) == [job_id]


@only("mariadb")
def test_a_user_who_may_only_read_can_read_on_an_event_loop(world: World) -> None:
    job_id = world.store().enqueue("thumbnail")

    async def read(url: URL) -> None:
        store = AsyncSqlJobStore(
            url.set(drivername="mariadb"), table_prefix=world.prefix
        )
        try:
            await store.ensure_ready(create=False)
            assert [job.id for job in await store.list_jobs()] == [job_id]
            async with store.engine.connect() as connection:
                assert await store.within(connection).get(job_id) is not None
            with pytest.raises(StoreUnavailable, match="denied"):
                await store.enqueue("refused")
        finally:
            await store.close()

    with reader(world) as url:
        asyncio.run(read(url))
    assert list(world.statuses()) == [job_id]


@only("mariadb")
def test_a_server_that_cuts_values_silently_is_refused(world: World) -> None:
    engine = create_engine(world.database.url)

    @event.listens_for(engine, "connect")
    def connect(driver: Any, _: object) -> None:
        with driver.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = 'ANSI_QUOTES'")

    with pytest.raises(IncompatibleSchema, match="STRICT_TRANS_TABLES"):
        world.store(engine).enqueue("thumbnail")
    engine.dispose()
    assert world.statuses() == {}


@only("mariadb")
@pytest.mark.parametrize(
    ("version", "mariadb", "oldest"),
    [
        ((10, 5, 22), True, "10.6 or newer, which has SKIP LOCKED"),
        ((10, 3), True, "10.6 or newer"),
        # It has SKIP LOCKED and enforces CHECKs, but lacks the collation.
        ((8, 0, 16), False, "8.0.17 or newer, which has utf8mb4_0900_bin"),
        ((5, 7, 44), False, "8.0.17 or newer"),
    ],
)
def test_F73_a_server_that_lacks_what_is_needed_is_refused(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    version: tuple[int, ...],
    mariadb: bool,  # noqa: FBT001  a value of the test
    oldest: str,
) -> None:
    url = make_url(world.database.url)
    engine = create_engine(url.set(drivername="mysql+pymysql"))
    engine.connect().close()
    monkeypatch.setattr(engine.dialect, "server_version_info", version)
    monkeypatch.setattr(engine.dialect, "is_mariadb", mariadb)
    with pytest.raises(IncompatibleSchema) as refusal:
        world.store(engine).ensure_ready()
    assert f"needs {oldest}" in sentence(refusal.value)
    assert ".".join(map(str, version)) in str(refusal.value)
    engine.dispose()


def test_every_error_of_the_library_has_one_base() -> None:
    for error in (InvalidOption, MissingDriver, StoreUnavailable, IncompatibleSchema):
        assert issubclass(error, JobfenceError)
