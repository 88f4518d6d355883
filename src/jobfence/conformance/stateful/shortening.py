"""
From a sequence that shows a difference to a short one that still shows it.

Hypothesis could shrink it too, and takes minutes where every step asks a database: it
shrinks choices, of which most change nothing. Here whole actions are left out first,
then the options of those that remain; each try is one run of the remaining actions.
A try that breaks in any other way is no shorter one: the difference found is kept.
"""

import time

from collections.abc import Iterator, Sequence
from dataclasses import replace

from jobfence.conformance.stateful.comparing import Divergence
from jobfence.conformance.stateful.pair import Action, Setting, play
from jobfence.conformance.stateful.twins import Request

BUDGET_S = 60.0
_NEEDED = {("reschedule", "delay_ms"), ("enqueue", "name")}


def shorten(
    setting: Setting, found: Divergence, *, budget_s: float = BUDGET_S
) -> Divergence:
    """Return the difference with the shortest way to it found within the time."""
    end = time.monotonic() + budget_s
    # Looked at after every single call, it may show at an earlier one.
    earlier = _tried(setting, _script(found)) if budget_s else None
    found = found if earlier is None else earlier
    best, progress = found, True
    while progress and time.monotonic() < end:
        progress = False
        for tried in _candidates(_script(best)):
            if time.monotonic() > end:
                break
            shorter = _tried(setting, tried)
            # Only the same kind of difference: not another one met on the way.
            if shorter is not None and shorter.is_like(found):
                if _size(shorter) >= _size(best):
                    continue
                best, progress = shorter, True
                break
    return best


def _tried(setting: Setting, script: Sequence[Action]) -> Divergence | None:
    try:
        return play(setting, script)
    except Exception:  # noqa: BLE001  of the store, of the model, of a call that lost too much
        return None


def _script(found: Divergence) -> list[Action]:
    return [each for each in found.script if isinstance(each, Action)]


def _size(found: Divergence) -> tuple[int, int]:
    script = _script(found)
    return len(script), sum(len(str(each)) for each in script)


def _candidates(script: Sequence[Action]) -> Iterator[list[Action]]:
    """Leave out ever smaller runs of actions, from the end; then single options."""
    first, rest = script[0], list(script[1:])
    length = len(rest) // 2
    while length:
        for start in range(len(rest) - length, -1, -length):
            yield [first, *rest[:start], *rest[start + length :]]
        length //= 2
    for index, action in enumerate(script):
        for simpler in _simpler(action):
            yield [*script[:index], simpler, *script[index + 1 :]]


def _simpler(action: Action) -> Iterator[Action]:
    kwargs = action.kwargs or {}
    for key in kwargs:
        less = {name: value for name, value in kwargs.items() if name != key}
        if (action.what, key) not in _NEEDED:
            yield replace(action, kwargs=less)
    if action.what == "open" and action.args != (None,):
        yield replace(action, args=(None,))
    if not action.args or not isinstance(items := action.args[-1], list):
        return
    for index, item in enumerate(items):
        yield replace(
            action, args=(*action.args[:-1], [*items[:index], *items[index + 1 :]])
        )
        if isinstance(item, Request):
            for key in item.options:
                less = {k: v for k, v in item.options.items() if k != key}
                plain = [
                    *items[:index],
                    replace(item, options=less),
                    *items[index + 1 :],
                ]
                yield replace(action, args=(*action.args[:-1], plain))
