"""Naming a function so that another process can import it."""

import importlib
import inspect
import runpy
import sys

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jobfence.statemachine.errors import InvalidOption

# A script that is loaded for its functions must not run its `__main__` part again.
SCRIPT_NAME = "__jobfence_script__"


@dataclass(frozen=True, slots=True)
class Reference:
    """A module's name, or a script's path, and the function's name in it."""

    module: str | None
    path: str | None
    qualname: str


def reference(function: Callable[..., object]) -> Reference:
    """Return where to find a function; `InvalidOption` if no import leads to it."""
    module, qualname = _names(function)
    if not isinstance(qualname, str) or not isinstance(module, str) or "<" in qualname:
        raise InvalidOption(
            "execution_mode",
            "process",
            f"needs a function that its module names, which {function!r} is not",
        )
    if module != "__main__":
        return Reference(module, None, qualname)
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:  # python -m package
        return Reference(spec.name, None, qualname)
    path = getattr(main, "__file__", None)
    if path is None:
        raise InvalidOption(
            "execution_mode",
            "process",
            f"needs a function in a file, and {qualname} was typed in",
        )
    return Reference(None, str(Path(path).resolve()), qualname)


def _names(function: Callable[..., object]) -> tuple[object, object]:
    """
    Return what a function says of its module and name; None if that is another's.

    A method bound to an object, or a wrapper of one, goes by the name of the plain
    function, which takes the first argument for the object. One bound to a class is
    found in that class, which may only inherit it.
    """
    bound = inspect.unwrap(function, stop=inspect.ismethod)
    if inspect.ismethod(bound):
        owner = bound.__self__
        if not isinstance(owner, type):
            return None, None
        if bound is function:
            return owner.__module__, f"{owner.__qualname__}.{bound.__name__}"
    return (
        getattr(function, "__module__", None),
        getattr(function, "__qualname__", None),
    )


def locate(where: Reference) -> Callable[..., object]:
    """Import the function that a reference names."""
    found: object
    if where.module is not None:
        found = importlib.import_module(where.module)
        for part in where.qualname.split("."):
            found = getattr(found, part)
    else:
        assert where.path is not None
        first, *rest = where.qualname.split(".")
        found = runpy.run_path(where.path, run_name=SCRIPT_NAME)[first]
        for part in rest:
            found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{where.qualname} is not a function but {found!r}")
    return found
