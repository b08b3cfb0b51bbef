"""Tokens of an op table's source: groups of lines, read token by token; errors have their location."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from placesim.core.errors import Location, Problem

Found = TypeVar("Found")

_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<number>-?(?:[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?|inf)\b)
    |(?P<name>[A-Za-z_]\w*(?:>\w+)*)
    |(?P<mark>->|>=|[(){}\[\]:;,*=?])""",
    re.VERBOSE | re.ASCII,
)


class SourceError(Exception):
    """Error at one position of a source."""

    def __init__(self, location: Location, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(location, message)


class Token(NamedTuple):
    """A token of a line: its kind (a group of the pattern, `end` or `unknown`), text and column, from 1."""

    kind: str
    text: str
    column: int


class SourceLine:
    """A line read from left to right; reading methods raise SourceError for unexpected text."""

    def __init__(self, file: str, number: int, text: str) -> None:
        self.text = text
        self._file = file
        self._number = number
        self._end = 0
        self.token = self._token_after(0)

    def _token_after(self, end: int) -> Token:
        start = len(self.text) - len(self.text[end:].lstrip())
        match = _TOKEN.match(self.text, start)
        self._end = start if match is None else match.end()
        if match is None:
            return Token("unknown" if self.text[start:] else "end", self.text[start : start + 1], start + 1)
        return Token(match.lastgroup or "", match[0], start + 1)

    def advance(self) -> Token:
        """Return the next token and move past it."""
        found, self.token = self.token, self._token_after(self._end)
        return found

    def skip(self, text: str) -> bool:
        """Return whether the next token has this text, and move past it if so."""
        is_next = self.token.text == text
        if is_next:
            self.advance()
        return is_next

    def expect(self, text: str) -> None:
        """Move past the next token, which must have this text."""
        if not self.skip(text):
            raise self.unexpected(f"'{text}'")

    def take(self, kind: str, expected: str) -> Token:
        """Return the next token, which must be of this kind, and move past it."""
        if self.token.kind != kind:
            raise self.unexpected(expected)
        return self.advance()

    def take_end(self) -> None:
        """Require that the line ends here."""
        self.take("end", "the end of the line")

    def separated(self, mark: str, read: Callable[[], Found]) -> Iterator[Found]:
        """Yield one or more items that `read` returns, separated by `mark`."""
        yield read()
        while self.skip(mark):
            yield read()

    def listed(self, opening: str, closing: str, read: Callable[[], Found]) -> list[Found]:
        """Return the items between two brackets, separated by commas; there may be none."""
        self.expect(opening)
        found = [] if self.token.text == closing else list(self.separated(",", read))
        self.expect(closing)
        return found

    def unexpected(self, expected: str) -> SourceError:
        """Return the error for a next token other than the expected one."""
        got = self.token.text if self.token.kind == "string" else f"'{self.token.text}'"
        return self.wrong(f"got {got if self.token.text else 'the end of the line'}, expected {expected}")

    def wrong(self, message: str, token: Token | None = None) -> SourceError:
        """Return an error at a token, by default the next one."""
        return SourceError(Location(self._file, self._number, (token or self.token).column), message)


class SourceProblems(list[Problem]):
    """The problems found so far."""

    def attempt(self, read: Callable[..., Found], *args: Any) -> Found | None:
        """Return the result of `read`. If it raises SourceError, add the problem and return None."""
        try:
            return read(*args)
        except SourceError as error:
            self.append(error.problem)
            return None


def paragraphs(text: str, file: str) -> Iterator[list[SourceLine]]:
    """Yield groups of lines; a line without indentation begins a group. Blank lines and comments (`# ...`) are left out."""
    group: list[SourceLine] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if group and not line[0].isspace():
            yield group
            group = []
        group.append(SourceLine(file, number, line.rstrip()))
    if group:
        yield group
