"""Places on each database, and the figures that the runs leave behind."""

import itertools
import os

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sqlalchemy import make_url

from tests.store.sql.races.place import Place, PlaceFactory

DATABASES = ("sqlite", "postgresql", "mariadb")
SERVERS = ("postgresql", "mariadb")
ROUNDS = 25
FIGURES = pytest.StashKey[list[str]]()
Note = Callable[..., None]

_numbers = itertools.count(1)


def _url(database: str, urls: dict[str, str], tmp_path: Path, prefix: str) -> str:
    if database not in urls:
        pytest.skip(f"{database} does not answer")
    if database == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    url = make_url(urls[database])
    if database == "postgresql":
        # By this the server tells which of its sessions are this run's.
        url = url.update_query_dict({"application_name": prefix})
    return url.render_as_string(hide_password=False)


@pytest.fixture
def new_place(
    request: pytest.FixtureRequest, database_urls: dict[str, str], tmp_path: Path
) -> Iterator[PlaceFactory]:
    """Make places without tables on the database of this test; dropped at the end."""
    database: str = request.param
    made: list[Place] = []

    def make() -> Place:
        prefix = f"rc{os.getpid()}_{next(_numbers)}_"
        url = _url(database, database_urls, tmp_path, prefix)
        made.append(Place(database, url, prefix, journal=_noted(request)))
        return made[-1]

    yield make
    try:
        for place in made:
            place.judge()
    finally:
        for place in made:
            place.drop()
            place.close()


@pytest.fixture(scope="session")
def _servers() -> Iterator[dict[str, Place]]:
    """Keep one set of tables on each server: to make them costs more than a test."""
    places: dict[str, Place] = {}
    yield places
    for place in places.values():
        place.drop()
        place.close()


@pytest.fixture
def place(
    request: pytest.FixtureRequest,
    database_urls: dict[str, str],
    tmp_path: Path,
    _servers: dict[str, Place],
) -> Iterator[Place]:
    """Give an empty place whose tables are there."""
    database: str = request.param
    prefix = f"rc{os.getpid()}_"
    place = Place(database, _url(database, database_urls, tmp_path, prefix), prefix)
    if database in SERVERS:
        place = _servers.setdefault(database, place)
    place.journal = _noted(request)
    place.make_tables()
    place.troubles.seen.clear()
    yield place
    try:
        place.judge()
    finally:
        place.close()


def _noted(request: pytest.FixtureRequest) -> bool:
    """Whether a test writes by the store alone: its journal is then judged at the end."""
    return request.node.get_closest_marker("unnoted") is None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """
    Run each test on every database.

    A test marked `servers` is about row locks, which SQLite does not have.
    """
    for name in ("place", "new_place"):
        if name in metafunc.fixturenames:
            only = metafunc.definition.get_closest_marker("on")
            databases = DATABASES if only is None else only.args
            metafunc.parametrize(name, databases, indirect=True)
    if "rounds" in metafunc.fixturenames:
        deep = pytest.param(1000, marks=pytest.mark.deep)
        metafunc.parametrize("rounds", [ROUNDS, deep])


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Note:
    """Keep figures for the end of the run: `note(rounds=150, deadlocks=0)`."""
    lines = request.config.stash.setdefault(FIGURES, [])

    def keep(**figures: object) -> None:
        told = ", ".join(f"{name} {value}" for name, value in figures.items())
        lines.append(f"{request.node.name}: {told}")

    return keep


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures in a verbose run."""
    lines = terminalreporter.config.stash.get(FIGURES, [])
    if lines and terminalreporter.config.get_verbosity() > 0:
        terminalreporter.section("races")
        for line in lines:
            terminalreporter.line(line)
