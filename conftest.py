"""Hypothesis profiles, and the databases that this run tests on."""

import os

from pathlib import Path

import pytest

from hypothesis import HealthCheck, settings
from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError

pytest_plugins = ["tests.measuring"]

CI = os.environ.get("CI") == "true"

# PyMySQL reads all certificates of the system for every connection, 24 ms of CPU, and no
# test verifies one. Inherited by the processes that tests start.
os.environ.setdefault("SSL_CERT_FILE", os.devnull)

# One statement may take any time on a busy machine: no deadline, no "too slow".
settings.register_profile("dev", deadline=None, max_examples=50, stateful_step_count=30)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=200,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "deep",
    deadline=None,
    max_examples=300,
    stateful_step_count=100,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if CI else "dev"))

# Name: the variable that names the server, and where one is looked for without it.
SERVERS = {
    "postgresql": (
        "JOBFENCE_TEST_POSTGRESQL_URL",
        "postgresql+psycopg://postgres@127.0.0.1:5432/test",
    ),
    "mariadb": (
        "JOBFENCE_TEST_MARIADB_URL",
        "mariadb+pymysql://root@127.0.0.1:3306/test",
    ),
}
SERVER_URLS = pytest.StashKey[dict[str, str]]()


def pytest_configure(config: pytest.Config) -> None:
    """
    Find the servers, once.

    A variable set to nothing leaves its database out. One that names a server which
    does not answer ends the run, and so does, with CI=true, a server that is missing:
    a run that silently tests less than it says is worse than none.
    """
    found: dict[str, str] = {}
    config.stash[SERVER_URLS] = found
    for name, (variable, default_url) in SERVERS.items():
        given_url = os.environ.get(variable)
        if given_url == "":
            continue
        url = given_url or default_url
        problem = why_not_reached(url)
        if problem is None:
            found[name] = url
        elif given_url or CI:
            pytest.exit(
                f"{name} does not answer: {problem}\n"  # no URL: it may hold a password
                f"Start it, or set {variable} to its URL, or to nothing to leave it out.",
                returncode=pytest.ExitCode.USAGE_ERROR,
            )


def why_not_reached(url: str) -> str | None:
    """Connect once, waiting a second at most; what went wrong, or None."""
    try:
        engine = create_engine(url, connect_args={"connect_timeout": 1})
    except (ImportError, SQLAlchemyError) as error:  # no driver, or no such URL
        return str(error)
    try:
        engine.connect().close()
    except SQLAlchemyError as error:
        return str(error).partition("\n")[0]
    finally:
        engine.dispose()
    return None


def pytest_report_header(config: pytest.Config) -> str:
    """Say which databases are tested, and which are not."""
    found = config.stash[SERVER_URLS]
    missing = [name for name in SERVERS if name not in found]
    header = "databases: " + ", ".join(["sqlite", *found])
    return header + (f" (not on: {', '.join(missing)})" if missing else "")


@pytest.fixture(scope="session")
def database_urls(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """
    Give SQLAlchemy's URL of each database of this run by name.

    "sqlite" is always there, as one file for the session; "postgresql" and "mariadb"
    when their server answers. A test must share them: its own table prefix or schema.
    """
    file: Path = tmp_path_factory.mktemp("sqlite") / "jobfence.db"
    servers = request.config.stash[SERVER_URLS]
    return {"sqlite": f"sqlite:///{file}", **servers}
