"""Resolution of links in paths, and the check that a path lies inside a directory."""

from __future__ import annotations

from pathlib import Path

from placesim.core.errors import InvalidArgumentError


def resolve_path(path: Path) -> Path:
    """Return the path with the links of its existing part resolved. Raises InvalidArgumentError for an invalid file name."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):  # the links form a cycle, or the name has a zero byte
        raise InvalidArgumentError(f"{str(path)!r} is not a valid file name") from None


def is_inside(path: Path, directory: Path) -> bool:
    """Whether a path lies in a directory after links are resolved."""
    try:
        resolve_inside(path, directory)
    except InvalidArgumentError:
        return False
    return True


def resolve_inside(path: Path, directory: Path) -> Path:
    """Return the path with links resolved. Raises InvalidArgumentError if this path lies outside the directory.

    Files named by a model must lie in its own directory.
    """
    found, root = resolve_path(path), resolve_path(directory)
    if not found.is_relative_to(root):
        raise InvalidArgumentError(f"{path} is outside the model's directory: got {found}, expected a file in {root}")
    return found
