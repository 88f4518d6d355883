"""A difference is shown by few steps, and is shown whatever happens on the way there."""

import itertools

from typing import Any

import pytest

from jobfence.conformance.stateful.comparing import Divergence
from jobfence.conformance.stateful.pair import Action, Pair, Setting
from jobfence.conformance.stateful.shortening import shorten
from jobfence.statemachine.errors import InvalidOption
from jobfence.store import MemoryJobStore
from jobfence.store.memory.data import MemoryData

BAD = Action(0, "enqueue", (), {"name": "mail", "scheduled_at": 1.5})


DATA = MemoryData()


class TakesAnyTime(MemoryJobStore):
    def enqueue(self, *args: Any, **options: Any) -> str:
        try:
            return super().enqueue(*args, **options)
        except InvalidOption:
            return super().enqueue("mail")


def takes_any_time(namespace: str, **settings: Any) -> MemoryJobStore:
    return TakesAnyTime(data=DATA, **settings)


def found_by(setting: Setting, *actions: Action) -> Divergence:
    pair = Pair(setting)
    pair.do(Action(0, "open", (None,)))
    for each in actions[:-1]:
        pair.do(each)
    with pytest.raises(Divergence) as found:
        pair.do(actions[-1])
    pair.close()
    return found.value


def test_no_step_loses_what_its_call_cannot_do_without() -> None:
    setting = Setting(takes_any_time, "n")
    found = found_by(setting, Action(0, "clock", (1,)), BAD)
    short = shorten(setting, found)
    assert [call for call, _ in short.steps] == [
        "store1.open(None)",
        "store1.enqueue(name='mail', scheduled_at=1.5)",
    ]


def test_a_store_that_breaks_on_a_shorter_way_leaves_the_difference_as_it_was() -> None:
    opened = itertools.count()

    def opens_twice(namespace: str, **settings: Any) -> MemoryJobStore:
        if next(opened) >= 2:
            raise RuntimeError("no third connection")
        return takes_any_time(namespace, **settings)

    setting = Setting(opens_twice, "n")
    found = found_by(setting, Action(0, "clock", (1,)), BAD)
    assert shorten(setting, found) is found
