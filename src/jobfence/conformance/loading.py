"""
The adapter's name, and the object behind it.

Apart from `adapter` so that an adapter is imported only after pytest was told which
assertions to rewrite: importing it may import the suite.
"""

import importlib


class NoAdapter(ValueError):
    """What was named as an adapter cannot be used; the message says why."""


def load(reference: str) -> object:
    """Import `package.module:name`."""
    module_name, colon, path = reference.partition(":")
    if not (module_name and colon and path):
        raise NoAdapter(f"an adapter is package.module:name, not {reference!r}")
    try:
        found: object = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as problem:  # a module may raise anything when it is imported
        raise NoAdapter(
            f"{reference} cannot be imported: {type(problem).__name__}: {problem}"
        ) from problem
    if not callable(found):
        raise NoAdapter(
            f"{reference} must be a function like open_store or a class with it, "
            f"not {type(found).__name__}"
        )
    return found
