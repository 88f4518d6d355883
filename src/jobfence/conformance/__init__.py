"""
The executable contract of a job store, for authors of adapters.

    from jobfence.conformance import ALL, Capability, JobStoreSuite

    class TestMyStore(JobStoreSuite):
        def open_store(self, namespace, *, clock, queues, lease_ms, retry_policy,
                       max_handoffs=None):
            return MyStore(...)

Needs pytest and Hypothesis (`jobfence[conformance]`), and no SQLAlchemy.
"""

import functools
import importlib
import sys

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobfence.conformance.bench import Backdoor
    from jobfence.conformance.blocking import blocking
    from jobfence.conformance.capabilities import ALL, Capability
    from jobfence.conformance.model import DataBackdoor, Model
    from jobfence.conformance.stateful.machine import run_stateful
    from jobfence.conformance.suite import JobStoreSuite

SUITE_VERSION = "1.0"

_HOMES = {
    "ALL": "capabilities",
    "Backdoor": "bench",
    "Capability": "capabilities",
    "DataBackdoor": "model",
    "JobStoreSuite": "suite",
    "Model": "model",
    "blocking": "blocking",
    "run_stateful": "stateful.machine",
}

__all__ = [
    "ALL",
    "SUITE_VERSION",
    "Backdoor",
    "Capability",
    "DataBackdoor",
    "JobStoreSuite",
    "Model",
    "blocking",
    "run_stateful",
]


def __getattr__(name: str) -> object:
    """
    Import a name when it is first used.

    pytest must hear which modules' assertions to rewrite before they are imported, and
    whoever has the plugin installed must not pay for Hypothesis in every run.
    """
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    rewrite_assertions()
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Name what is imported when it is first used as well."""
    return sorted({*globals(), *__all__})


@functools.cache
def rewrite_assertions() -> None:
    """Have pytest rewrite the suite's assertions, those not imported before."""
    import pytest  # noqa: PLC0415  only for those who run the suite

    for each in ("matrix", "picture", "bench", "examples"):
        if f"{__name__}.{each}" not in sys.modules:
            pytest.register_assert_rewrite(f"{__name__}.{each}")
