"""Parser of YAML text to a tree of mappings, sequences and scalars, with the position of each.

It uses the parser's events, so that a malicious file is refused before it uses much memory or time. Plain scalars have the
values of PyYAML's SafeLoader (YAML 1.1), except that a date stays text, and `1e-3` is a number as in YAML 1.2 and JSON.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NoReturn

import yaml

from placesim.core.errors import GraphFileError, Location, Problem
from placesim.core.process.progress import report_stage
from placesim.graph.graph import COLUMNS

MAX_DEPTH = 100
MAX_EXPANSION = 10_000_000
MAX_INTEGER_BITS = 14_000
"""Maximum number of bits of an integer, since Python prints at most 4,300 digits. A longer integer stays text."""
_MAX_SEXAGESIMAL_PARTS = 2_500
FIRST_POSITION = COLUMNS + 1
"""Position of line 1, column 1."""
_PACK_DEPTH = 4
MAX_CACHED = 1 << 18
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TakePieces = Callable[[str, int, int, Any], Iterator[tuple[int, int]]]
"""Type of the function `take_pieces` in `sequence_splitting`."""


class Mapping(dict[Any, Any]):
    """A mapping with `marks`: its start, then the starts of each key and value in order."""

    __slots__ = ("_numbers", "marks")
    marks: Any
    _numbers: dict[Any, int]

    def number(self, key: Any) -> int:
        """Return the index of a key in the mapping. Indices are computed when they are first needed."""
        if not hasattr(self, "_numbers") or len(self._numbers) != len(self):
            self._numbers = {key: number for number, key in enumerate(self)}
        return self._numbers[key]


class Sequence(list[Any]):
    """A sequence with `marks`: its start, then the start of each entry."""

    __slots__ = ("marks",)
    marks: Any


class _Merge:
    """The value of a plain `<<`."""

    def __repr__(self) -> str:
        return "<<"


MERGE = _Merge()
_NO_KEY = object()


class _TextStream:
    """A text as a file, which the parser reads piece by piece, so that it does not copy the whole text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def read(self, size: int) -> str:
        """Return the next `size` characters."""
        start = self._position
        self._position += size
        return self._text[start : self._position]


def _event_source(text: str) -> Callable[[], Any]:
    """Return a function that returns the next YAML event of a text at each call."""
    loader = _Loader(_TextStream(text) if text.isascii() else text)
    next_event: Callable[[], Any] = loader.get_event
    return next_event


def pack_mark(mark: Any) -> int:
    """Pack a parser's mark as `line * COLUMNS + column`, both from 1."""
    if mark.__class__ is int:
        return int(mark)
    return int(mark.line) * COLUMNS + min(int(mark.column), COLUMNS - 2) + FIRST_POSITION


def own_position(tree: Any) -> int:
    """Return the start of a collection; 0 for a collection that was not read from a file."""
    marks = getattr(tree, "marks", None)
    return pack_mark(marks[0]) if marks else 0


def key_position(tree: Any, key: Any) -> int:
    """Return the position of a mapping's key."""
    marks = getattr(tree, "marks", None)
    return pack_mark(marks[1 + 2 * tree.number(key)]) if marks else 0


def value_position(tree: Any, key: Any) -> int:
    """Return the position of a mapping's value, or of a sequence's entry by its index."""
    marks = getattr(tree, "marks", None)
    if not marks:
        return 0
    return pack_mark(marks[1 + key] if isinstance(tree, list) else marks[2 + 2 * tree.number(key)])


def _refuse(file: str, position: int, message: str) -> NoReturn:
    raise GraphFileError((Problem(Location(file, *divmod(position, COLUMNS)), message),))


# --- scalars --------------------------------------------------------------------------------------------------------

_FLOAT = re.compile(
    r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"
    r"|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_INT = re.compile(
    r"[-+]?0b[01_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+"
)
EXPONENT = r"[eE][-+]?[0-9]+"
PLAIN_FLOAT = re.compile(rf"[-+]?[0-9]+\.[0-9]*(?:{EXPONENT})?|[-+]?(?:\.[0-9]+|[0-9]+){EXPONENT}")
_WORDS: dict[str, Any] = {
    **{
        spelling: value
        for word, value in {"yes": True, "no": False, "true": True, "false": False, "on": True, "off": False}.items()
        for spelling in (word, word.capitalize(), word.upper())
    },
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    "<<": MERGE,
}
PLAIN_WORDS = frozenset(word for word in _WORDS if word[:1].isalpha())
"""Words that are not strings unless quoted."""
NUMBER_STARTS = frozenset("+-.0123456789")


def resolve_plain(text: str) -> Any:
    """Return the value of a plain scalar: None, a boolean, a number, `MERGE`, or the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in NUMBER_STARTS:
        return text
    try:
        if PLAIN_FLOAT.fullmatch(text):
            return float(text)
        if _INT.fullmatch(text):
            return _parse_int(text.replace("_", ""))
        if _FLOAT.fullmatch(text):
            return _parse_float(text.replace("_", "").lower())
    except ValueError:  # no digits, or too many for Python
        return text
    return text


def _parse_int(text: str) -> int:
    sign, digits = (-1 if text[0] == "-" else 1), text.lstrip("+-")
    if ":" in digits:
        return sign * _bounded(int(_sexagesimal(digits)))
    base = {"0b": 2, "0x": 16}.get(digits[:2], 8 if len(digits) > 1 and digits[0] == "0" else 10)
    return sign * _bounded(int(digits[2:] if base in (2, 16) else digits, base))


def _bounded(value: int) -> int:
    if value.bit_length() > MAX_INTEGER_BITS:
        raise ValueError("more digits than Python prints")
    return value


def _parse_float(text: str) -> float:
    sign, digits = (-1.0 if text[0] == "-" else 1.0), text.lstrip("+-")
    if ":" in digits:
        return sign * _sexagesimal(digits)
    return sign * float(digits.removeprefix(".") if digits in (".inf", ".nan") else digits)


def _sexagesimal(text: str) -> float:
    parts = text.split(":")
    if len(parts) > _MAX_SEXAGESIMAL_PARTS:
        raise ValueError("more digits than Python reads")
    total: float = 0
    for part in parts:
        total = total * 60 + (float(part) if "." in part else int(part))
    return total


_TAG = "tag:yaml.org,2002:"


def _resolve_tagged(tag: str, text: str) -> Any:
    """Return the value of a scalar with one of YAML's tags. Raises KeyError for another tag, ValueError for a wrong text."""
    kind = {"str": str, "null": type(None), "bool": bool, "int": int, "float": float}[tag.removeprefix(_TAG)]
    if kind is str:
        return text
    value = resolve_plain(text)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ValueError(text)
    return value


# --- the tree -------------------------------------------------------------------------------------------------------


def decode_utf8(data: bytes, file: str) -> str:
    """Decode a file's text. Raises GraphFileError unless it is UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        position = line * COLUMNS + min(column, COLUMNS - 1)
        _refuse(file, position, f"not UTF-8 text: got byte 0x{data[error.start]:02x}, expected UTF-8 ({error.reason})")


_HALF = re.compile(r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
"""A character beyond the first 65,536 in JSON's notation, a pair of escapes that YAML does not have."""
_JSON_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_HALF_IN_TEXT = re.compile(rf"\\\\|{_HALF.pattern}")


def _with_whole_characters(text: str) -> str:
    """Return JSON with surrogate pairs as YAML's escapes, without a change of columns; other texts are unchanged."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text

    def joined(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        high, low = int(found[1], 16) - 0xD800, int(found[2], 16) - 0xDC00
        return f"\\U{0x10000 + (high << 10) + low:08x}"

    return _JSON_TEXT.sub(lambda found: _HALF_IN_TEXT.sub(joined, found[0]).ljust(len(found[0])), text)


def read_tree(
    text: str,
    file: str,
    open_sequence: Callable[[Any, Any], list[Any] | None] | None = None,
    take_pieces: TakePieces | None = None,
) -> Any:
    """Parse a document. Returns None for an empty file. Raises GraphFileError for an invalid file.

    `open_sequence` is called for each sequence in the root, with the root so far and the key. It may return a list, to which
    the entries are appended. `take_pieces` may then read the first entries faster.
    """
    if "\\" in text and _HALF.search(text):
        text = _with_whole_characters(text)
    try:
        reader = _TreeReader(text, file, open_sequence, take_pieces)
        with report_stage("reading KiB", lambda: (reader.read_letters >> 10, len(text) >> 10)):
            return reader.read()
    except yaml.YAMLError as error:
        _refuse(file, _error_position(error, reader.text), _error_message(error, text, reader.first_line))
    except UnicodeEncodeError as error:  # an argument of the command line may have bytes that are not UTF-8
        got = error.object[error.start : error.start + 1].encode("ascii", "backslashreplace").decode()
        _refuse(file, FIRST_POSITION, f"not UTF-8 text: got {got}, expected UTF-8")


def _error_position(error: yaml.YAMLError, text: str) -> int:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        return pack_mark(mark)
    before = text.encode()[: getattr(error, "position", None) or 0].decode(errors="ignore")
    return (before.count("\n") + 1) * COLUMNS + min(len(before) - (before.rfind("\n") + 1) + 1, COLUMNS - 1)


_NOT_FOUND = "did not find expected "
_CONTEXTS = {
    "while parsing a flow sequence": "[...] list",
    "while parsing a flow mapping": "{...} mapping",
    "while parsing a block collection": "list",
    "while parsing a block mapping": "mapping",
    "while scanning a quoted scalar": "quoted text",
    "while parsing a quoted scalar": "quoted text",
}
"""Names of the parser's contexts that begin at the context's mark; other contexts tell users nothing."""
_EXPECTED = {
    "did not find expected key": "a key",
    "did not find expected '-' indicator": "'-'",
    "did not find expected node content": "a value",
    "did not find expected <document start>": "the end of the file",
    "did not find expected alphabetic or numeric character": "a letter or a digit",
    "found unexpected end of stream": "a quote that closes it",
    "found unknown escape character": "an escape of YAML such as \\n, or \\\\ for a backslash",
    "found character that cannot start any token": "quotes around a text that begins with it",
    "mapping values are not allowed in this context": "one key and one value, or quotes around a text with ': '",
}
"""Expected texts for the parser's problems."""
_UNREADABLE = {"control characters are not allowed": "got a control character, expected text without control characters"}


def _marked_text(mark: Any, text: str) -> str:
    """Return the text at the position of an error, in the form of messages."""
    character = next(islice(text.split("\n"), mark.line, None), "")[mark.column : mark.column + 1]
    return f"'{character}'" if character else "the end of the file" if mark.line >= text.count("\n") else "the end of the line"


def _error_message(error: yaml.YAMLError, text: str, first_line: Callable[[Any], int]) -> str:
    if not isinstance(error, yaml.MarkedYAMLError):
        reason = str(getattr(error, "reason", error))
        return f"not valid YAML: {_UNREADABLE.get(reason, reason)}"
    problem = str(error.problem)
    got = "" if error.problem_mark is None else _marked_text(error.problem_mark, text)
    if got == "'\t'":
        return "not valid YAML: got a tab, expected spaces as indentation"
    place = ""
    if error.context == "while parsing a flow node":  # this context's mark is the place of a missing value
        place = " in a [...] list or {...} mapping"
    elif error.context in _CONTEXTS and error.context_mark is not None:
        place = f" in the {_CONTEXTS[error.context]} that begins on line {first_line(error.context_mark) + 1}"
    expected = _EXPECTED.get(problem, problem.removeprefix(_NOT_FOUND) if problem.startswith(_NOT_FOUND) else "")
    return f"not valid YAML{place}: {f'got {got}, expected {expected}' if got and expected else problem}"


class _TreeReader:
    """A reader of one text: the parser, the anchors so far, and the sizes of their aliases.

    `text` is the parser's text, in which entries that were read without the parser are blank lines.
    """

    def __init__(
        self,
        text: str,
        file: str,
        open_sequence: Callable[[Any, Any], list[Any] | None] | None,
        take_pieces: TakePieces | None,
    ) -> None:
        self.text = text
        self._file = file
        self._event: Any = None
        self._open_sequence = open_sequence
        self._take_pieces = take_pieces
        self._skipped_letters = 0
        self._skipped_lines = (0, 0, 0)
        self._anchors: dict[str, Any] = {}
        self._unfinished: dict[int, str] = {}
        self._sizes: dict[int, int] = {}
        self._kept: list[Any] = []
        self._expansion = 0
        self._has_anchors = "&" in text
        self._is_json = text.lstrip()[:1] == "{"
        self._next_event: Callable[[], Any]

    @property
    def read_letters(self) -> int:
        """Return the number of characters read, for progress displays."""
        return self._skipped_letters + (0 if self._event is None else int(self._event.end_mark.index))

    def first_line(self, mark: Any) -> int:
        """Return the first line of a collection that starts at a parser's mark, even if `take_pieces` has read that line."""
        first, *opened = self._skipped_lines
        return first if [mark.line, mark.column] == opened else int(mark.line)

    def read(self) -> Any:
        self._next_event = _event_source(self.text)
        self._next_event()
        if self._next_event().__class__ is yaml.StreamEndEvent:
            return None
        root = self._read_root()
        self._next_event()
        event = self._next_event()
        if event.__class__ is not yaml.StreamEndEvent:
            _refuse(self._file, pack_mark(event.start_mark), "more than one document: got a second one, expected one")
        return root

    def _read_root(self) -> Any:
        event = self._next_event()
        if event.__class__ is yaml.ScalarEvent:
            return resolve_plain(event.value) if event.implicit[0] else event.value
        if event.__class__ is yaml.AliasEvent:
            self._expand_alias(event)  # this raises an error, because no anchor is above the alias
        return self._read_collection(event)

    def _read_collection(self, event: Any) -> Any:
        """Read a collection in a loop over events; names are local for speed."""
        next_event, open_collection = self._next_event, self._open
        known: dict[str, Any] = {}
        recall, unfinished, no_key = known.get, self._unfinished, _NO_KEY
        scalar, mapping_end, sequence_end = yaml.ScalarEvent, yaml.MappingEndEvent, yaml.SequenceEndEvent
        mapping_start, alias, has_anchors = yaml.MappingStartEvent, yaml.AliasEvent, self._has_anchors
        stack: list[Any] = []
        container = self._root = open_collection(event, 0, no_key)
        is_map, key, marks = container.__class__ is Mapping, no_key, container.marks
        while True:
            event = next_event()
            kind = event.__class__
            if kind is scalar:
                mark = event.start_mark
                plain, quoted = event.implicit
                text = event.value
                value = recall(text)
                if plain:
                    if value is None:
                        if len(known) > MAX_CACHED:
                            known.clear()
                        value = known[text] = resolve_plain(text)
                elif not quoted:
                    value = self._tagged(event)
                elif value.__class__ is not str:
                    value = text
                if has_anchors and event.anchor is not None:
                    self._anchors[event.anchor] = value
                marks.append(mark)
                if not is_map:
                    container.append(value)
                elif key is not no_key:
                    container[key] = value
                    key = no_key
                else:
                    if value in container:
                        self._check_key(container, value, mark)
                    key = value
                continue
            if kind is mapping_end or kind is sequence_end:
                value = container
                if is_map and MERGE in container:
                    value = self._merged(container)
                mark = marks[0]
                self._event = event
                if len(stack) >= _PACK_DEPTH and value is container:
                    value.marks = array("q", [m.line * COLUMNS + min(m.column, COLUMNS - 2) + FIRST_POSITION for m in marks])
                if unfinished:
                    self._finish(container, value)
                if not stack:
                    return value
                container, key, marks = stack.pop()
                is_map = container.__class__ is Mapping
            elif kind is alias:
                mark = event.start_mark
                value = self._expand_alias(event)
            else:
                if is_map and key is no_key:
                    _refuse(self._file, pack_mark(event.start_mark), "a key is a collection: expected a scalar")
                stack.append((container, key, marks))
                if event.tag is None and event.anchor is None and 1 < len(stack) < MAX_DEPTH:
                    is_map = kind is mapping_start
                    container = Mapping() if is_map else Sequence()
                    marks = container.marks = [event.start_mark]
                else:
                    container = open_collection(event, len(stack), key)
                    is_map, marks = container.__class__ is Mapping, container.marks
                    next_event = self._next_event
                key = no_key
                continue
            marks.append(mark)
            if not is_map:
                container.append(value)
            elif key is not no_key:
                container[key] = value
                key = no_key
            else:
                key = value
                self._check_key(container, key, mark)

    def _open(self, event: Any, depth: int, key: Any) -> Any:
        """Return the empty collection that a start event begins; `depth` collections are open around it."""
        mark = event.start_mark
        if event.tag is not None and event.tag not in (_TAG + "map", _TAG + "seq", "!"):
            self._refuse_tag(event)
        if depth >= MAX_DEPTH:
            _refuse(self._file, pack_mark(mark), f"nesting too deep: got level {depth + 1}, expected at most {MAX_DEPTH}")
        taker = None
        if depth == 1 and self._open_sequence is not None and event.anchor is None:
            taker = self._open_sequence(self._root, key) if event.__class__ is yaml.SequenceStartEvent else None
        container: Any = Mapping() if event.__class__ is yaml.MappingStartEvent else taker if taker is not None else Sequence()
        container.marks = [mark]
        if event.anchor is not None:
            self._anchors[event.anchor] = container
            self._unfinished[id(container)] = event.anchor
        if taker is not None and self._take_pieces is not None and not self._is_json:
            self._read_pieces(mark, taker, self._take_pieces)
        return container

    def _read_pieces(self, mark: Any, taker: list[Any], take_pieces: TakePieces) -> None:
        """Read the first entries of a sequence by `take_pieces`, and restart the parser after them.

        In the parser's text, blank lines replace these entries, so that line numbers stay the same.
        """
        text, begun, first = self.text, self.text.rfind("\n", 0, mark.index) + 1, mark.line
        start, number = begun, first
        for place in take_pieces(text, mark.index, first, taker):
            start, number = place
            self._skipped_letters = start - begun
        if number == first:
            return
        self.text = text[:begun] + "\n" * (number - first) + text[start:]
        self._skipped_letters -= number - first
        self._skipped_lines = (first, number, mark.column)
        self._next_event = next_event = _event_source(self.text)
        opened: Any = None
        while opened is None or opened.line != number:  # skip events until the sequence opens
            event = next_event()
            assert event is not None, "the sequence opens in the line where the parser goes on"
            opened = event.start_mark if event.__class__ is yaml.SequenceStartEvent else None

    def _check_key(self, container: Any, key: Any, mark: Any) -> None:
        if isinstance(key, dict | list):
            _refuse(self._file, pack_mark(mark), "a key is a collection: expected a scalar")
        if key in container:
            first = Location(self._file, *divmod(key_position(container, key), COLUMNS))
            message = f"duplicate key: got '{key}' again, expected it once (the first is at {first})"
            _refuse(self._file, pack_mark(mark), message)

    def _finish(self, container: Any, value: Any) -> None:
        name = self._unfinished.pop(id(container), None)
        if name is not None:
            self._kept += (container, value)
            self._sizes[id(value)] = 0
            if self._anchors.get(name) is container:
                self._anchors[name] = value

    def _expand_alias(self, event: Any) -> Any:
        position = pack_mark(event.start_mark)
        if event.anchor not in self._anchors:
            _refuse(self._file, position, f"unknown alias: got '*{event.anchor}', expected an anchor above it")
        value = self._anchors[event.anchor]
        if id(value) in self._unfinished:
            _refuse(
                self._file,
                position,
                f"recursive alias: got '*{event.anchor}' inside its own anchor, expected it after the end of '&{event.anchor}'",
            )
        self._expansion += self._size(value)
        if self._expansion > MAX_EXPANSION:
            _refuse(
                self._file,
                position,
                f"aliases expand too far: got more than {MAX_EXPANSION:,} entries, expected at most that many",
            )
        return value

    def _size(self, value: Any) -> int:
        """Return the number of values and collections that a value expands to, with all its aliases."""
        if not isinstance(value, dict | list):
            return 1
        known = self._sizes.get(id(value))
        if known:
            return known
        total = 1 + sum(map(self._size, value.values() if isinstance(value, dict) else value))
        if known is not None:
            self._sizes[id(value)] = total
        return total

    def _merged(self, container: Mapping) -> Mapping:
        """Return a mapping with its `<<` resolved: merged keys come first, and its own keys have priority."""
        marks = container.marks
        sources = container[MERGE]
        sources = sources if isinstance(sources, list) else [sources]
        found: dict[Any, tuple[Any, Any, Any]] = {}
        for source in sources:
            if not isinstance(source, Mapping):
                position = value_position(container, MERGE)
                _refuse(self._file, position, "a merge key '<<' without a mapping: expected a mapping or a list of them")
            for index, (key, value) in enumerate(source.items()):
                found.setdefault(key, (value, source.marks[1 + 2 * index], source.marks[2 + 2 * index]))
        for index, (key, value) in enumerate(container.items()):
            if key is not MERGE:
                found[key] = (value, marks[1 + 2 * index], marks[2 + 2 * index])
        merged = Mapping((key, value) for key, (value, _, _) in found.items())
        merged.marks = [marks[0], *(mark for _, key, value in found.values() for mark in (key, value))]
        return merged

    def _tagged(self, event: Any) -> Any:
        try:
            return _resolve_tagged(event.tag, event.value)
        except KeyError:
            self._refuse_tag(event)
        except ValueError:
            expected = f"expected a value of tag !!{event.tag.removeprefix(_TAG)}"
            _refuse(self._file, pack_mark(event.start_mark), f"wrong scalar: got '{event.value}', {expected}")

    def _refuse_tag(self, event: Any) -> NoReturn:
        tag = event.tag.replace(_TAG, "!!", 1)
        _refuse(self._file, pack_mark(event.start_mark), f"unknown tag: got '{tag}', expected none")
