"""The bounds of a slice, read from the very configuration that TLC reads."""

import re

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.catalogue import SPEC
from runner.values import parse_value

_NUMBER = re.compile(r"\b(Retries|MaxHandoffs|Bound) = (\d+)")
_SET = re.compile(r"\b(\w+) = (\{[^}]*\})")
QUEUE: Final = "q"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """
    What MC.tla makes of a configuration: which jobs, which keys, which actions.

    The maps have an entry only for the ids that have such a key.
    """

    name: str
    ids: tuple[int, ...]
    key_of: Mapping[int, str]
    schedule_key_of: Mapping[int, str]
    identity_of: Mapping[int, str]
    idempotency_key_of: Mapping[int, str]
    retries: int
    caps: tuple[int, ...]
    max_handoffs: int
    bound: int
    features: frozenset[str]

    def on(self, feature: str) -> bool:
        """Whether this part of the queue takes part."""
        return feature in self.features


def read_slice(name: str, folder: Path = SPEC / "models") -> Slice:
    """Read a configuration of module MC."""
    text = (folder / f"{name}.cfg").read_text()
    numbers = {key: int(value) for key, value in _NUMBER.findall(text)}
    sets = {key: _elements(value) for key, value in _SET.findall(text)}
    if sets["Queues"] != frozenset({QUEUE}):
        raise ValueError(f"{name}: Queues is {sets['Queues']}, must be {{{QUEUE!r}}}")

    def by_id(**groups: str) -> Mapping[int, str]:
        return {
            int(job): word
            for group, word in reversed(groups.items())
            for job in sets[group]
        }

    return Slice(
        name=name,
        ids=tuple(sorted(int(each) for each in sets["Ids"])),
        key_of=by_id(OnA="A", OnB="B"),
        schedule_key_of=by_id(OnS="S", OnT="T"),
        identity_of=by_id(SameWork="work", OtherWork="other work"),
        idempotency_key_of=by_id(SameRequest="request"),
        retries=numbers["Retries"],
        caps=tuple(sorted(int(each) for each in sets["Caps"])),
        max_handoffs=numbers["MaxHandoffs"],
        bound=numbers["Bound"],
        features=frozenset(str(each) for each in sets["Features"]),
    )


def _elements(text: str) -> frozenset[int | str]:
    found = parse_value(text)
    assert isinstance(found, frozenset)
    return frozenset(each for each in found if isinstance(each, int | str))
