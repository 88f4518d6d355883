"""Condenses a counterexample: each step's action and only what it changed."""

import re

from collections.abc import Iterator, Mapping

from runner.values import Value, differences, parse_value, show

State = Mapping[str, Value]

_STATE = re.compile(
    r"^State (\d+): (?:<(Initial predicate|\w+)[^>]*>|(Stuttering))\n(.*?)(?=^\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
_LOOP = re.compile(r"^(?:State \d+: )?Back to state (\d+): <(\w+)", re.MULTILINE)
_VARIABLE = re.compile(
    r"^(?:/\\ )?(\w+) = (.*?)(?=^/\\ \w+ =|\Z)", re.MULTILINE | re.DOTALL
)
_STATUS_FIRST = ("status", "handoff", "handoffs", "attempts", "owner")


def condense(output: str) -> str:
    """Return TLC's counterexample with a line for each step and each row it changed."""
    lines: list[str] = []
    before: State = {}
    for match in _STATE.finditer(output):
        number, action, stuttering, body = match.groups()
        if stuttering:
            lines.append(f"{number:>3} stays like this for ever")
            continue
        state = {name: parse_value(text) for name, text in _VARIABLE.findall(body)}
        by = _client(before, state)
        name = "Init" if action.startswith("Init") else action
        lines.append(f"{number:>3} {name}{by}")
        lines += [f"      {change}" for change in _changes(before, state)]
        before = state
    for number, action in _LOOP.findall(output):
        lines.append(f"    back to {number} by {action}")
    if "Deadlock reached" in output:
        lines += [f"    {waiting}" for waiting in _waiting(before)]
    return "\n".join(lines)


def _client(before: State, after: State) -> str:
    """Name the client whose transaction moved; the statement's name says how."""
    old, new = before.get("tx"), after.get("tx")
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return ""
    moved = [show(client) for client in new if old.get(client) != new[client]]
    return f" ({', '.join(moved)})" if moved else ""


def _waiting(state: State) -> Iterator[str]:
    transactions = state.get("tx")
    if isinstance(transactions, Mapping):
        for client, transaction in transactions.items():
            if isinstance(transaction, Mapping):
                yield f"deadlock: {show(client)} waits at: {transaction.get('at')}"


def _changes(before: State, after: State) -> Iterator[str]:
    for name, value in after.items():
        if name not in before or name in ("tx", "committing"):
            continue
        rows: dict[str, dict[str, str]] = {}
        for path, change in differences(before[name], value, name):
            row, dot, field = path.rpartition(".")
            rows.setdefault(row or path, {})[field if dot else ""] = change
        for row, fields in rows.items():
            yield f"{row}: {', '.join(_in_order(fields))}"


def _in_order(fields: Mapping[str, str]) -> Iterator[str]:
    first = [field for field in _STATUS_FIRST if field in fields]
    for field in (*first, *sorted(fields.keys() - set(first))):
        yield f"{field} {fields[field]}".strip()
