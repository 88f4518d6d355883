"""The demo's input: the files under a directory."""

import hashlib
import os
import stat

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MOST_FILES = 1000
MOST_BYTES = 16 * 1024 * 1024
_SKIPPED = {"__pycache__", "node_modules", ".git", ".hg", ".svn", ".tox", ".nox"}


@dataclass(frozen=True, slots=True)
class File:
    """A file as it was found; `path` is relative to the directory that was searched."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Found:
    """The files to work on, and how many others there are."""

    files: tuple[File, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Digest:
    """What a job finds out about a file; both None when it could not be read."""

    sha256: str | None
    lines: int | None


def find(root: Path) -> Found:
    """
    Find the regular files, by name, without repositories, environments and caches.

    Left out are files too large for a demo, unreadable ones, names that are not UTF-8,
    and all beyond the first thousand.
    """
    files: list[File] = []
    left_out = 0
    for path in _walk(root):
        try:
            status = path.lstat()
        except OSError:  # deleted since its folder was read
            continue
        if not stat.S_ISREG(status.st_mode):
            continue
        name = path.relative_to(root).as_posix()
        fits = len(files) < MOST_FILES and status.st_size <= MOST_BYTES
        if fits and _is_utf8(name) and os.access(path, os.R_OK):
            files.append(File(name, status.st_size, status.st_mtime_ns))
        else:
            left_out += 1
    return Found(tuple(files), left_out)


def digest(path: Path) -> Digest:
    """Read a file and work its checksum and number of lines out."""
    sha256, lines, last = hashlib.sha256(), 0, b"\n"
    try:
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                sha256.update(chunk)
                lines += chunk.count(b"\n")
                last = chunk[-1:]
    except OSError:  # it may have been deleted since it was found
        return Digest(None, None)
    return Digest(sha256.hexdigest(), lines + (last != b"\n"))


def has_changed(root: Path, file: File) -> bool:
    """Whether somebody wrote to a file since it was found, or deleted it."""
    try:
        status = (root / file.path).lstat()
    except OSError:
        return True
    return (status.st_size, status.st_mtime_ns) != (file.size, file.mtime_ns)


def _walk(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name for name in folders if not _is_skipped(Path(folder, name))
        )
        for name in sorted(names):
            yield Path(folder, name)


def _is_skipped(folder: Path) -> bool:
    name = folder.name
    return (
        name in _SKIPPED
        or name.startswith(".venv")
        or "cache" in name
        or name == ".hypothesis"
        or (folder / "pyvenv.cfg").exists()
    )


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
