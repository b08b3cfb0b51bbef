"""Parts of a JSON Schema (draft 2020-12), and detection of the JSON types that a reader accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from placesim.core.errors import GraphBuildError
from placesim.formats.problems import InvalidValue

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
BOOLEAN: Schema = {"type": "boolean"}
_SAMPLES: Mapping[str, tuple[Any, ...]] = {
    "boolean": (True,),
    "integer": (1,),
    "number": (0.5,),
    "string": ("x", "4MiB", "5ms", "10%", "GPU:0"),
    "array": ([], ["x"]),
    "object": ({},),
}
"""Sample values of each JSON type: a reader accepts a type if it accepts one of them."""


def integer_schema(low: int, high: int) -> Schema:
    """Return the schema of whole numbers within bounds."""
    return {"type": "integer", "minimum": low, "maximum": high}


def one_of_words(words: Iterable[str]) -> Schema:
    return {"enum": list(words)}


def union_schema(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def list_schema(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def closed_schema(properties: Mapping[str, Schema], required: Sequence[str] = ()) -> Schema:
    """Return the schema of a mapping with no other keys than these."""
    found: Schema = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return found | ({"required": list(required)} if required else {})


def mapping_schema(keys: Iterable[str], known: Mapping[str, Schema], required: Sequence[str] = ()) -> Schema:
    """Return the schema of a mapping with these keys. Values of keys that are not in `known` are unrestricted."""
    return closed_schema({key: known.get(key, {}) for key in keys}, required)


def accepted_schema(read: Callable[[Any], Any]) -> Schema:
    """Return the schema of the JSON types that a reader accepts. The reader refuses a value by an exception or None."""
    types = [name for name, samples in _SAMPLES.items() if any(_takes(read, sample) for sample in samples)]
    if "number" in types and "integer" in types:
        types.remove("integer")
    return {"type": types[0] if len(types) == 1 else types}


def _takes(read: Callable[[Any], Any], sample: Any) -> bool:
    try:
        return read(sample) is not None
    except (InvalidValue, GraphBuildError):
        return False
