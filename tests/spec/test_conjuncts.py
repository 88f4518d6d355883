"""Every part of a property can be taken out, and what nobody misses is named."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from runner import tlc
from runner.catalogue import SPEC, CatalogueError, Negative, load_catalogue
from runner.conjuncts import (
    Finder,
    Kept,
    Part,
    complaints,
    load_kept,
    parts_of,
    that_name,
)
from runner.parts import conjuncts, is_defined, without

from tests.spec.fake_tlc import tools_that_say

CATALOGUE = load_catalogue()
TEXT = r"""
Lead == 1
(* /\ a comment *)
Held(j) ==  \* /\ another
  [][\A k \in Keys :
       /\ Status(j) = "x" /\ Free
            => \/ Done
               \/ /\ left[k]
                  /\ right(j,
                           k)
       /\ LET n == 1 IN /\ n = 1
                        /\ \A i \in Ids :
                             n = i
       /\ ~ /\ denied
            /\ as well]_vars

ASSUME Known == /\ (/\ assumed
                    /\ too) => found
                /\ last
Next == /\ other
"""


def that_has(negative: Negative) -> Part:
    """A part of the property that this fault breaks."""
    return next(
        part for part in parts_of(CATALOGUE) if part.property == negative.breaks
    )


def test_a_conjunct_is_an_item_of_an_innermost_list() -> None:
    assert [each.text for each in conjuncts(TEXT, "Held")] == [
        "left[k]",
        "right(j, k)",
        "n = 1",
        r"\A i \in Ids : n = i",
        r"~ /\ denied /\ as well",
    ]


def test_what_is_denied_or_assumed_is_no_conjunct() -> None:
    assert [each.text for each in conjuncts(TEXT, "Known")] == [
        r"(/\ assumed /\ too) => found",
        "last",
    ]


def test_one_conjunct_is_taken_out_and_nothing_else() -> None:
    less = without(TEXT, "Held", 1)
    assert less == TEXT.replace("right(j,\n                           k)", "TRUE")
    assert without(TEXT, "Next", 0).endswith("Next == /\\ TRUE\n")


def test_a_definition_without_a_list_has_no_conjuncts() -> None:
    assert conjuncts(TEXT, "Lead") == []


def test_a_name_that_is_not_defined_is_refused() -> None:
    assert not is_defined(TEXT, "Le")
    with pytest.raises(ValueError, match="no definition of Le"):
        conjuncts(TEXT, "Le")


def test_the_parts_of_the_spec_are_those_that_a_reader_sees() -> None:
    said = [each.says for each in parts_of(CATALOGUE) if each.property == "LocksHeld"]
    assert len(said) == 5
    assert said[0] == r"\A row \in Rowset : lock[row] # Nobody => tx[lock[row]] # Idle"
    assert said[4] == r"w.first # Unchanged => lock[Identity(w.first[1])] = c"


def test_each_part_is_of_a_property_that_some_fault_breaks() -> None:
    weaker, _ = load_kept()
    for part in (*parts_of(CATALOGUE), *weaker):
        assert that_name(part, CATALOGUE.negatives), part


def test_faults_of_another_module_are_not_asked() -> None:
    part = Part("AttemptsBounded", "Lifecycle.tla", "any")
    asked = that_name(part, CATALOGUE.negatives)
    assert {each.base.module for each in asked} == {"Lifecycle"}


def test_every_weaker_property_fits_its_module(tmp_path: Path) -> None:
    weaker, _ = load_kept()
    for part in weaker:
        copy = tmp_path / part.file
        copy.write_text((SPEC / part.file).read_text())
        part.take_out(copy)
        assert copy.read_text() != (SPEC / part.file).read_text()


def test_a_weaker_property_that_no_longer_fits_is_refused(tmp_path: Path) -> None:
    (tmp_path / "A.tla").write_text("x x")
    with pytest.raises(CatalogueError, match=r"P: less: not once in A\.tla"):
        Part("P", "A.tla", "less", old="x", new="y").take_out(tmp_path / "A.tla")


def test_each_word_of_the_table_makes_one_weaker_property() -> None:
    weaker, _ = load_kept()
    said = {each.says for each in weaker if each.property == "RowsAreSteps"}
    assert {"not of claim", "not of request_cancel"} < said


def test_what_is_kept_is_there_and_has_a_reason() -> None:
    weaker, kept = load_kept()
    known = {str(each) for each in (*parts_of(CATALOGUE), *weaker)}
    for each in kept:
        assert each.why
        assert {f"{each.property}: {part}" for part in each.parts} <= known


def test_an_unnoticed_part_is_named_unless_it_is_kept() -> None:
    lost, known = Part("P", "A.tla", "lost"), Part("P", "A.tla", "known")
    found = [(lost, None), (known, None), (Part("P", "A.tla", "pinned"), "fault")]
    assert complaints(found, [Kept("P", ("known",), "why")]) == [
        "no planted fault notices without P: lost"
    ]


def test_a_part_that_is_kept_although_a_fault_notices_is_named() -> None:
    found = [(Part("P", "A.tla", "pinned"), "fault")]
    assert complaints(found, [Kept("P", ("pinned", "gone"), "why")]) == [
        "kept, but not unnoticed: P: gone",
        "kept, but not unnoticed: P: pinned",
    ]


@pytest.mark.parametrize(("code", "noticed"), [(tlc.OK, True), (tlc.INVARIANT, False)])
def test_a_fault_notices_where_it_is_no_longer_found(
    tmp_path: Path, *, code: int, noticed: bool
) -> None:
    negative = next(each for each in CATALOGUE.negatives if each.code == tlc.INVARIANT)
    part = that_has(negative)
    with ExitStack() as jvms:
        finder = Finder(tools_that_say(tmp_path, "", code), jvms)
        assert finder.notices(negative, part) == noticed


def test_a_part_whose_loss_cannot_be_checked_is_an_error(tmp_path: Path) -> None:
    negative = next(each for each in CATALOGUE.negatives if each.code == tlc.INVARIANT)
    tools = tools_that_say(tmp_path, "Parse error", 150)
    with ExitStack() as jvms, pytest.raises(CatalogueError, match="150\nParse error"):
        Finder(tools, jvms).notices(negative, that_has(negative))
