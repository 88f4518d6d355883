"""From what an author points at to a suite that pytest can collect."""

from collections.abc import Callable, Collection
from typing import cast

from jobfence.conformance.bench import StoreFactory
from jobfence.conformance.capabilities import ALL, Capability
from jobfence.conformance.suite import JobStoreSuite
from jobfence.store.contract import JobStore


def suite_for(adapter: object) -> type[JobStoreSuite]:
    """
    Return the suite of an adapter.

    It is a `JobStoreSuite` subclass, any class with `open_store` (and, if it likes,
    `capabilities`, `open_backdoor`, `drop_namespace`), or a function like
    `open_store`, which may have `capabilities` as an attribute.
    """
    if isinstance(adapter, type) and issubclass(adapter, JobStoreSuite):
        return adapter
    if isinstance(adapter, type) and hasattr(adapter, "open_store"):
        return type(f"Test{adapter.__name__}", (adapter, JobStoreSuite), {})
    return _of_function(cast("StoreFactory", adapter))


def _of_function(factory: StoreFactory) -> type[JobStoreSuite]:
    opened: Callable[..., JobStore] = factory
    have: Collection[Capability] = getattr(factory, "capabilities", ALL)

    def open_store(self: object, namespace: str, **settings: object) -> JobStore:  # noqa: ARG001
        return opened(namespace, **settings)

    name = getattr(factory, "__name__", "adapter")
    return type(
        f"Test{name}",
        (JobStoreSuite,),
        {"open_store": open_store, "capabilities": have},
    )
