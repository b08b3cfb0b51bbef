"""RE2's regular expressions -> Python's, with RE2's errors.

The syntax is RE2's (its `syntax.txt`): no backreferences, no lookaround, ASCII `\\d`, `\\w`, `\\s` and `\\b`, `$` only at the
very end.  Text is UTF-8 read with surrogates for invalid bytes, which `.` and negated classes do not match.  Flags are spelled
out on every atom, since RE2 takes them in the middle of a group and Python does not.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from placesim.runtime.kernels.string.unicode_scripts import LAST_CODE_POINT, script_ranges

MAX_REPEAT = 1000
INVALID_BYTES = "\\udc80-\\udcff"
WORD = "[0-9A-Za-z_]"
BOUNDARY = f"(?:(?<!{WORD})(?={WORD})|(?<={WORD})(?!{WORD}))"
NO_BOUNDARY = f"(?:(?<={WORD})(?={WORD})|(?<!{WORD})(?!{WORD}))"
CONTROL_ESCAPES = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
REPEAT = re.compile(r"\{([0-9]+)(,([0-9]*))?\}")
GROUP_NAME = re.compile(r"\w+")

Ranges = tuple[tuple[int, int], ...]
"""Code points, ends included."""


def _spelled(text: str) -> Ranges:
    """`09AZ` -> the ranges 0-9 and A-Z."""
    return tuple((ord(first), ord(last)) for first, last in zip(text[::2], text[1::2], strict=True))


PERL_CLASSES: dict[str, Ranges] = {"d": _spelled("09"), "w": _spelled("09AZ__az"), "s": _spelled("\t\n\f\r  ")}
POSIX_CLASSES: dict[str, Ranges] = {
    "alnum": _spelled("09AZaz"),
    "alpha": _spelled("AZaz"),
    "ascii": _spelled("\x00\x7f"),
    "blank": _spelled("\t\t  "),
    "cntrl": _spelled("\x00\x1f\x7f\x7f"),
    "digit": _spelled("09"),
    "graph": _spelled("!~"),
    "lower": _spelled("az"),
    "print": _spelled(" ~"),
    "punct": _spelled("!/:@[`{~"),
    "space": _spelled("\t\r  "),
    "upper": _spelled("AZ"),
    "word": _spelled("09AZaz__"),
    "xdigit": _spelled("09AFaf"),
}


class PatternError(ValueError):
    """RE2 refuses a pattern; the text is RE2's."""

    def __init__(self, problem: str, culprit: str = "") -> None:
        super().__init__(f"{problem}: {culprit}" if culprit else problem)


class Flags(NamedTuple):
    """What `(?imsU)` changes."""

    ignore_case: bool = False
    multi_line: bool = False
    dot_all: bool = False
    ungreedy: bool = False

    def changed(self, letters: str, value: bool) -> Flags:
        names = {"i": "ignore_case", "m": "multi_line", "s": "dot_all", "U": "ungreedy"}
        return self._replace(**{names[letter]: value for letter in letters})


@cache
def compile_pattern(pattern: bytes) -> re.Pattern[str]:
    """The Python pattern that matches what an RE2 pattern matches; PatternError where RE2 refuses it."""
    try:
        text = pattern.decode()
    except UnicodeDecodeError:
        raise PatternError("invalid UTF-8") from None
    return re.compile(_Translator(text).translate())


def _complement(ranges: Sequence[tuple[int, int]]) -> Ranges:
    found, start = [], 0
    for first, last in sorted(ranges):
        if first > start:
            found.append((start, first - 1))
        start = max(start, last + 1)
    if start <= LAST_CODE_POINT:
        found.append((start, LAST_CODE_POINT))
    return tuple(found)


@cache
def _category_ranges() -> dict[str, list[tuple[int, int]]]:
    """The ranges of every general category, by its two letters and by its first."""
    found: dict[str, list[tuple[int, int]]] = {}
    for point in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(point))
        for name in (category, category[0]):
            ranges = found.setdefault(name, [])
            if ranges and ranges[-1][1] == point - 1:
                ranges[-1] = (ranges[-1][0], point)
            else:
                ranges.append((point, point))
    return found


def _unicode_class(name: str) -> Ranges | None:
    """The ranges of a general category or a script, None where there is none of that name."""
    if name == "Any":
        return ((0, LAST_CODE_POINT),)
    if name in script_ranges():
        return script_ranges()[name][1]
    return tuple(_category_ranges()[name]) if name in _category_ranges() else None


def _class_source(ranges: Sequence[tuple[int, int]], negated: bool, flags: Flags) -> str:
    inside = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)
    source = f"[^{inside}{INVALID_BYTES}]" if negated else f"[{inside}]"
    return f"(?i:{source})" if flags.ignore_case else source


class _Translator:
    """One walk over a pattern; `at` is where it stands."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.names: set[str] = set()

    def translate(self) -> str:
        source = self.alternation(Flags())
        if self.at < len(self.pattern):
            raise PatternError("unexpected )", self.pattern)
        return source

    def peek(self, size: int = 1) -> str:
        return self.pattern[self.at : self.at + size]

    def since(self, start: int) -> str:
        return self.pattern[start : self.at]

    def alternation(self, flags: Flags) -> str:
        """Up to the end of the group or of the pattern; flags set inside hold to its end."""
        branches: list[list[str]] = [[]]
        last_repeat: int | None = None
        while self.at < len(self.pattern) and self.peek() != ")":
            start = self.at
            if self.peek() == "|":
                self.at += 1
                branches.append([])
                last_repeat = None
                continue
            changed = self.flag_change(flags)
            if changed is not None:
                flags, last_repeat = changed, None
                continue
            repeat = self.repetition(flags)
            if repeat is None:
                branches[-1].extend(self.atoms(flags))
                last_repeat = None
                continue
            if last_repeat is not None:
                raise PatternError("bad repetition operator", self.since(last_repeat))
            if not branches[-1]:
                raise PatternError("no argument for repetition operator", self.since(start))
            branches[-1][-1] = f"(?:{branches[-1][-1]}){repeat}"
            last_repeat = start
        return "|".join("".join(branch) for branch in branches)

    def repetition(self, flags: Flags) -> str | None:
        """`*`, `+`, `?` or `{n,m}`, each perhaps with `?` for as few as possible."""
        start, repeat = self.at, self.peek()
        found = REPEAT.match(self.pattern, self.at)
        if found:
            repeat = found[0]
            self.at = found.end()
        elif repeat and repeat in "*+?":
            self.at += 1
        else:
            return None
        lazy = self.peek() == "?"
        self.at += lazy
        if found:
            low, high = int(found[1]), int(found[3] or found[1])
            if low > MAX_REPEAT or high > MAX_REPEAT or (found[3] and low > high):
                raise PatternError("invalid repetition size", self.pattern[start : found.end()])
        return repeat + ("?" if lazy != flags.ungreedy else "")

    # --- groups

    def flag_change(self, flags: Flags) -> Flags | None:
        """`(?i)` and the like, None where nothing of the kind stands here; `(?i:` is left for `group`."""
        if self.peek(2) != "(?" or self.peek(3) in ("(?P", "(?<"):
            return None
        start = self.at
        self.at += 2
        changed, value, seen = flags, True, False
        while self.at < len(self.pattern):
            letter = self.peek()
            self.at += 1
            if letter in "imsU":
                changed, seen = changed.changed(letter, value), True
            elif letter == "-" and value:
                value, seen = False, False
            elif letter in ":)" and (value or seen):
                if letter == ")":
                    return changed
                self.at = start
                return None
            else:
                break
        raise PatternError("invalid perl operator", self.since(start))

    def group(self, flags: Flags) -> str:
        """A group that starts here: capturing, named, or with flags of its own."""
        opening = "("
        if self.peek(2) != "(?":
            self.at += 1
        elif self.peek(3) in ("(?P", "(?<"):
            opening = self.group_name()
        else:
            end = self.pattern.index(":", self.at)
            letters, _, cleared = self.pattern[self.at + 2 : end].partition("-")
            flags = flags.changed(letters, True).changed(cleared, False)
            self.at, opening = end + 1, "(?:"
        source = self.alternation(flags)
        if self.peek() != ")":
            raise PatternError("missing )", self.pattern)
        self.at += 1
        return f"{opening}{source})"

    def group_name(self) -> str:
        start = self.at
        if self.peek(4) in ("(?<=", "(?<!"):
            raise PatternError("invalid perl operator", self.peek(4))
        self.at += 3 + (self.peek(3) == "(?P")
        if self.pattern[self.at - 1] != "<":
            raise PatternError("invalid perl operator", self.since(start))
        end = self.pattern.find(">", self.at)
        if end < 0:
            raise PatternError("invalid named capture group", self.pattern[start:])
        name = self.pattern[self.at : end]
        self.at = end + 1
        if not GROUP_NAME.fullmatch(name):
            raise PatternError("invalid named capture group", self.since(start))
        if name in self.names:
            raise PatternError("invalid named capture group", name)
        self.names.add(name)
        return "("

    # --- atoms

    def atoms(self, flags: Flags) -> list[str]:
        """What stands here, mostly one atom; quoted text is many."""
        character = self.peek()
        if character == "(":
            return [self.group(flags)]
        if character == "[":
            return [self.char_class(flags)]
        if character == "\\":
            return self.escape(flags)
        self.at += 1
        if character == ".":
            return [f"[^{'' if flags.dot_all else chr(10)}{INVALID_BYTES}]"]
        if character == "^":
            return ["(?m:^)" if flags.multi_line else r"\A"]
        if character == "$":
            return ["(?m:$)" if flags.multi_line else r"\Z"]
        return [self.literal(character, flags)]

    @staticmethod
    def literal(character: str, flags: Flags) -> str:
        source = re.escape(character)
        return f"(?i:{source})" if flags.ignore_case else source

    def escape(self, flags: Flags) -> list[str]:
        letter = self.peek(2)[1:]
        simple = {"A": r"\A", "z": r"\Z", "b": BOUNDARY, "B": NO_BOUNDARY, "C": r"[\s\S]"}
        if letter and letter in simple:
            self.at += 2
            return [simple[letter]]
        if letter == "Q":
            quoted, _, _ = self.pattern[self.at + 2 :].partition("\\E")
            self.at = min(self.at + 4 + len(quoted), len(self.pattern))
            return [self.literal(character, flags) for character in quoted]
        if letter == "E":
            self.at += 2
            return []
        ranges = self.named_class()
        if ranges is not None:
            return [_class_source(ranges, False, flags)]
        return [self.literal(chr(self.escaped_character()), flags)]

    def escaped_character(self) -> int:
        """The code point that a backslash and what follows it mean."""
        start = self.at
        letter = self.peek(2)[1:]
        if not letter:
            raise PatternError("trailing \\")
        self.at += 2
        if letter.isascii() and not letter.isalnum() and letter != "_":
            return ord(letter)
        if letter in CONTROL_ESCAPES:
            return CONTROL_ESCAPES[letter]
        for form in (r"0[0-7]{0,2}", r"[1-7][0-7]{1,2}", r"x([0-9A-Fa-f]{2})", r"x\{([0-9A-Fa-f]+)\}"):
            found = re.compile(form).match(self.pattern, start + 1)
            if found and (point := int(found[1], 16) if found.re.groups else int(found[0], 8)) <= LAST_CODE_POINT:
                self.at = found.end()
                return point
        if letter == "x":
            self.at = min(self.at + 1, len(self.pattern))
        raise PatternError("invalid escape sequence", self.since(start))

    def named_class(self) -> Ranges | None:
        r"""`\d`, `\pL`, `\p{Greek}` and their opposites; None where none of them stands here."""
        start, letter = self.at, self.peek(2)[1:]
        if letter and letter in "dwsDWS":
            self.at += 2
            ranges = PERL_CLASSES[letter.lower()]
            return ranges if letter.islower() else _complement(ranges)
        if not letter or letter not in "pP" or len(self.pattern) < self.at + 3:
            return None
        self.at += 3
        name = self.pattern[self.at - 1]
        if name == "{":
            end = self.pattern.find("}", self.at)
            if end < 0:
                raise PatternError("invalid character class range", self.pattern[start:])
            name = self.pattern[self.at : end]
            self.at = end + 1
        found = _unicode_class(name.removeprefix("^"))
        if found is None:
            raise PatternError("invalid character class range", self.since(start))
        return found if (letter == "p") != name.startswith("^") else _complement(found)

    def posix_class(self) -> Ranges | None:
        """`[:alpha:]` or `[:^alpha:]` inside a class."""
        end = self.pattern.find(":]", self.at + 2)
        if self.peek(2) != "[:" or end < 0:
            return None
        start, name = self.at, self.pattern[self.at + 2 : end]
        self.at = end + 2
        found = POSIX_CLASSES.get(name.removeprefix("^"))
        if found is None:
            raise PatternError("invalid character class range", self.since(start))
        return _complement(found) if name.startswith("^") else found

    def char_class(self, flags: Flags) -> str:
        """`[...]`; a bracket that comes first is one of its characters."""
        start = self.at
        self.at += 1
        negated = self.peek() == "^"
        self.at += negated
        ranges: list[tuple[int, int]] = []
        is_first = True
        while self.at < len(self.pattern) and (self.peek() != "]" or is_first):
            is_first = False
            named = self.posix_class() or (self.named_class() if self.peek() == "\\" else None)
            ranges += named if named is not None else [self.class_range()]
        if self.at >= len(self.pattern):
            raise PatternError("missing ]", self.pattern[start:])
        self.at += 1
        return _class_source(ranges, negated, flags)

    def class_range(self) -> tuple[int, int]:
        start = self.at
        first = last = self.class_character(start)
        if self.peek() == "-" and self.peek(2)[1:] not in ("", "]"):
            self.at += 1
            last = self.class_character(start)
            if last < first:
                raise PatternError("invalid character class range", self.since(start))
        return first, last

    def class_character(self, start: int) -> int:
        if self.at >= len(self.pattern):
            raise PatternError("missing ]", self.pattern[start:])
        if self.peek() == "\\":
            return self.escaped_character()
        self.at += 1
        return ord(self.pattern[self.at - 1])
