"""The command line, and a database for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobfence import SqlJobStore
from tests.cli.support import Runner


@pytest.fixture(autouse=True)
def _no_database_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JOBFENCE_URL", raising=False)


@pytest.fixture
def jobfence(capsys: pytest.CaptureFixture[str]) -> Runner:
    return Runner(capsys)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
def store(url: str) -> Iterator[SqlJobStore]:
    """Give a store with its tables made."""
    store = SqlJobStore(url)
    store.ensure_ready()
    yield store
    store.close()
