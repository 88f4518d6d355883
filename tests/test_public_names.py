"""The names of `import jobfence`: all there, quick, and without SQLAlchemy."""

import ast
import subprocess
import sys

from pathlib import Path

import pytest

import jobfence


def ran(code: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


def declared() -> list[str]:
    """Return what type checkers see."""
    tree = ast.parse(Path(jobfence.__file__).read_text(encoding="utf-8"))
    return [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("jobfence.")
        for alias in node.names
    ]


def test_every_public_name_is_found_and_is_the_one_type_checkers_see() -> None:
    assert sorted(jobfence.__all__) == sorted([*declared(), "__version__"])
    tree = ast.parse(Path(jobfence.__file__).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("jobfence"):
            module = __import__(str(node.module), fromlist=["_"])
            for alias in node.names:
                assert getattr(jobfence, alias.name) is getattr(module, alias.name)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = jobfence.Nothing  # type: ignore[attr-defined]
    with pytest.raises(ImportError):
        exec("from jobfence import Nothing")  # noqa: S102  mypy would refuse the line


def test_dir_lists_names_that_were_not_used_yet() -> None:
    found = ran("import jobfence; print('SqlJobStore' in dir(jobfence))")
    assert found == "True"


@pytest.mark.parametrize(
    "code",
    [
        "import jobfence",
        "from jobfence import JobApp, Worker, MemoryJobStore, ManualClock, JobStore",
        "from jobfence.store import MemoryJobStore",
        "import jobfence.dispatch",
        "import jobfence.cli",
    ],
)
def test_sqlalchemy_is_imported_only_by_those_who_use_it(code: str) -> None:
    assert ran(f"{code}; import sys; print('sqlalchemy' in sys.modules)") == "False"


def test_the_orm_is_left_to_those_who_use_it() -> None:
    code = (
        "from jobfence import SqlJobStore; import sys\n"
        "store = SqlJobStore('sqlite://')\n"
        "with store.engine.begin() as transaction:\n"
        "    store.within(transaction).enqueue('job')\n"
        "print('sqlalchemy.orm' in sys.modules)"
    )
    assert ran(code) == "False"


def test_import_jobfence_imports_no_other_part_of_it() -> None:
    code = "import jobfence, sys; print(*(m for m in sys.modules if 'jobfence.' in m))"
    assert ran(code) == ""


EXTRAS = ("aiosqlite", "aiomysql", "greenlet", "hypothesis", "psycopg", "pymysql")


def test_sqlite_needs_no_extra() -> None:
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({(*EXTRAS, 'pytest', 'rich')}))\n"
        "from jobfence import JobApp, JobStatus\n"
        "app = JobApp('sqlite://')\n"
        "app.job('a')(lambda: None)\n"
        "app.enqueue('a')\n"
        "with app.running(): app.wait_idle(); found = app.store.counts()\n"
        "print(found[JobStatus.COMPLETED])\n"
    )
    assert ran(code) == "1"


def test_the_async_store_names_the_extra_that_it_lacks() -> None:
    code = (
        "import sys\n"
        "sys.modules['greenlet'] = None\n"
        "from jobfence import MissingDriver, SqlJobStore\n"
        "try:\n"
        "    from jobfence import AsyncSqlJobStore\n"
        "except MissingDriver as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        "AsyncSqlJobStore needs the driver greenlet, which is not installed; "
        "pip install 'jobfence[async]'\n"
    )
