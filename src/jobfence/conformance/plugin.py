"""
The pytest plugin: `--job-adapter`, `--job-report`, and a summary that names rules.

Loaded in every run of whoever has jobfence installed, so it imports nothing of the
suite until one of its options is given or the suite is used.
"""

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobfence.conformance import rewrite_assertions

if TYPE_CHECKING:
    from jobfence.conformance.results import Results

_ADAPTER = pytest.StashKey[object]()
_RESULTS: "pytest.StashKey[Results]" = pytest.StashKey()
_config: list[pytest.Config] = []  # the module that is collected cannot be given it


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two options."""
    group = parser.getgroup("jobfence", "conformance of job stores")
    group.addoption(
        "--job-adapter",
        metavar="PACKAGE.MODULE:NAME",
        help="the store to certify, with --pyargs jobfence.conformance",
    )
    group.addoption(
        "--job-report",
        metavar="FILE",
        help="write the results to this .html or .json file",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Have assertions rewritten, load the adapter, and begin to collect results."""
    rewrite_assertions()
    _config.append(config)
    given = config.getoption("--job-adapter")
    report = config.getoption("--job-report")
    if report and Path(report).suffix not in (".html", ".json"):
        raise pytest.UsageError(f"--job-report must end in .html or .json: {report}")
    if given is None and not report:
        return
    if getattr(config.option, "dist", "no") != "no":
        raise pytest.UsageError(
            "--job-adapter and --job-report collect results in one process: leave out "
            "-n of pytest-xdist"
        )
    from jobfence.conformance.loading import NoAdapter, load  # noqa: PLC0415
    from jobfence.conformance.results import Results  # noqa: PLC0415

    config.stash[_RESULTS] = Results(
        given if isinstance(given, str) else "",
        seed=config.getoption("--hypothesis-seed", None),
    )
    if given is not None:
        try:
            config.stash[_ADAPTER] = load(given) if isinstance(given, str) else given
        except NoAdapter as problem:
            raise pytest.UsageError(f"no store to test: {problem}") from problem


def pytest_unconfigure() -> None:
    """Forget the run."""
    _config.pop()


def chosen_adapter() -> object:
    """Return what `--job-adapter` named, or None."""
    return _config[-1].stash.get(_ADAPTER, None) if _config else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Say of a test that does not end where it is."""
    terminal = item.config.pluginmanager.get_plugin("terminalreporter")
    if _RESULTS not in item.config.stash or terminal is None:
        return (yield)
    from jobfence.conformance.watch import watched  # noqa: PLC0415

    def say(text: str) -> None:
        terminal.ensure_newline()
        terminal.write_line(text)
        terminal.flush()

    with watched(item.name, say):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember what a test of the suite found."""
    report = yield
    results = item.config.stash.get(_RESULTS, None)
    if results is not None:
        results.add(item, call, report)
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say each fault in a few lines, and write the report."""
    results = config.stash.get(_RESULTS, None)
    if results is None:
        return
    terminalreporter.section("conformance")
    for line in results.lines():
        terminalreporter.write_line(line)
    if report := config.getoption("--job-report"):
        from jobfence.conformance.report import write  # noqa: PLC0415

        write(results, Path(report))
        terminalreporter.write_line(f"report: {report}")
