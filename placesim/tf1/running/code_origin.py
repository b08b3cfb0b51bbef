"""Origin of code: a user's script and its modules, or installed code."""

from __future__ import annotations

import os
from functools import cache

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@cache
def _installed() -> tuple[str, ...]:
    """Folders without user code: this package, Python's library and installed packages."""
    import site
    import sysconfig

    folders = [_PACKAGE, *map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")), *site.getsitepackages()]
    folders += [site.getusersitepackages(), os.path.dirname(os.__file__)]
    return tuple(folder + os.sep for folder in dict.fromkeys(folders))


def is_ours(file: str) -> bool:
    """Whether a frame's file is of this package, or of Python's start."""
    return os.path.abspath(file).startswith(_PACKAGE + os.sep) or file.startswith("<frozen ")


def is_users(file: str) -> bool:
    """Whether a frame's file is the script or one of its modules, rather than an installed or unreadable file."""
    return not file.startswith("<") and not os.path.abspath(file).startswith(_installed())


_HOME = os.getcwd()


def beside(script: str, file: str) -> str:
    """Path of a module for locations: relative if the script's path is relative and the module is in its folder."""
    folder = os.path.dirname(os.path.join(_HOME, script))
    if os.path.isabs(script) or not file.startswith(folder + os.sep):
        return file
    return os.path.join(os.path.dirname(script), os.path.relpath(file, folder))


__all__ = ["beside", "is_ours", "is_users"]
