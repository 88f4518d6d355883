"""Certify a store without a test file: the backend of `jobfence conform`."""

import tempfile

from collections.abc import Sequence
from pathlib import Path

import hypothesis
import pytest

_PROFILE = "jobfence"
_SETTINGS = """[pytest]
filterwarnings = ignore::pytest.PytestAssertRewriteWarning
"""


def run(
    adapter: object,
    report: str | Path | None = None,
    *,
    seed: int = 0,
    arguments: Sequence[str] = (),
) -> int:
    """
    Run the suite: 0 if everything holds, 1 if something does not, 2 if it cannot run.

    `adapter` is `package.module:name` or the object itself (see `suite_for`); by its
    name is better: it is imported late enough for pytest to explain assertions.
    `report` is a .html or .json file to write. With one `seed` the same sequences are
    tried in every run. `arguments` go to pytest.
    """
    hypothesis.settings.register_profile(_PROFILE, database=None, derandomize=False)
    given = ["--job-report", str(Path(report).absolute())] if report else []
    with tempfile.TemporaryDirectory() as scratch:
        # The settings of whatever project this is called in are not the suite's.
        settings = Path(scratch, "pytest.ini")
        settings.write_text(_SETTINGS, encoding="utf-8")
        code = pytest.main(
            [
                *("-c", str(settings), "--rootdir", scratch),
                *("-p", "jobfence.conformance.plugin", "-p", "no:cacheprovider"),
                "--noconftest",
                # -qq: the summary is the plugin's, which counts a test once.
                *("-qq", "--no-header", "--tb=no", "-rN"),
                *("--pyargs", "jobfence.conformance"),
                *(f"--hypothesis-profile={_PROFILE}", f"--hypothesis-seed={seed}"),
                *given,
                *arguments,
            ],
            plugins=[_Given(adapter)],
        )
    if code == pytest.ExitCode.OK:
        return 0
    return 1 if code == pytest.ExitCode.TESTS_FAILED else 2


class _Given:
    """Hands the adapter to the plugin, by its name or as the object it is."""

    def __init__(self, adapter: object) -> None:
        self._adapter = adapter

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        config.option.job_adapter = self._adapter
