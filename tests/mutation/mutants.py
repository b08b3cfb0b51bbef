"""A module's source -> its one-line mutants."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

GAPS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"), ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "//"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "//"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
"""An operator's text, and that which stands in its place."""
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
SKIPPED = ("annotation", "returns", "decorator_list")
"""The fields of a node that hold types and decorators."""
LARGE = 100
"""From here on a module's constant is doubled and halved: its last unit is a part in a hundred of a limit or a measure."""


class Mutant(NamedTuple):
    """`old` at a byte of a line becomes `new`; the statement's own lines are `first` to `last`.

    `is_early`: it may run when the module is imported, for whichever test that is the first time.
    """

    path: str
    line: int
    column: int
    old: str
    new: str
    first: int
    last: int
    is_early: bool = False

    def apply(self, source: str) -> str:
        lines = source.encode().splitlines(keepends=True)
        line, old = lines[self.line - 1], self.old.encode()
        assert line[self.column :].startswith(old)
        lines[self.line - 1] = line[: self.column] + self.new.encode() + line[self.column + len(old) :]
        return b"".join(lines).decode()

    def compiles(self, source: str) -> bool:
        try:
            compile(self.apply(source), self.path, "exec")
        except SyntaxError:
            return False
        return True

    def diff(self, source: str) -> str:
        before, after = source.splitlines(keepends=True), self.apply(source).splitlines(keepends=True)
        return "".join(difflib.unified_diff(before, after, self.path, self.path, n=1))


class _Place(NamedTuple):
    """A node that may change, its innermost statement, and whether it stands in a function."""

    node: ast.AST
    statement: ast.stmt
    in_function: bool


def find_mutants(path: str, source: str) -> list[Mutant]:
    """All mutants of a module, also those that do not compile."""
    lines = source.encode().splitlines()
    found = []
    for place in _walk(ast.parse(source), None, False):
        statement = place.statement
        body = getattr(statement, "body", None)
        last = max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno or statement.lineno
        is_early = not place.in_function or isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
        for line, column, old, new in _changes(place, lines):
            found.append(Mutant(path, line, column, old, new, statement.lineno, last, is_early))
    return found


def _walk(node: ast.AST, statement: ast.stmt | None, in_function: bool) -> Iterator[_Place]:
    if isinstance(node, ast.stmt):
        statement = node
    if _is_left_alone(node):
        return
    if statement is not None:
        yield _Place(node, statement, in_function)
    if isinstance(node, ast.Raise):
        return
    in_function = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and field not in SKIPPED:
                yield from _walk(child, statement, in_function)


def _is_left_alone(node: ast.AST) -> bool:
    """Docstrings, messages of errors and logs, formatted texts, lists of names, what is there for types alone, and checks.

    `strict=True` is a check like `assert`: code that is right does the same without it.
    """
    match node:
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")) | ast.keyword(arg="strict", value=ast.Constant(value=True)):
            return True
        case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Subscript(value=ast.Name(id="Literal")):
            return True
        case ast.Assign(targets=[ast.Name(id="__slots__" | "__all__")]) | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="logging" | "warnings"))):
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in ("cast", "TypeVar") or name.endswith(("Error", "Warning"))
    return False


def _changes(place: _Place, lines: list[bytes]) -> Iterator[tuple[int, int, str, str]]:
    """Line, byte, old and new text."""
    node = place.node
    for left, kind, right in _operators(node):
        old, new = GAPS.get(kind, ("", ""))
        gap = lines[right.lineno - 1][left.end_col_offset : right.col_offset] if left.end_lineno == right.lineno else b""
        if old and old.encode() in gap:
            yield right.lineno, (left.end_col_offset or 0) + gap.index(old.encode()), old, new
    for part, new in _replacements(place):
        if part.lineno == part.end_lineno:
            old = lines[part.lineno - 1][part.col_offset : part.end_col_offset].decode()
            yield part.lineno, part.col_offset, old, new.format(old)


def _operators(node: ast.AST) -> Iterator[tuple[ast.expr, type[ast.AST], ast.expr]]:
    """The operators of an expression, each with its left and its right side."""
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others) if not _is_drawn(left):
            yield from zip([left, *others], map(type, ops), others, strict=False)
        case ast.BinOp(left=left, op=op, right=right) | ast.AugAssign(target=left, op=op, value=right):
            yield left, type(op), right
        case ast.BoolOp(op=op, values=values):
            yield from ((left, type(op), right) for left, right in pairwise(values))


def _names_constant(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name.isupper()
    return False


def _is_drawn(node: ast.expr) -> bool:
    """Whether it is a random fraction, which no other number equals: `<` and `<=` are the same to it."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "random"


def _replacements(place: _Place) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Parts of a node, each with the text that stands in its place; `{}` there is the part itself."""
    node, in_function = place.node, place.in_function
    match node:
        case ast.Constant(value=bool(value)):
            yield node, str(not value)
        case ast.Constant(value=int(value)) if value >= LARGE and _names_constant(place.statement):
            yield node, str(value * 2)
            yield node, str(value // 2)
        case ast.Constant(value=int(value)):
            yield node, str(value + 1)
            yield node, str(value - 1) if value else "(-1)"
        case ast.Constant(value=str(value)):
            yield node, "''" if value else "'mutant'"
        case ast.Call(func=ast.Name(id=name) as function) if name in CALLS and (name != "sorted" or not node.keywords):
            yield function, CALLS[name]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, f"bool({ast.unparse(operand).replace('{', '{{').replace('}', '}}')})"
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if isinstance(test, ast.Name | ast.Attribute | ast.Call):
                yield test, "(not {})"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield node, "return None"
        case ast.Break():
            yield node, "continue"
        case ast.Continue():
            yield node, "break"
        case ast.Expr(value=ast.Call()) | ast.Assign() | ast.AugAssign() | ast.Raise() if in_function:
            yield node, "pass"
