"""A model cannot stop checking what the spec claims that it checks."""

import dataclasses
import functools
import re

from collections.abc import Callable
from pathlib import Path

import pytest

from runner import kept, tlc
from runner.catalogue import SPEC, Catalogue, Model, Negative, load_catalogue
from runner.check import idle_actions
from runner.checks import Checks, checks_of as read_checks, named_in, narrowing
from runner.claims import COVERED, STATEMENTS, promised, unkept_claims
from runner.report import Line
from runner.rows import action_names, read_rows

from tests.spec.test_refusals import edited, run_in

CATALOGUE = load_catalogue()
checks_of = functools.cache(read_checks)
README = (SPEC / "README.md").read_text()


def checking_less(names: set[str], *models: str) -> Checks:
    """Checks as they are, but that these models (all, if none is named) lack some."""
    return lambda model: (
        checks_of(model) - (names if model.name in models or not models else set())
    )


def changed(
    change: Callable[[Model], Model | None], catalogue: Catalogue = CATALOGUE
) -> Catalogue:
    """The catalogue with its models changed, or without those that become None."""
    models = {model.name: change(model) for model in catalogue.models}
    negatives = [
        dataclasses.replace(each, base=models[each.base.name] or each.base)
        for each in catalogue.negatives
    ]
    return Catalogue(
        tuple(model for model in models.values() if model), tuple(negatives)
    )


def test_all_that_is_claimed_is_checked() -> None:
    assert unkept_claims(CATALOGUE) == ()


@pytest.mark.parametrize("negative", CATALOGUE.negatives, ids=lambda each: each.name)
def test_what_a_planted_fault_breaks_is_checked_by_its_own_model(
    negative: Negative,
) -> None:
    base = negative.base
    name = negative.breaks or "deadlock"
    catalogue = changed(
        lambda model: (
            dataclasses.replace(model, deadlock=False)
            if model == base and negative.code == tlc.DEADLOCK
            else model
        )
    )
    found = unkept_claims(catalogue, checking_less({name}, base.name))
    assert (
        f"planted fault {negative.name}: it breaks {name}, which its model "
        f"{base.name} does not check"
    ) in found


def test_a_fault_that_breaks_nothing_is_named() -> None:
    first = dataclasses.replace(CATALOGUE.negatives[0], breaks="")
    catalogue = dataclasses.replace(CATALOGUE, negatives=(first,))
    assert f"planted fault {first.name}: it breaks nothing, which its model " in (
        "\n".join(unkept_claims(catalogue))
    )


@pytest.mark.parametrize("name", ["Refines", "LocksHeld", "deadlock"])
@pytest.mark.parametrize(
    "model",
    [model for model in CATALOGUE.models if model.module in STATEMENTS],
    ids=lambda each: each.name,
)
def test_every_model_of_statements_checks_refinement_locks_and_deadlock(
    model: Model, name: str
) -> None:
    catalogue = changed(
        lambda each: (
            dataclasses.replace(each, deadlock=False)
            if each == model and name == "deadlock"
            else each
        )
    )
    assert (
        f"model {model.name}: it is of {model.module}, so it must check {name}"
    ) in unkept_claims(catalogue, checking_less({name}, model.name))


def test_the_modules_of_statements_are_those_that_extend_sql() -> None:
    extending = {
        path.stem
        for path in SPEC.glob("*.tla")
        if re.search(r"^EXTENDS\b.*\bSql\b", path.read_text(), re.MULTILINE)
    }
    assert extending == set(STATEMENTS)


@pytest.mark.parametrize("module", STATEMENTS)
def test_a_module_whose_actions_nobody_counts_is_named(module: str) -> None:
    catalogue = changed(
        lambda model: (
            dataclasses.replace(model, coverage=False)
            if model.module == module
            else model
        )
    )
    complaint = f"module {module}: no quick model of it has `coverage = true`"
    assert complaint in unkept_claims(catalogue)


def test_a_module_of_which_tlc_counts_no_action_is_named() -> None:
    rows = action_names(read_rows())
    actions = {(name, "Commit"): 1 for name in COVERED if name != "FenceSql"}
    outcome = tlc.Outcome(0, 0.0, 1, 1, 1, None, actions, "")
    line = Line("", "", outcome, "", "")
    assert idle_actions([line], rows, COVERED) == ("no action counted of FenceSql",)


@pytest.mark.parametrize("name", sorted(promised(README)))
def test_what_the_readme_promises_is_checked_by_a_quick_model(name: str) -> None:
    quick = [model.name for model in CATALOGUE.models if not model.deep]
    assert f"README.md promises {name}, which no quick model checks" in unkept_claims(
        CATALOGUE, checking_less({name}, *quick)
    )


def test_the_promises_are_those_of_invariants_steps_and_liveness() -> None:
    assert {"TypeOK", "StepsAreRows", "DueIsTaken", "EveryJobEnds"} <= promised(README)
    assert {"Refines", "LocksHeld", "OneOutcome"} <= promised(README)


def test_a_readme_that_promises_nothing_is_named() -> None:
    assert unkept_claims(CATALOGUE, readme="") == (
        "README.md: it has no section `What is proved` with properties in it",
    )


def test_a_model_that_is_taken_out_is_named_with_all_that_it_checked() -> None:
    found = unkept_claims(
        changed(lambda model: None if model.name == "live-2jobs-time" else model)
    )
    assert "DueIsTaken is no longer checked by live-2jobs-time (quick)" in found
    assert "EveryJobEnds is no longer checked by live-2jobs-time (quick)" in found
    assert found[-1].startswith(f"If that is meant: `{kept.RENEW}`")


def test_a_model_that_moves_to_the_deep_ones_is_named() -> None:
    found = unkept_claims(
        changed(
            lambda model: (
                dataclasses.replace(model, deep=True)
                if model.name == "prune-2jobs"
                else model
            )
        )
    )
    assert "NoJobLost is no longer checked by prune-2jobs (quick)" in found
    assert "NoJobLost is newly checked by prune-2jobs (deep)" in found


def test_a_property_that_one_model_no_longer_checks_is_named() -> None:
    found = unkept_claims(CATALOGUE, checking_less({"KeyKept"}, "prune-2jobs"))
    assert found[0] == "KeyKept is no longer checked by prune-2jobs (quick)"


def test_a_planted_fault_that_is_taken_out_is_named() -> None:
    less = [each for each in CATALOGUE.negatives if each.name != "sql-job-before-key"]
    found = unkept_claims(dataclasses.replace(CATALOGUE, negatives=tuple(less)))
    assert found[0] == "deadlock is no longer broken by sql-job-before-key"


def test_what_is_kept_is_what_would_be_written() -> None:
    assert kept.KEPT.read_text() == kept.page(CATALOGUE)


def test_without_what_is_kept_everything_is_new(tmp_path: Path) -> None:
    found = kept.changed(CATALOGUE, kept=tmp_path / "none.toml")
    assert "deadlock is newly checked by fence-sql-1job (quick)" in found
    assert "coverage is newly checked by fence-sql-settle (quick)" in found


def test_a_model_that_checks_nothing_is_named() -> None:
    found = unkept_claims(CATALOGUE, lambda model: frozenset())
    assert "model rows-2jobs: it checks nothing" in found


def test_a_name_in_a_comment_is_not_checked() -> None:
    config = (
        "SPECIFICATION Spec\nINVARIANTS\n  A \\* B\n  (* C\n D *) E\n"
        "(*\nPROPERTY F\n*)\nPROPERTIES G\nCONSTANTS X = 1\n"
    )
    assert named_in(config) == {"A", "E", "G"}


@pytest.mark.parametrize(
    "word", ["CONSTRAINT", "CONSTRAINTS", "ACTION_CONSTRAINT", "SYMMETRY", "VIEW"]
)
def test_what_keeps_tlc_from_states_is_named(word: str) -> None:
    assert narrowing(f"SPECIFICATION Spec \\* VIEW\n  {word} Less\n") == (word,)


@pytest.mark.parametrize(
    ("name", "old", "new", "complaint"),
    [
        (
            "models/fence-sql-settle.cfg",
            "LocksHeld",
            "",
            "planted fault sql-locks-given-up-early: it breaks LocksHeld",
        ),
        ("models/live-2jobs.cfg", " DueIsTaken", "", "nobody-recovers: it breaks"),
        (
            "models/lifecycle.cfg",
            "INVARIANTS ",
            "CONSTRAINT Few INVARIANTS ",
            "model lifecycle: CONSTRAINT keeps TLC",
        ),
        (
            "models.toml",
            "states = 871\ncoverage = true\ndeadlock = true",
            "states = 871\ncoverage = true",
            "model dedupe-sql-idempotency: it is of DedupeSql, so it must check dead",
        ),
    ],
)
def test_a_weakened_model_is_refused_before_anything_is_run(
    tmp_path: Path, name: str, old: str, new: str, complaint: str
) -> None:
    done = run_in(edited(tmp_path, name, old, new))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("nothing was run, for what is claimed is not check")
    assert complaint in done.stderr


def test_what_is_kept_is_written_anew_when_that_is_meant(tmp_path: Path) -> None:
    copy = edited(tmp_path, "models/prune-2jobs.cfg", "  IdempotentOnce\n", "")
    assert run_in(copy).returncode == 1
    assert run_in(copy, "--checks").stdout == "written: spec/checks.toml\n"
    again = run_in(copy)
    # That fault is planted in a model which still checks it, so this one may go.
    assert (again.returncode, again.stdout) == (0, ""), again.stderr
