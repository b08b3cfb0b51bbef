"""Reader and writer of a directory's `checkpoint` file, which names its checkpoints in text format.

The file has only four fields, so protobuf is not needed. Source: TensorFlow's `checkpoint_state.proto`; protobuf's text format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from placesim.core.errors import GraphFileError, Location, NotFoundError, Problem, UsageError
from placesim.core.files.containment import resolve_inside
from placesim.core.files.reader import read_file
from placesim.core.files.writer import write_whole

STATE_FILE = "checkpoint"
_PATH = "model_checkpoint_path"
_ALL_PATHS = "all_model_checkpoint_paths"
_FIELDS = {
    _PATH: "text",
    _ALL_PATHS: "text",
    "all_model_checkpoint_timestamps": "number",
    "last_preserved_timestamp": "number",
}
"""Type of the values of each field."""
_TOKEN = re.compile(
    r"(?P<space>(?:\s|#[^\n]*)+)|(?P<name>[A-Za-z_]\w*)|(?P<number>[-+]?\.?\d[\w.]*(?:(?<=[eE])[-+]\d+)?)"
    r"|(?P<text>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')|(?P<mark>[:,;\[\]])|(?P<other>.)",
    re.ASCII | re.DOTALL,
)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|[xX][0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
_LETTERS = dict(zip(b"abfnrtv\\'\"?", b"\a\b\f\n\r\t\v\\'\"?", strict=True))


def latest_checkpoint(directory: str | Path) -> Path:
    """Return the prefix of the newest checkpoint's files.

    Raises NotFoundError if there is no checkpoint, UsageError if the `checkpoint` file cannot be read, and GraphFileError if
    the file is invalid. Raises InvalidArgumentError for a checkpoint outside of the directory.
    """
    root = Path(directory)
    newest = _read_state_of(root).get(_PATH, ("",))[0]
    if not newest:
        raise NotFoundError(f"no checkpoint in {root}: '{STATE_FILE}' names none")
    return resolve_inside(root / newest, root)


def listed_checkpoints(directory: str | Path) -> tuple[str, ...]:
    """Return the prefixes of all checkpoints as written in the file, newest last. Raises the errors of `latest_checkpoint`."""
    found = _read_state_of(Path(directory))
    return tuple(dict.fromkeys((*found.get(_ALL_PATHS, ()), *found.get(_PATH, ()))))


def write_state(directory: Path, names: Sequence[str]) -> None:
    """Write the state file for a directory's checkpoints (at least one, newest last).  Raises OSError."""
    lines = [f'{_PATH}: "{_escaped(names[-1])}"', *(f'{_ALL_PATHS}: "{_escaped(name)}"' for name in names)]
    write_whole(directory / STATE_FILE, "".join(f"{line}\n" for line in lines).encode())


def _escaped(name: str) -> str:
    """Escape a name as protobuf's text format does: quotes, backslashes and bytes that are not printable ASCII become octal."""
    raw = name.encode(errors="surrogateescape")
    return "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in raw)


def _read_state_of(root: Path) -> dict[str, tuple[str, ...]]:
    path = root / STATE_FILE
    if not path.is_file():
        raise NotFoundError(f"no checkpoint in {root}: there is no file '{STATE_FILE}'")
    try:
        data = read_file(resolve_inside(path, root))
    except OSError as error:
        raise UsageError(f"cannot read '{path}': {error.strerror}") from None
    return read_state(data, str(path))


def read_state(data: bytes, name: str) -> dict[str, tuple[str, ...]]:
    """Parse a `checkpoint` file into the values of its fields, as text. Raises GraphFileError, which names the file `name`."""
    try:
        return _Reader(data.decode()).fields()
    except UnicodeDecodeError as error:
        problem = Problem(Location(name, 0, 0), f"invalid CheckpointState: {error}")
    except _StateError as error:
        problem = Problem(Location(name, error.line, error.column), f"invalid CheckpointState: {error}")
    raise GraphFileError((problem,))


class _StateError(Exception):
    def __init__(self, message: str, text: str, position: int) -> None:
        super().__init__(message)
        self.line = text.count("\n", 0, position) + 1
        self.column = position - text.rfind("\n", 0, position)


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


class _Reader:
    """A tokenizer that reads a text once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._token = next(self._tokens)

    def _split(self) -> Iterator[_Token]:
        for found in _TOKEN.finditer(self._text):
            if found.lastgroup != "space":
                yield _Token(found.lastgroup or "", found[0], found.start())
        while True:
            yield _Token("end", "", len(self._text))

    def _take(self) -> _Token:
        taken, self._token = self._token, next(self._tokens)
        return taken

    def _skip(self, *marks: str) -> bool:
        is_there = self._token.text in marks
        if is_there:
            self._take()
        return is_there

    def _expected(self, what: str, token: _Token) -> _StateError:
        return _StateError(f"expected {what}, got {token.text[:100]!r}", self._text, token.position)

    def fields(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        while self._token.kind != "end":
            name = self._take()
            if name.text not in _FIELDS:
                raise self._expected(f"one of {', '.join(_FIELDS)}", name)
            if not self._skip(":"):
                raise self._expected("':'", self._token)
            is_list = name.text.startswith("all_")
            if name.text in found and not is_list:
                raise _StateError(f"duplicate {name.text}", self._text, name.position)
            values = self._list(_FIELDS[name.text]) if is_list and self._skip("[") else (self._value(_FIELDS[name.text]),)
            found[name.text] = found.get(name.text, ()) + values
            self._skip(",", ";")
        return found

    def _list(self, kind: str) -> tuple[str, ...]:
        values: list[str] = []
        while not self._skip("]"):
            if values and not self._skip(","):
                raise self._expected("',' or ']'", self._token)
            values.append(self._value(kind))
        return tuple(values)

    def _value(self, kind: str) -> str:
        token = self._take()
        if token.kind != kind:
            raise self._expected("a string" if kind == "text" else f"a {kind}", token)
        if kind != "text":
            return token.text
        pieces = [token.text]
        while self._token.kind == "text":  # as in C, adjacent strings are one string
            pieces.append(self._take().text)
        try:
            return b"".join(_ESCAPE.sub(_unescaped, piece[1:-1].encode()) for piece in pieces).decode()
        except (UnicodeDecodeError, ValueError, OverflowError):
            raise _StateError("a string is not UTF-8", self._text, token.position) from None


def _unescaped(found: re.Match[bytes]) -> bytes:
    code = found[1]
    if code[:1] in b"uU" and len(code) > 1:
        return chr(int(code[1:], 16)).encode()
    if code[:1] in b"xX" and len(code) > 1:
        return bytes([int(code[1:], 16)])
    if code[:1].isdigit():
        return bytes([int(code, 8)])
    if code[0] not in _LETTERS:
        raise ValueError
    return bytes([_LETTERS[code[0]]])
