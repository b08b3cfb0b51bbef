"""The parts of a report -> the JSON object that `--format json` prints, as plain Python values and as text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from placesim.devices.inventory import Device
from placesim.errors import PlacesimError, shown_type
from placesim.escapes import escape_json
from placesim.report.results import Result

if TYPE_CHECKING:
    import numpy as np


def device_document(device: Device) -> dict[str, Any]:
    """A device's row."""
    return device.attributes


def result_document(result: Result) -> dict[str, Any]:
    """A fetched tensor's row: type by TensorFlow's name, shape, and the elements in nested lists."""
    array = result.array
    return {
        "step": result.step,
        "name": result.name,
        "dtype": result.dtype.python_name,
        "shape": list(array.shape),
        "value": plain_value(array),
    }


def plain_value(array: np.ndarray[Any, Any]) -> Any:
    """The elements in nested lists: bytes as UTF-8 with backslash escapes, NaN and infinities as text, complex as pairs."""
    kind = array.dtype.kind
    if kind in "biu":
        return array.tolist()
    if kind == "c":
        return _mapped(array.tolist(), lambda number: [_finite(number.real), _finite(number.imag)])
    if kind == "O":
        return _mapped(array.tolist(), _plain_object)
    # bfloat16 and its kin, and the integers of less than a byte, are numpy types of kind V
    return _mapped(
        array.astype("f8").tolist() if kind == "f" or _has_fractions(array) else array.astype("i8").tolist(), _finite
    )


def _has_fractions(array: np.ndarray[Any, Any]) -> bool:
    return not array.dtype.name.startswith(("int", "uint"))


def _mapped(value: Any, convert: Any) -> Any:
    return [_mapped(part, convert) for part in value] if isinstance(value, list) else convert(value)


def _finite(number: float) -> Any:
    return number if math.isfinite(number) else "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"


def _plain_object(value: Any) -> Any:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def error_document(error: PlacesimError) -> dict[str, Any]:
    """An error's class, TensorFlow's text with its `{{node x}}`, the node to blame, and where that stands."""
    return {
        "type": shown_type(error),
        "message": error.message,
        "node": error.node,
        "location": None if error.location is None else str(error.location),
    }


def json_line(document: Any) -> str:
    """One line of JSON, in which nothing is a control character."""
    import json

    return escape_json(json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))) + "\n"
