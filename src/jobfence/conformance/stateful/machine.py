"""
Layer (c): the machine, as a function that anyone can run.

Two instances of the store and two of the model work under one manual clock. After
every step the answers, the wake-ups and the whole state are compared, read through the
instance that did not make the step. Jobs and handoffs are never used up, so stale,
repeated and misdirected calls come by themselves.
"""

from collections.abc import Collection

import hypothesis

from hypothesis import HealthCheck, Phase
from hypothesis.stateful import run_state_machine_as_test

from jobfence.conformance import driven
from jobfence.conformance.base import SuiteBase, new_namespace
from jobfence.conformance.bench import Backdoor, StoreFactory
from jobfence.conformance.capabilities import ALL, Capability
from jobfence.conformance.stateful.comparing import Divergence
from jobfence.conformance.stateful.keeping import Keeping
from jobfence.conformance.stateful.pair import Setting
from jobfence.conformance.stateful.shortening import BUDGET_S, shorten


class StoreMachine(Keeping):
    """All the rules."""


def run_stateful(
    factory: StoreFactory,
    *,
    settings: hypothesis.settings | None = None,
    capabilities: Collection[Capability] = ALL,
    backdoor: Backdoor | None = None,
    namespace: str | None = None,
    shortening_s: float = BUDGET_S,
) -> None:
    """
    Drive a store beside the model; `Divergence` has the shortest way to a difference.

    `settings` says how many examples of how many steps; left out, the profile in
    force. The namespace is cleared before each example. At most `shortening_s` seconds
    go into finding a shorter way.
    """
    setting = Setting(factory, namespace or new_namespace(), capabilities, backdoor)

    class Here(StoreMachine):
        def __init__(self) -> None:
            super().__init__(setting)

    try:
        run_state_machine_as_test(Here, settings=settings or usual_settings())
    except Divergence as found:
        difference = found
    else:
        return
    raise shorten(setting, difference, budget_s=shortening_s)


def usual_settings() -> hypothesis.settings:
    """Return the profile in force, without Hypothesis's own shrinking."""
    return hypothesis.settings(
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.reuse, Phase.generate],
    )


class Stateful(SuiteBase):
    """Layer (c) of the suite."""

    # None: the profile that is in force.
    stateful_settings: hypothesis.settings | None = None

    def test_every_method_does_what_the_model_does(self, namespace: str) -> None:
        """All rules of the core, C, K, O and R at once, in sequence."""
        given = self.stateful_settings or usual_settings()
        driven.plan(given.max_examples, given.stateful_step_count)
        run_stateful(
            self.open_store,
            settings=given,
            capabilities=self.capabilities,
            backdoor=self.open_backdoor(namespace),
            namespace=namespace,
        )
