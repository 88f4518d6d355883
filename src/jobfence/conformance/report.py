"""The report of a run as one JSON or HTML file that needs nothing else."""

import json

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from jobfence.conformance.results import Results
from jobfence.conformance.words import grouped, of_sequences

_STYLE = """
:root { --ok: #1a7f37; --bad: #c4281c; --meh: #8a6d00; --line: #d5d9de; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2126; margin: 2rem auto;
  max-width: 62rem; padding: 0 1.2rem; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
.sub { color: #5a646e; margin: 0 0 1.2rem; }
.verdict { display: inline-block; font-weight: 650; padding: .35rem .8rem;
  border-radius: .4rem; color: #fff; background: var(--ok); }
.rules { display: flex; flex-wrap: wrap; gap: .3rem; align-items: center; }
.rules b { width: 1.2rem; } .rules + .rules { margin-top: .3rem; }
.rule { font: 13px ui-monospace, monospace; padding: .1rem .45rem; border-radius: .3rem;
  color: #fff; background: var(--ok); text-decoration: none; }
.rule.failed { background: var(--bad); outline: 2px solid #000; }
.rule.missing, .rule.skipped { background: #fff; color: var(--meh);
  box-shadow: inset 0 0 0 1px var(--meh); }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; padding: .25rem .6rem .25rem 0; vertical-align: top;
  border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.fault { border: 1px solid var(--bad); border-radius: .5rem; padding: .6rem 1rem;
  margin: .8rem 0; }
.fault h3 a { color: inherit; }
.fault h3 { margin: 0 0 .4rem; font-size: 1rem; color: var(--bad); }
code, pre, .steps td { font: 13px/1.45 ui-monospace, monospace; }
pre { white-space: pre-wrap; margin: .3rem 0; overflow-wrap: anywhere; }
.steps td { overflow-wrap: anywhere; } .steps tr:last-child td { background: #fdeceb; }
.passed { color: var(--ok); } .failed { color: var(--bad); }
.verdict.failed { background: var(--bad); color: #fff; }
.rule.failed, .rule.passed { color: #fff; }
.missing, .skipped, .works { color: var(--meh); }
summary { cursor: pointer; font-weight: 600; margin: 1.5rem 0 .5rem; }
"""


def write(results: Results, path: Path) -> None:
    """Write the report; the file's ending says as what."""
    found = results.as_json()
    text = (
        json.dumps(found, indent=1, ensure_ascii=False) + "\n"
        if path.suffix == ".json"
        else page(found)
    )
    path.write_text(text, encoding="utf-8")


def page(found: dict[str, Any]) -> str:
    """Return the HTML page of a report."""
    title = f"{found['store']}: conformance {found['suite']}"
    return (
        "<!doctype html>\n<html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width'>"
        f"<title>{escape(title)}</title><style>{_STYLE}</style>\n"
        + "\n".join(
            [
                *_head(found),
                *_faults(found),
                *_rules(found),
                *_capabilities(found),
                *_left_out(found),
                *_layers(found),
                *_seeded(found),
                *_coverage(found),
                *_tests(found),
            ]
        )
        + "\n</html>\n"
    )


def _head(found: dict[str, Any]) -> Iterator[str]:
    failed = found["summary"].get("failed", 0)
    tests = len(found["tests"])
    verdict = f"{failed} of {tests} tests failed" if failed else f"{tests} tests passed"
    if not failed and (rest := tests - found["summary"].get("passed", 0)):
        verdict = f"{tests - rest} tests passed, {rest} left out"
    yield f"<h1>{escape(found['store'])}</h1>"
    yield (
        f"<p class=sub>conformance suite {escape(found['suite'])} · jobfence "
        f"{escape(found['jobfence'])} · Python {escape(found['python'])} · "
        f"{escape(found['began'])} · {found['seconds']:.1f} s</p>"
    )
    yield f"<p class='verdict {'failed' if failed else ''}'>{verdict}</p>"


def _faults(found: dict[str, Any]) -> Iterator[str]:
    groups = grouped(
        [each for each in found["tests"] if each["outcome"] == "failed"],
        lambda each: (each["layer"], each["name"], each.get("says", "")),
    )
    if groups:
        yield "<h2>What is wrong</h2>"
    for failed in groups:
        each, more = failed[0], len(failed) - 1
        name = each["name"]
        links = [f"<a href='#rule-{rule}'>{rule}</a>" for rule in each["rules"]]
        title = f" {escape(name)}" + (f" · and {more} more like it" if more else "")
        yield f"<div class=fault><h3>{', '.join(links)}{title}</h3>"
        if each.get("steps"):
            yield "<table class=steps><tr><th>#<th>step<th>the model answers"
            for number, step in enumerate(each["steps"], 1):
                call, answer = escape(step["call"]), escape(step["answer"])
                yield f"<tr><td class=n>{number}<td>{call}<td>{answer}"
            yield "</table>"
            yield "".join(f"<pre>{escape(line)}</pre>" for line in each["differences"])
        else:
            yield f"<pre>{escape(each.get('says', ''))}</pre>"
        yield "</div>"


def _rules(found: dict[str, Any]) -> Iterator[str]:
    yield "<h2>Rules</h2>"
    letters = dict.fromkeys(rule[0] for rule in found["rules"])
    for letter in letters:
        yield f"<div class=rules><b>{letter}</b>"
        for rule, ends in found["rules"].items():
            if rule[0] == letter:
                told = ", ".join(f"{number} {end}" for end, number in ends.items())
                yield (
                    f"<span class='rule {_verdict(ends)}' id=rule-{rule} "
                    f"title='{told}'>{rule}</span>"
                )
        yield "</div>"


def _verdict(ends: dict[str, int]) -> str:
    """Return failed, passed, or skipped if most of a rule's tests were left out."""
    if "failed" in ends:
        return "failed"
    judged = ends.get("passed", 0) + ends.get("works", 0)
    return "passed" if judged * 2 >= sum(ends.values()) else "skipped"


def _left_out(found: dict[str, Any]) -> Iterator[str]:
    """Say why tests were left out."""
    if found["left_out"]:
        yield "<h2>Left out</h2><table><tr><th>why<th class=n>tests"
        for reason, number in found["left_out"].items():
            yield f"<tr><td>{escape(reason)}<td class=n>{number}"
        yield "</table>"


def _capabilities(found: dict[str, Any]) -> Iterator[str]:
    yield "<h2>Capabilities</h2><table>"
    for name, each in found["capabilities"].items():
        said = "yes" if each["declared"] else f"no: {each['reason']}"
        if each["works_though_missing"]:
            said += " (but it works)"
        if each["declared"] and not each["tested"]:
            said = "declared, not tested"
        kind = "passed" if each["tested"] else "missing"
        yield (
            f"<tr><td><code>{name}</code><td>{escape(each['meaning'])}"
            f"<td class={kind}>{escape(said)}"
        )
    yield "</table>"


def _layers(found: dict[str, Any]) -> Iterator[str]:
    yield "<h2>Layers</h2><table><tr><th>layer<th class=n>tests<th class=n>failed"
    yield "<th class=n>seconds"
    for name, each in found["layers"].items():
        yield (
            f"<tr><td>{escape(name)}<td class=n>{each['tests']:.0f}"
            f"<td class=n>{each['failed']:.0f}<td class=n>{each['seconds']:.1f}"
        )
    yield "</table>"
    if found["sequences"]:
        yield f"<p class=sub>{escape(of_sequences(found['sequences']))}</p>"


def _seeded(found: dict[str, Any]) -> Iterator[str]:
    """Say whether the suite found the faults that were put in to try it."""
    if "seeded_faults" in found:
        number = found["seeded_faults"]["number"]
        survived = found["seeded_faults"]["survived"]
        kind = "failed" if survived else "passed"
        told = ", ".join(survived) or "none"
        yield (
            f"<h2>Seeded faults</h2><p>{number} put in on purpose, {len(survived)} "
            f"survived: <span class={kind}>{escape(told)}</span></p>"
        )


def _coverage(found: dict[str, Any]) -> Iterator[str]:
    """Show which rows of the table were driven, and what was tried in which state."""
    edges, states = found["coverage"]["edges"], found["coverage"]["states"]
    driven = sum(bool(number) for number in edges.values())
    if not driven:
        return
    yield f"<h2>Coverage: {driven} of {len(edges)} transitions</h2>"
    yield "<p class=sub>By the matrix and the sequences, the store and the model being "
    yield "compared. What needs damaged data is left to single tests.</p>"
    yield "<div class=rules>"
    for name, number in edges.items():
        kind = "" if number else " missing"
        yield f"<span class='rule{kind}' title='{number} times'>{escape(name)}</span>"
    yield "</div><p></p><table><tr><th>tried when the job is"
    statuses = list(next(iter(states.values())))
    yield "".join(f"<th class=n>{escape(status)}" for status in statuses)
    for trigger, by_status in states.items():
        yield f"<tr><td><code>{escape(trigger)}</code>"
        yield "".join(
            f"<td class='n{'' if number else ' missing'}'>{number}"
            for number in by_status.values()
        )
    yield "</table>"


def _tests(found: dict[str, Any]) -> Iterator[str]:
    yield "<details><summary>All tests</summary><table>"
    for each in found["tests"]:
        yield (
            f"<tr><td class={each['outcome']}>{each['outcome']}"
            f"<td>{escape(', '.join(each['rules']))}<td>{escape(each['name'])}"
            f"<td>{escape(each.get('reason', ''))}"
        )
    yield "</table></details>"
