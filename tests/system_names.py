"""Names of Python's standard library that an operating system lacks, read from the type stubs that come with mypy."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import mypy

_STUBS = Path(mypy.__file__).parent / "typeshed" / "stdlib"
VERSION = (3, 11)
MODULES = ("errno", "locale", "mmap", "os", "select", "signal", "socket", "sys", "time")
"""Modules that have more names on some systems than on others."""
WHOLE_MODULES = {
    "win32": ("fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"),
    "darwin": (),
}
"""Modules that a system lacks altogether."""


@cache
def missing_names(module: str, system: str) -> frozenset[str]:
    """The names of a module that Linux has and a system lacks."""
    path = next(filter(Path.exists, (_STUBS / f"{module}.pyi", _STUBS / module / "__init__.pyi")))
    body = ast.parse(path.read_text("utf-8")).body
    return frozenset(set(_names(body, "linux")) - set(_names(body, system))) & vars(import_module(module)).keys()


def _names(body: Iterable[ast.stmt], system: str) -> Iterator[str]:
    for statement in body:
        match statement:
            case ast.If():
                yield from _names(statement.body if _holds(statement.test, system) else statement.orelse, system)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name for alias in aliases)


def _holds(test: ast.expr, system: str) -> bool:
    """Whether a condition of a stub file holds on a system."""
    match test:
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_holds(part, system) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_holds(part, system) for part in parts)
        case ast.Compare(left=ast.Attribute(attr="platform"), ops=[ast.Eq()], comparators=[ast.Constant(value=name)]):
            return bool(system == name)
        case ast.Compare(left=ast.Attribute(attr="platform"), ops=[ast.NotEq()], comparators=[ast.Constant(value=name)]):
            return bool(system != name)
        case ast.Compare(left=ast.Attribute(attr="version_info"), ops=[ast.GtE()], comparators=[version]):
            return bool(ast.literal_eval(version) <= VERSION)
        case ast.Compare(left=ast.Attribute(attr="version_info"), ops=[ast.Lt()], comparators=[version]):
            return bool(ast.literal_eval(version) > VERSION)
    raise AssertionError(ast.unparse(test))
