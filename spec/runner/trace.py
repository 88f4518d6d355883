"""Condenses a counterexample: each step's action and only what it changed."""

import re

from collections.abc import Iterator

from runner.values import Value, differences, parse_value

_STATE = re.compile(
    r"^State (\d+): (?:<(Initial predicate|\w+)[^>]*>|(Stuttering))\n(.*?)(?=^\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
_LOOP = re.compile(r"^(?:State \d+: )?Back to state (\d+): <(\w+)", re.MULTILINE)
_VARIABLE = re.compile(
    r"^(?:/\\ )?(\w+) = (.*?)(?=^/\\ \w+ =|\Z)", re.MULTILINE | re.DOTALL
)


def condense(output: str) -> str:
    """Return TLC's counterexample with one short paragraph for each state."""
    lines: list[str] = []
    before: dict[str, Value] = {}
    for match in _STATE.finditer(output):
        number, action, stuttering, body = match.groups()
        if stuttering:
            lines.append(f"{number:>3} (stays like this for ever)")
            continue
        state = {name: parse_value(text) for name, text in _VARIABLE.findall(body)}
        lines.append(f"{number:>3} {'Init' if action.startswith('Init') else action}")
        lines += [f"      {change}" for change in _changes(before, state)]
        before = state
    lines += [
        f"    back to {number} by {action}" for number, action in _LOOP.findall(output)
    ]
    return "\n".join(lines)


def _changes(before: dict[str, Value], after: dict[str, Value]) -> Iterator[str]:
    rows: dict[str, list[str]] = {}
    for name, value in after.items():
        for path, change in differences(before.get(name, value), value, name):
            row, dot, field = path.rpartition(".")
            if name != "tx" or field == "at":
                rows.setdefault(row or path, []).append(
                    f"{field} {change}" if dot else change
                )
    for row, changes in rows.items():
        yield f"{row}: {', '.join(changes)}"
