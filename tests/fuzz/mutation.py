"""Odd values, and trees, texts and bytes with something changed in them."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

import yaml

from placesim.core.dtypes import NAMES

_INTS = (0, 1, -1, 2, 3, 7, 127, 128, 255, 65536, 2**31 - 1, 2**31, -(2**31), 2**32, 2**63 - 1, 2**63, -(2**63), 2**64)
_FLOATS = (0.0, -0.0, 0.5, 1.0, -1.5, 1e-45, 1e38, 1e308, -1e308, math.nan, math.inf, -math.inf)
_TEXTS = (
    *("", "a", "b", "c", "x", "v", "op", "F", "^a", "a:0", "a:1", "a:-1", "a:99999999999999999999", ":0", "a:b:0", "unknown"),
    *("/cpu:0", "/gpu:0", "/device:GPU:1", "/device:GPU:99999999999999999999", "/job:ps/task:1", "/job:worker", "/gpu:*"),
    *("loc:@a", "loc:@", "same name", "a/b/", "_x", "1:59:59", "0x10", "1_000", "nan", "inf", "true", "~", "2001-01-01"),
    *(
        "\x00",
        "\x1b[31mred",
        "\r\n",
        "\x7f",
        "\x85",
        "\u202e",
        "\u2028",
        "é",
        "日本",
        "\U0001f600",
        "\ud800",
        "a\tb",
        "%s%n",
        "{}",
    ),
    *("SAME", "VALID", "NHWC", "NCHW", "ij,jk->ik", "ij->ik", "(a*)*b", "[", "\\", "%d", "a" * 3000, "9" * 5000, "*", "?"),
    *("model.yaml", "x.npy", "missing", "4800MiB", "-1GiB", "999999999999TiB", "1e999", "ref", "resource", "zeros", "ones"),
)
_TREES: tuple[Any, ...] = (
    *([], {}, [[]], [None], [[1], [2, 3]], [1, "a"], [1, 2.5], [True, 1], {"a": 1}, {"": None}, {1: 2}, [-1], [None, 2]),
    *([0], [1], [2, 2], [1, 0], [65536, 65536], [2**31, 2**31, 2**31], [2**63 - 1], [1] * 9, [1] * 300),
    *({"bytes": "AA=="}, {"bytes": "?"}, {"bytes": "/w=="}, {"func": "F"}, {"func": "missing"}, {"placeholder": "T"}),
    *({"type": "float"}, {"shape": [1]}, {"file": "x.npy"}, {"file": "missing"}, {"zeros": [2]}, {"ones": [2**40]}),
    *({"random_normal": [2], "seed": -1}, {"random_uniform": [2]}, {"tensor": {"dtype": "float", "shape": [2], "value": 1}}),
    *({"tensor": {"dtype": "resource", "value": 1}}, {"constant": 1}, {"value": [1, 2]}, {"count": -1}),
)


def odd_value(rng: Random) -> Any:
    """Any value that a tree can hold, odd ones first of all."""
    kind = rng.randrange(12)
    if kind < 3:
        return rng.choice(_INTS)
    if kind == 3:
        return 10 ** rng.choice((30, 400, 5000)) * rng.choice((1, -1))
    if kind == 4:
        return rng.choice(_FLOATS)
    if kind < 8:
        return rng.choice(_TEXTS)
    if kind == 8:
        return rng.choice((None, True, False))
    if kind == 9:
        return rng.choice(NAMES)
    return copy.deepcopy(rng.choice(_TREES))


def odd_text(rng: Random) -> str:
    return rng.choice(_TEXTS)


def odd_int(rng: Random) -> int:
    return rng.choice(_INTS)


# --- trees ------------------------------------------------------------------------------------------------------------


def mutate_tree(rng: Random, tree: Any, keys: Sequence[str] = ()) -> Any:
    """A copy with one to three things changed; `keys` are names that a mapping may get or a key may change to."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        places = list(_places(tree))
        if not places:
            return odd_value(rng)
        holder, key = rng.choice(places)
        rng.choice(_CHANGES)(rng, holder, key, places, keys)
    return tree


Place = tuple[Any, Any]


def _places(tree: Any) -> Iterator[Place]:
    """Every part of a tree, by what holds it and under which key."""
    waiting = [tree]
    while waiting:
        holder = waiting.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for key in keys:
            yield holder, key
            waiting.append(holder[key])


def _replace(rng: Random, holder: Any, key: Any, places: list[Place], keys: Sequence[str]) -> None:
    holder[key] = odd_value(rng)


def _exchange(rng: Random, holder: Any, key: Any, places: list[Place], keys: Sequence[str]) -> None:
    """What stands in another such place: under the same key, or of the same type in a list."""
    value = holder[key]
    alike = [
        other[at]
        for other, at in places
        if (at == key if isinstance(holder, dict) else isinstance(other, list)) and type(other[at]) is type(value)
    ]
    found = [other for other in alike if other != value]
    holder[key] = copy.deepcopy(rng.choice(found)) if found else _like(rng, value)


def _like(rng: Random, value: Any) -> Any:
    """An odd value of the same type."""
    odd = (odd_value(rng) for _ in range(20))
    return next((other for other in odd if type(other) is type(value)), value)


def _drop(rng: Random, holder: Any, key: Any, places: list[Place], keys: Sequence[str]) -> None:
    del holder[key]


def _transplant(rng: Random, holder: Any, key: Any, places: list[Place], keys: Sequence[str]) -> None:
    """A part in another part's place."""
    other, other_key = rng.choice(places)
    holder[key] = copy.deepcopy(other[other_key])


def _repeat(rng: Random, holder: Any, key: Any, places: list[Place], keys: Sequence[str]) -> None:
    if isinstance(holder, list):
        holder[key:key] = [copy.deepcopy(holder[key]) for _ in range(rng.choice((1, 1, 2, 20)))]
    else:
        holder[key] = [copy.deepcopy(holder[key])]


def _rename(rng: Random, holder: Any, key: Any, places: list[Place], keys: Sequence[str]) -> None:
    if isinstance(holder, dict):
        holder[rng.choice(keys) if keys and rng.random() < 0.8 else odd_text(rng)] = holder.pop(key)
    else:
        rng.shuffle(holder)


def _tweak(rng: Random, holder: Any, key: Any, places: list[Place], keys: Sequence[str]) -> None:
    """A scalar changed a little."""
    value = holder[key]
    if isinstance(value, bool):
        holder[key] = not value
    elif isinstance(value, int):
        holder[key] = rng.choice(
            (value + 1, value - 1, -value, value * 2, value * 1000, value + 0.5 if abs(value) < 2**64 else 0)
        )
    elif isinstance(value, float):
        holder[key] = rng.choice((-value, value * 1e30, math.nan, math.inf))
    elif isinstance(value, str):
        holder[key] = mutate_text(rng, value)
    elif isinstance(value, list):
        holder[key] = [value] if rng.random() < 0.5 else value[:-1]
    else:
        holder[key] = odd_value(rng)


_Change = Callable[[Random, Any, Any, list[Place], Sequence[str]], None]
_CHANGES: tuple[_Change, ...] = (
    *(_exchange, _exchange, _exchange, _exchange, _exchange, _drop, _drop, _tweak, _tweak, _tweak, _replace),
    *(_transplant, _repeat, _rename),
)


# --- texts and bytes --------------------------------------------------------------------------------------------------


_TOKENS = (
    *(
        ": ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        "&a ",
        "*a",
        "!!binary ",
        "!!float ",
        "!!python/object:a ",
        "<<: ",
        "|\n",
        "> ",
        "? ",
        "#",
    ),
    *(
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        "'",
        '"',
        "\\",
        "\t",
        "\n",
        "\r",
        "\x00",
        "\x1b[2J",
        "\ufeff",
        "\x85",
        "~",
        ".nan",
        "-.inf",
    ),
    *("1:59:59", "0o17", "0b11", "1_0", "2001-01-01", "99999999999999999999", "é", "^", ":", "/", "%", "\\xff", "=", ","),
)


def mutate_text(rng: Random, text: str) -> str:
    """A text with some characters dropped, put in, or doubled."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice((0, 0, 1, 1, 5, 30)))
        put = rng.choice((rng.choice(_TOKENS), rng.choice(_TOKENS), "", text[start:end] * 2))
        text = text[:start] + put + text[end:]
    return text


def mutate_bytes(rng: Random, data: bytes) -> bytes:
    """Bytes with bits turned, parts cut out or doubled, and lengths that do not fit."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        start = rng.randrange(len(changed) + 1)
        end = min(len(changed), start + rng.choice((1, 1, 2, 8, 100)))
        kind = rng.randrange(6)
        if kind == 0:
            changed[start:end] = b""
        elif kind == 1:
            changed[start:start] = changed[start:end] * rng.choice((1, 2, 50))
        elif kind == 2:
            changed[start:end] = rng.choice(
                (b"\xff" * 9 + b"\x01", b"\x00", b"\x80", b"\xff", b"\x7f", b"\x1b[31m", b"/", b"..")
            )
        elif kind == 3:
            del changed[start:]
        elif start < len(changed):
            changed[start] = rng.randrange(256) if kind == 4 else changed[start] ^ 1 << rng.randrange(8)
    return bytes(changed)


def mutate_message(rng: Random, data: bytes) -> bytes:
    """A protobuf message with fields changed, dropped, doubled or swapped, and every length around them right."""
    fields = _fields(data)
    if not fields:
        return mutate_bytes(rng, data)
    index = rng.randrange(len(fields))
    number, kind, value = fields[index]
    change = rng.randrange(8)
    if kind == 2 and change < 6:
        fields[index] = (number, kind, mutate_message(rng, value) if _fields(value) else _odd_bytes(rng, value))
    elif change < 3 and kind == 0:
        fields[index] = (number, kind, odd_int(rng) % 2**64)
    elif change < 5:
        fields.insert(index, rng.choice(fields))
    elif change == 5:
        fields[index] = (rng.choice(fields)[0], kind, value)
    else:
        del fields[index]
    return b"".join(_encoded(*field) for field in fields)


def _odd_bytes(rng: Random, value: bytes) -> bytes:
    kind = rng.randrange(3)
    if kind == 0:
        return mutate_bytes(rng, value)
    return (
        odd_text(rng).encode("utf-8", "surrogatepass")
        if kind == 1
        else mutate_text(rng, value.decode(errors="replace")).encode()
    )


Field = tuple[int, int, Any]


def _fields(data: bytes) -> list[Field]:
    """The fields of a message by number, wire type and value; none where the bytes are no message."""
    found: list[Field] = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 1 << 16 or kind not in (0, 1, 2, 5):
            return []
        if kind == 0:
            value, at = _varint(data, at)
            found.append((number, kind, value))
            continue
        size = {1: 8, 5: 4}.get(kind, 0)
        if kind == 2:
            size, at = _varint(data, at)
        found.append((number, kind, data[at : at + size]))
        at += size
    return found if at == len(data) else []


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at
    return 0, len(data) + 1


def _encoded(number: int, kind: int, value: Any) -> bytes:
    head = _encoded_varint(number << 3 | kind)
    if kind == 0:
        return head + _encoded_varint(value)
    return head + (_encoded_varint(len(value)) if kind == 2 else b"") + bytes(value)


def _encoded_varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes((*found, value))


# --- files ------------------------------------------------------------------------------------------------------------

_CONSTANT = re.compile(r"(?<=[\[:, ])(-?)(NaN|Infinity)(?=[\],}])")


def dump(tree: Any) -> bytes:
    """A tree as JSON, which is YAML too; but for nan and infinities, which are written as YAML has them."""
    with _any_digits():
        text = json.dumps(tree)
    return _CONSTANT.sub(lambda found: f"{found[1]}.{'nan' if found[2] == 'NaN' else 'inf'}", text).encode()


def parse(content: bytes) -> Any:
    """The tree of a file in JSON or YAML; None where it is no such file, or a large one."""
    if len(content) > 200_000 or b"\x00" in content:
        return None
    with _any_digits():
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            pass
        try:
            return yaml.load(content, _YamlLoader)
        except Exception:  # a mutated text is anything; PyYAML raises many things
            return None


_YamlLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@contextmanager
def _any_digits() -> Iterator[None]:
    """Numbers of any length may be written here; the one who reads them has its own bound."""
    import sys

    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)
