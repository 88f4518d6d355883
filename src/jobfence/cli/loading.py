"""Objects named on the command line as `package.module:name`."""

import importlib
import sys
import traceback

from pathlib import Path

from jobfence.cli.failures import UsageError, one_line


def load(option: str, reference: str) -> object:
    """Import what a reference such as `shop.jobs:app` names."""
    module_name, path = check_reference(option, reference)
    look_here_too()
    found: object = _module(option, module_name)
    for part in path.split("."):
        if not hasattr(found, part):
            raise UsageError(f"{option}: {module_name} has no {path}")
        found = getattr(found, part)
    return found


def check_reference(option: str, reference: str) -> tuple[str, str]:
    """Return a reference's module and name; nothing is imported."""
    module_name, colon, path = reference.partition(":")
    if not (module_name and colon and path):
        raise UsageError(f"{option} must be like package.module:name, not {reference}")
    return module_name, path


def look_here_too() -> None:
    """Find modules in the current directory, as `python -m` does."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def _module(option: str, name: str) -> object:
    try:
        return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also a module that calls sys.exit()
        missing = getattr(error, "name", None)
        if isinstance(error, ModuleNotFoundError) and _is_part(missing, name):
            problem = f"there is no module {missing} here or on sys.path"
        else:
            problem = (
                f"importing {name} raised {type(error).__name__}: {one_line(error)}"
                f"{_place(error)}"
            )
        raise UsageError(f"{option}: {problem}") from error


def _is_part(missing: str | None, name: str) -> bool:
    return missing is not None and f"{name}.".startswith(f"{missing}.")


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    if last is None or last.filename.startswith("<") or "importlib" in last.filename:
        return ""
    return f" ({last.filename}, line {last.lineno})"
