"""Axes of a sweep: keys and their values, as text or Python values, and their combinations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import Any, NamedTuple

from placesim.core.errors import UsageError
from placesim.core.suggestions import SIMILAR_AMONG_FEW, did_you_mean
from placesim.machine.gpu_models import find_gpu_model
from placesim.machine.options import MAX_DIM, MAX_ITERATIONS, MAX_STEPS, RANGES
from placesim.prediction.sweep_rows import Value

MOST_COMBINATIONS = 10_000
"""Default maximum number of combinations."""
_NUMBERS = {
    "gpu": RANGES["gpu"],
    "cpu": RANGES["cpu"],
    "batch": (0, MAX_DIM),
    "steps": (1, MAX_STEPS),
    "inter-op-threads": RANGES["inter_op_threads"],
    "intra-op-threads": RANGES["intra_op_threads"],
    "assume-unknown": RANGES["assume_unknown"],
}
_NAMED_NUMBERS = {"iterations": (0, MAX_ITERATIONS), "assume": (0, MAX_DIM)}
_FLAGS = ("soft-placement", "no-memory-limit", "clear-devices")
_TEXTS = ("gpu-model", "inventory", "fetch", "signature", "tag", "checkpoint")
KEYS = (*_NUMBERS, *_FLAGS, *_TEXTS)
"""Keys that are names of options."""
PREFIXES = {
    "shape": "shape:NAME",
    "feed": "feed:NAME",
    "link": "link:A-B",
    "device": "device:PATTERN",
    "config": "config:KEY",
    "iterations": "iterations:LOOP",
    "assume": "assume:NODE",
}
"""Keys that name an item of an option with several items, such as one placeholder of `shape`."""
_RANGE = re.compile(r"(-?[0-9]{1,19})\.\.(-?[0-9]{1,19})(?:([/*])([0-9]{1,19}))?")
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_OPENING, _CLOSING = "[{(", "]})"


class Axis(NamedTuple):
    """A key of a sweep, and its values."""

    key: str
    values: tuple[Value, ...]


def parse_set(text: str) -> tuple[str, str]:
    """Split `KEY=VALUES` into key and values. Raises UsageError for a text of another form."""
    key, equals, values = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"wrong --set: got '{text}', expected KEY=VALUE,...")
    return key.strip(), values


def make_axes(given: Iterable[tuple[str, Any]], most: int = MOST_COMBINATIONS) -> tuple[Axis, ...]:
    """Return the axes in order. Values are a text such as `1..8` or `16,32`, or Python values.

    Raises UsageError for invalid keys and values, and for more combinations than `most`.
    """
    axes: list[Axis] = []
    for written, values in given:
        key = _known_key(written)
        if any(axis.key == key for axis in axes):
            raise UsageError(f"duplicate key {key}: got it twice, expected one list of values")
        axes.append(Axis(key, _values(key, values, most)))
    count = prod(len(axis.values) for axis in axes)
    if count > most:
        listed = " x ".join(f"{len(axis.values)} {axis.key}" for axis in axes)
        raise _too_many(f"{count} ({listed})", most)
    return tuple(axes)


def _too_many(got: object, most: int) -> UsageError:
    error = UsageError(f"too many combinations: got {got}, expected at most {most}")
    error.help = ("raise the limit with `--max-combinations N`",)
    return error


def _known_key(written: str) -> str:
    head, colon, name = written.partition(":")
    if colon and head in PREFIXES:
        if not name.strip():
            raise UsageError(f"wrong key: got '{written}', expected {PREFIXES[head]}")
        return f"{head}:{name.strip()}"
    key = written.replace("_", "-")
    if key not in KEYS:
        expected = ", ".join((*KEYS, *PREFIXES.values()))
        near = did_you_mean(key, (*KEYS, *PREFIXES), SIMILAR_AMONG_FEW)
        raise UsageError(f"unknown key of a sweep: got '{written}', expected one of {expected}{near}")
    return key


def _values(key: str, given: Any, most: int) -> tuple[Value, ...]:
    """Return the values of a key, without duplicates."""
    texts = _split(given) if isinstance(given, str) else [_text_of(value) for value in _listed(given, most)]
    found: dict[Value, None] = {}
    for text in texts:
        if not text:
            raise UsageError(f"empty value of {key}: got '{given}', expected values separated by commas")
        for value in _read(key, text, most):
            found[value] = None
            if len(found) > most:
                raise _too_many(f"more than {most} values of {key}", most)
    if not found:
        raise UsageError(f"no values of {key}: got '{given}', expected some")
    return tuple(found)


def _listed(given: Any, most: int) -> Sequence[Any]:
    if isinstance(given, range):
        if len(given) > most:
            raise _too_many(len(given), most)
        return given
    return given if isinstance(given, list | tuple) else (given,)


def _text_of(value: Any) -> str:
    """Return a Python value in the form of the command line; a shape has `x` between its dimensions."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "x".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _split(text: str) -> list[str]:
    """Split a text at commas that are not within brackets or quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth = max(0, depth - 1)
        elif letter == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]


def _read(key: str, text: str, most: int) -> Iterable[Value]:
    limits = _NUMBERS.get(key) or _NAMED_NUMBERS.get(key.partition(":")[0])
    if limits is not None:
        return _numbers(key, text, most, limits)
    if key in _FLAGS:
        if text.lower() not in _WORDS:
            raise UsageError(f"wrong value of '{key}': got '{text}', expected true or false")
        return (_WORDS[text.lower()],)
    if key == "gpu-model":
        return (find_gpu_model(text).name,)
    if key.startswith("shape:"):
        dims = text.split("x") if text not in ("", "[]") else []
        if not all(dim.isascii() and dim.isdecimal() and len(dim) < 20 for dim in dims):
            raise UsageError(f"wrong value of '{key}': got '{text}', expected dimensions such as 16x224x224x3, or []")
        return ("x".join(dims) or "[]",)
    if key.startswith("link:"):
        from placesim.formats.graph_file.sections.overrides import parse_links

        parse_links([f"{key.removeprefix('link:')}={text}"])
    return (text,)


def _numbers(key: str, text: str, most: int, limits: tuple[int, int]) -> Sequence[int]:
    low, high = limits
    found = _RANGE.fullmatch(text)
    if found is None:
        if not _NUMBER.fullmatch(text):
            raise UsageError(
                f"wrong value of '{key}': got '{text}', expected a whole number, or a range such as 1..8, 8..64/8 or 1..64*2"
            )
        numbers: Sequence[int] = (int(text),)
    else:
        numbers = _range(key, text, found, most)
    for number in (numbers[0], numbers[-1]):
        if not low <= number <= high:
            raise UsageError(f"{key} out of range: got {number}, expected an integer from {low} to {high}")
    return numbers


def _range(key: str, text: str, found: re.Match[str], most: int) -> Sequence[int]:
    first, last, sign, by = int(found[1]), int(found[2]), found[3], int(found[4] or 1)
    least = 2 if sign == "*" else 1
    if by < least or (sign == "*" and first < 1):
        raise UsageError(f"wrong range of {key}: got '{text}', expected FIRST..LAST/STEP, or FIRST..LAST*FACTOR from 1 on")
    if first > last:
        raise UsageError(f"empty range of {key}: got '{text}', expected FIRST..LAST with the smaller number first")
    if sign == "*":
        powers = []
        while first <= last:
            powers.append(first)
            first *= by
        return powers
    numbers = range(first, last + 1, by)
    if len(numbers) > most:
        raise _too_many(len(numbers), most)
    return numbers


def combinations(axes: Sequence[Axis]) -> Iterator[tuple[Value, ...]]:
    """Yield each combination of values; the last key changes fastest."""
    return product(*(axis.values for axis in axes))


class CombinationSettings(NamedTuple):
    """The settings of a simulation for a combination: options by name, repetitions of the last step, fields of the config."""

    options: dict[str, Any]
    steps: int | None
    config: dict[str, Any]


def settings_of(
    keys: Sequence[str], values: Sequence[Value], options: Mapping[str, Any], steps: int | None = None
) -> CombinationSettings:
    """Return the settings of a combination, which override the common options."""
    found, config = dict(options), dict[str, Any]()
    for key, value in zip(keys, values, strict=True):
        head, _, name = key.partition(":")
        if key == "steps":
            assert isinstance(value, int)
            steps = value
        elif head == "config":
            config[name] = _literal(name, value)
        elif key in KEYS:
            found[key.replace("-", "_")] = value
        else:
            _ADDERS[head](found, name, str(value))
    return CombinationSettings(found, steps, config)


def _literal(name: str, value: Value) -> Any:
    from placesim.formats.graph_file.sections.overrides import parse_feed

    return parse_feed(f"{name}={value}")[1]


def _add_shape(options: dict[str, Any], name: str, value: str) -> None:
    dims = "" if value == "[]" else value.replace("x", ",")
    shapes = options.get("shape", ())
    listed = [f"{key}={','.join(map(str, dims))}" for key, dims in shapes.items()] if isinstance(shapes, Mapping) else shapes
    options["shape"] = (*listed, f"{name}={dims}")


def _add_feed(options: dict[str, Any], name: str, value: str) -> None:
    from placesim.formats.graph_file.sections.overrides import parse_feed

    options["feed"] = {**options.get("feed", {}), **dict([parse_feed(f"{name}={value}")])}


def _add_link(options: dict[str, Any], name: str, value: str) -> None:
    options["link"] = (*options.get("link", ()), f"{name}={value}")


def _add_number(option: str, options: dict[str, Any], name: str, value: str) -> None:
    given = options.get(option, ())
    listed = [f"{key}={number}" for key, number in given.items()] if isinstance(given, Mapping) else given
    options[option] = (*(text for text in listed if text.partition("=")[0] != name), f"{name}={value}")


def _add_device(options: dict[str, Any], name: str, value: str) -> None:
    devices = options.get("device", ())
    listed = devices.items() if isinstance(devices, Mapping) else [tuple(text.split("=", 1)) for text in devices]
    options["device"] = {**dict(listed), name: value}


_ADDERS: dict[str, Callable[[dict[str, Any], str, str], None]] = {
    "shape": _add_shape,
    "feed": _add_feed,
    "link": _add_link,
    "device": _add_device,
    **{option: partial(_add_number, option) for option in _NAMED_NUMBERS},
}


def value_of(key: str, text: str) -> Value:
    """Parse a single value. Raises UsageError for an invalid value."""
    (value,) = _read(_known_key(key), text, 1)
    return value
