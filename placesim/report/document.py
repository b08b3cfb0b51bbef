"""The JSON object that `--format json` prints, as plain Python values and as text."""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from placesim.core.errors import PlacesimError, shown_type
from placesim.core.escaping import escape_json
from placesim.runtime.sessions.results import Result

if TYPE_CHECKING:
    import numpy as np


def result_document(result: Result) -> dict[str, Any]:
    """Return a fetched tensor's row: TensorFlow's name of its type, its shape, and its elements in nested lists."""
    array = result.array
    return _result_head(result, array) | {"value": plain_value(array)}


def _result_head(result: Result, array: np.ndarray[Any, Any]) -> dict[str, Any]:
    return {"step": result.step, "name": result.name, "dtype": result.dtype.python_name, "shape": list(array.shape)}


def plain_value(array: np.ndarray[Any, Any]) -> Any:
    """Return the elements in nested lists.

    Bytes become UTF-8 text with backslash escapes, NaN and infinities become text, and complex numbers become pairs.
    """
    kind = array.dtype.kind
    if kind in "biu":
        return array.tolist()
    if kind == "c":
        return _mapped(array.tolist(), lambda number: [_finite(number.real), _finite(number.imag)])
    if kind == "O":
        return _mapped(array.tolist(), _plain_object)
    # ml_dtypes' types, such as bfloat16 and int4, are numpy types of kind V
    if kind != "f" and array.dtype.name.startswith(("int", "uint")):
        return array.astype("i8").tolist()
    numbers = array.astype("f8")
    # nearly always all numbers are finite, so that none needs a conversion
    return numbers.tolist() if (abs(numbers) < math.inf).all() else _mapped(numbers.tolist(), _finite)


def _mapped(value: Any, convert: Any) -> Any:
    return [_mapped(part, convert) for part in value] if isinstance(value, list) else convert(value)


def _finite(number: float) -> Any:
    return number if math.isfinite(number) else "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"


def _plain_object(value: Any) -> Any:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def error_document(error: PlacesimError) -> dict[str, Any]:
    """Return an error's JSON object: class, TensorFlow's text with `{{node x}}`, and the failing node with its location."""
    return {
        "type": shown_type(error),
        "message": error.message,
        "node": error.node,
        "location": None if error.location is None else str(error.location),
    }


# --- text -----------------------------------------------------------------------------------------------------------


ROWS_AT_A_TIME = 1024
ELEMENTS_AT_A_TIME = 1 << 14
LETTERS_AT_A_TIME = 1 << 20


def json_line(document: Any) -> str:
    """Return one line of JSON, with all control characters escaped."""
    return _json(document) + "\n"


def _json(value: Any) -> str:
    import json

    return escape_json(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def json_text(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the text of `json_line` in pieces. Iterators become lists, and only some of their rows are in memory at a time."""
    yield from json_pieces(document)
    yield "\n"


def json_pieces(document: Mapping[str, Any], is_open: bool = False, is_begun: bool = False) -> Iterator[str]:
    """Yield the members of an object in pieces; values that are iterators become lists of rows.

    With `is_begun`, the opening brace is left out; with `is_open`, the closing brace is left out.
    """
    before = "" if is_begun else "{"
    for key, value in document.items():
        yield f"{before}{_json(key)}:"
        before = ","
        yield from _json_value(value)
    if not is_open:
        yield "}"


def _json_value(value: Any) -> Iterator[str]:
    if isinstance(value, Iterator):
        yield from _json_list(value)
    elif _has_rows(value):
        yield from json_pieces(value)
    else:
        yield _json(value)


def _has_rows(value: Any) -> bool:
    return isinstance(value, Mapping) and any(isinstance(inner, Iterator) for inner in value.values())


def _json_list(rows: Iterator[Any]) -> Iterator[str]:
    before = "["
    while some := list(islice(rows, ROWS_AT_A_TIME)):
        if any(map(_has_rows, some)):
            for row in some:
                yield before
                yield from _json_value(row)
                before = ","
            continue
        yield before + _json(some)[1:-1]
        before = ","
    yield "[]" if before == "[" else "]"


def result_pieces(result: Result) -> Iterator[str]:
    """Yield the JSON of a fetched tensor's row in pieces, so that the text of a large tensor is never in memory as a whole."""
    array = result.array
    head = _json(_result_head(result, array))
    yield f'{head[:-1]},"value":'
    yield from _value_pieces(array)
    yield "}"


def _value_pieces(array: np.ndarray[Any, Any]) -> Iterator[str]:
    """Yield the JSON of `plain_value`: a few rows at a time, and each long string separately."""
    if not _has_long_strings(array) and (array.size <= ELEMENTS_AT_A_TIME or not array.ndim):
        yield _json(plain_value(array))
    elif not array.ndim:
        yield from _string_pieces(array.item())
    else:
        rows = max(1, ELEMENTS_AT_A_TIME // math.prod(array.shape[1:]))
        before = "["
        for at in range(0, len(array), rows):
            some = array[at : at + rows]
            if rows > 1 and not _has_long_strings(some):
                yield before + _json(plain_value(some))[1:-1]
                before = ","
                continue
            for index in range(len(some)):
                yield before
                yield from _value_pieces(some[index, ...])
                before = ","
        yield "]"


def _has_long_strings(array: np.ndarray[Any, Any]) -> bool:
    if array.dtype.kind != "O":
        return False
    return sum(len(text) for text in array.flat if isinstance(text, bytes)) > LETTERS_AT_A_TIME


def _string_pieces(text: bytes) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    yield '"'
    for at in range(0, len(text), LETTERS_AT_A_TIME):
        yield _json(decoder.decode(text[at : at + LETTERS_AT_A_TIME], at + LETTERS_AT_A_TIME >= len(text)))[1:-1]
    yield '"'
