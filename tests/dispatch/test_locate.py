"""Naming a function for another process, and the child's way to die."""

import functools
import os
import sys
import types

from pathlib import Path

import pytest

from jobfence.dispatch import child, processes
from jobfence.dispatch.locate import Reference, locate, reference
from jobfence.statemachine.errors import InvalidOption
from tests.dispatch import jobs


class Group:
    value = 5

    @staticmethod
    def method() -> None: ...

    @classmethod
    def name(cls) -> str:
        return cls.__name__

    def bound(self) -> None: ...


class Subgroup(Group): ...


def as_main(function: object, **attributes: object) -> types.ModuleType:
    """Give a function the looks of one in a program's main module."""
    function.__module__ = "__main__"
    main = types.ModuleType("__main__")
    for name, value in attributes.items():
        setattr(main, name, value)
    return main


def toplevel() -> types.FunctionType:
    def job() -> None: ...

    job.__qualname__ = "job"
    return job  # type: ignore[return-value]


def test_a_function_is_found_by_its_module_and_name() -> None:
    where = reference(jobs.tell)
    assert where == Reference("tests.dispatch.jobs", None, "tell")
    assert locate(where) is jobs.tell
    assert locate(reference(Group.method)) is Group.method


@pytest.mark.parametrize("group", [Group, Subgroup])
def test_a_class_method_is_found_in_the_class_it_is_bound_to(
    group: type[Group],
) -> None:
    assert locate(reference(group.name))() == group.__name__


def test_a_method_bound_to_an_object_cannot_be_found() -> None:
    method = Group().bound

    @functools.wraps(method)
    def wrapper() -> None: ...

    for function in (method, wrapper):
        with pytest.raises(InvalidOption, match="needs a function that its module"):
            reference(function)
    assert locate(reference(Group.bound)) is Group.bound


def test_a_program_started_with_m_is_found_by_its_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    function = toplevel()
    spec = types.SimpleNamespace(name="package.__main__")
    monkeypatch.setitem(sys.modules, "__main__", as_main(function, __spec__=spec))
    assert reference(function) == Reference("package.__main__", None, "job")


def test_a_script_is_found_by_its_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    function = toplevel()
    path = tmp_path / "script.py"
    path.write_text("def job(): ...\nclass C:\n    f = job\n", encoding="utf-8")
    main = as_main(function, __file__=str(path), __spec__=None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    where = reference(function)
    assert where == Reference(None, str(path), "job")
    assert locate(where).__name__ == "job"
    assert locate(Reference(None, str(path), "C.f")).__name__ == "job"


def test_what_was_typed_in_cannot_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    function = toplevel()
    monkeypatch.setitem(sys.modules, "__main__", as_main(function, __spec__=None))
    with pytest.raises(InvalidOption, match="needs a function in a file"):
        reference(function)


def test_a_name_that_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Group\.value is not a function but 5"):
        locate(Reference(__name__, None, "Group.value"))


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="there are no process groups")
def test_a_child_whose_lifeline_ends_kills_its_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed: list[tuple[int, int]] = []

    class Exited(Exception):
        pass

    def leave(code: int) -> None:
        raise Exited(code)

    monkeypatch.setattr(os, "killpg", lambda *args: killed.append(args))
    monkeypatch.setattr(os, "_exit", leave)
    lifeline, other_end = os.pipe()
    os.write(other_end, b"x")
    os.close(other_end)
    with pytest.raises(Exited):
        child._die_with_parent(lifeline)  # noqa: SLF001
    os.close(lifeline)
    assert [group for group, _ in killed] == [0]


def test_without_process_groups_the_child_itself_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "killpg", raising=False)
    job_process = processes.JobProcess()
    job_process.kill()
    answer, returncode = job_process.ask(b"{}", None)
    assert (answer, returncode) == (b"", -9)
