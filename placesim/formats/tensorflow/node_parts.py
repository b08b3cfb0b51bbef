"""Parser of many NodeDefs at once: the name, op, inputs and rest of each node, as columns.

A graph may have a million nodes, nearly all in the usual form: fields in order, lengths of one byte, ASCII. Numpy finds the
parts of such nodes, in steps for all nodes of a block.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain, compress, count, repeat
from typing import Any, NamedTuple

import numpy as np

from placesim.core.dtypes import DOUBLE, FLOAT
from placesim.core.grouped import numbered
from placesim.core.protobuf_wire import BYTES, field_head
from placesim.core.tensor_fields import value_field
from placesim.formats.node_columns import find_near
from placesim.ops.attributes import TensorValue

Column = np.ndarray[Any, np.dtype[np.int64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_NAME_TAG, _OP_TAG, _INPUT_TAG = (number << 3 | BYTES for number in (1, 2, 3))
_HEAD = 2
"""Size of a tag and a short length."""
_SHORT = 127
_MAX_NODE_BYTES, _MAX_REST_BYTES = 2048, 512
"""Maximum size of a node for this parser, and of its attrs; larger nodes are rarely alike."""
_RUN_BYTES = 1 << 20
_PAD = bytes(_HEAD)
"""Padding after the last node, so that a tag can be read at its end."""
_CONST = b"Const"
NUMBER_HEADS = {dtype: field_head(value_field(dtype).number, dtype.size) for dtype in (FLOAT, DOUBLE)}
"""Bytes of a TensorProto before its only number."""
CONST_OF_NUMBER = "Const of a number"
"""Stand-in for the op of a constant that ends in a single number, which no op's name equals."""
LABEL = "\u0100"
"""Stand-in for a colocation label in a rest; no byte is this character."""
_class_keys = re.compile(rb"\n\x06_class\x12").finditer
_LABEL_HEAD = b"*\0\n\x06_class\x12\0\n\0\x12\0"
"""Bytes of an attr with a short colocation label before the label, with zeros for the four lengths."""


Numbers = dict[str, tuple[list[int], bytes]]
"""Rows of the constants that end in a single number, and the bytes of these numbers, by the name of the numbers' type."""


class NodeParts(NamedTuple):
    """The parts of the nodes of a block, as Python's plain types and columns of integers, or the bytes of these.

    `counts`, `near` and `far` describe the inputs as in `NodeColumns`. `rows` has for each node the index of its op and its
    rest, the device and the attrs with each byte as a character, in `keys`. The op is empty if the node is not in the usual
    form. If a constant ends in a single number, this is in `numbers` instead of the rest, and the op is `CONST_OF_NUMBER`. If a
    node has one colocation label, `labels` has the label by row, and the rest has `LABEL` in place of the attr.
    """

    names: list[str]
    counts: Column | bytes
    near: Column | bytes
    far: list[str]
    rows: Column | bytes
    keys: list[tuple[str, str]]
    numbers: Numbers
    labels: dict[int, str]


def tensors(numbers: Numbers) -> dict[int, TensorValue]:
    """Return all the `numbers` of a block's parts as tensors, by row."""
    found: dict[int, TensorValue] = {}
    for dtype in NUMBER_HEADS:
        rows, content = numbers[dtype.name]
        values = np.frombuffer(content, dtype.numpy)
        found |= zip(rows, map(TensorValue, repeat(dtype), map(np.array, values)), strict=True)
    return found


def tensor_at(numbers: Numbers, row: int) -> TensorValue | None:
    """Return one of the `numbers` of a block's parts as a tensor; None if the row has none."""
    for dtype in NUMBER_HEADS:
        rows, content = numbers[dtype.name]
        place = bisect_left(rows, row)
        if rows[place : place + 1] == [row]:
            return TensorValue(dtype, np.array(np.frombuffer(content, dtype.numpy)[place]))
    return None


def split_runs(spans: Sequence[int]) -> Iterator[tuple[Column, Column]]:
    """Yield the starts and ends of nodes, in blocks of about a megabyte."""
    pairs = np.asarray(spans, np.int64).reshape(-1, 2)
    starts, ends = pairs[:, 0], pairs[:, 1]
    first = 0
    while first < len(pairs):
        last = max(first + 1, int(np.searchsorted(ends, starts[first] + _RUN_BYTES)))
        yield starts[first:last], ends[first:last]
        first = last


def node_parts(data: memoryview, starts: Column, ends: Column) -> NodeParts:
    """Return the parts of the nodes of a block."""
    chunk = bytes(data[int(starts[0]) : int(ends[-1])]) + _PAD
    text, found = chunk.decode("latin-1"), np.frombuffer(chunk, np.uint8)
    start, end = starts - starts[0], ends - starts[0]
    size = end - start
    # a node in another form gets ranges inside the block, whose texts nobody reads
    is_usual = (size > 2 * _HEAD) & (size <= _MAX_NODE_BYTES)
    name = start + _HEAD
    name_end = _text_end(found, start, end - _HEAD, _NAME_TAG, is_usual)
    op = name_end + _HEAD
    op_end = _text_end(found, name_end, end, _OP_TAG, is_usual)
    input_row, input_start, input_end, rest = _inputs(found, np.where(is_usual, op_end, end), end)
    others = np.flatnonzero(found > _SHORT)
    is_usual &= (rest <= end) & (end - rest <= _MAX_REST_BYTES)
    is_usual &= np.searchsorted(others, start) == np.searchsorted(others, rest)
    numbers, rest_end = _numbers(found, np.flatnonzero(is_usual), op, op_end, rest, end)
    rests, labels = _cut(text, rest, rest_end), {}
    keys = np.fromiter((match.start() - _HEAD for match in _class_keys(chunk)), np.int64)
    if keys.size:
        for row, first, label, last in _labels(found, keys, others, start, np.where(is_usual, rest, end), rest_end):
            labels[row] = text[label:last]
            rests[row] = text[rest[row] : first] + LABEL + text[last : rest_end[row]]
    ops = _cut(text, op, np.where(is_usual, op_end, op))
    for row in chain.from_iterable(rows for rows, _ in numbers.values()):
        ops[row] = CONST_OF_NUMBER
    for row in np.flatnonzero(~is_usual).tolist():
        rests[row] = ""
    distinct, indices = numbered(zip(ops, rests, strict=True))
    is_read = is_usual[input_row]
    names = _cut(text, name, name_end)
    usual = compress(zip(names, count()), is_usual.tolist())
    near, far = find_near(usual, _cut(text, input_start[is_read], input_end[is_read]))
    counts = np.bincount(input_row[is_read], minlength=len(start)).astype(np.int64)
    return NodeParts(names, counts, near, far, np.array(indices, np.int64), distinct, numbers, labels)


def _cut(text: str, starts: Column, ends: Column) -> list[str]:
    return [text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _text_end(found: Bytes, field: Column, end: Column, tag: int, is_usual: np.ndarray[Any, Any]) -> Column:
    """Return the end of the text field with this tag that starts at `field`, for each row.

    Sets `is_usual` to false for rows where no such field with a short text ends before `end`.
    """
    length = found[field + 1]
    text_end = field + _HEAD + length
    is_usual &= (found[field] == tag) & (length <= _SHORT) & (text_end <= end)
    return np.where(is_usual, text_end, field)


def _inputs(found: Bytes, rest: Column, end: Column) -> tuple[Column, Column, Column, Column]:
    """Return the row, start and end of each input, sorted by row, and the end of the inputs of each row.

    For a row with an input that is not short, or that passes the row's end, the end of the inputs is beyond the row's end.
    """
    rest = rest.copy()
    rows, starts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    waiting = np.arange(len(rest))
    while waiting.size:
        waiting = waiting[rest[waiting] + _HEAD <= end[waiting]]
        waiting = waiting[found[rest[waiting]] == _INPUT_TAG]
        starts.append(rest[waiting] + _HEAD)
        rows.append(waiting)
        length = found[starts[-1] - 1].astype(np.int64)
        rest[waiting] = np.where(length <= _SHORT, starts[-1] + length, end[waiting] + 1)
    row, start = np.concatenate(rows), np.concatenate(starts)
    order = np.argsort(row, kind="stable")
    row, start = row[order], start[order]
    return row, start, start + found[start - 1], rest


def _numbers(found: Bytes, rows: Column, op: Column, op_end: Column, rest: Column, end: Column) -> tuple[Numbers, Column]:
    """Return the single number at the end of constants, as in `NodeParts`, and the end of the rest of each row."""
    rest_end = end.copy()
    numbers: Numbers = {}
    rows = rows[op_end[rows] - op[rows] == len(_CONST)]
    rows = rows[(found[op[rows, None] + np.arange(len(_CONST))] == np.frombuffer(_CONST, np.uint8)).all(1)]
    for dtype, head in NUMBER_HEADS.items():
        number = end - dtype.size
        fits = rows[number[rows] - len(head) >= rest[rows]]
        fits = fits[(found[number[fits, None] - len(head) + np.arange(len(head))] == np.frombuffer(head, np.uint8)).all(1)]
        fits = fits[rest_end[fits] == end[fits]]
        numbers[dtype.name] = fits.tolist(), found[number[fits, None] + np.arange(dtype.size)].tobytes()
        rest_end[fits] = number[fits]
    return numbers, rest_end


def _labels(
    found: Bytes, first: Column, others: Column, start: Column, rest: Column, rest_end: Column
) -> Iterator[tuple[int, int, int, int]]:
    """Return the rows with short ASCII colocation labels, and the start of its attr, its own start and its end.

    `first` has the starts of attrs that seem to be labels, and `others` the bytes that are not ASCII.
    """
    row = np.searchsorted(start, first, "right") - 1
    is_good = (first >= rest[row]) & (first + len(_LABEL_HEAD) <= rest_end[row])
    row, first = row[is_good], first[is_good]
    label = first + len(_LABEL_HEAD)
    head = found[first[:, None] + np.arange(len(_LABEL_HEAD))].astype(np.int64)
    lengths = [index for index, byte in enumerate(_LABEL_HEAD) if not byte]
    last = label + head[:, lengths[-1]]
    # each length reaches to the end of the label
    is_good = (head[:, lengths] == last[:, None] - first[:, None] - 1 - np.array(lengths)).all(1) & (last <= rest_end[row])
    is_good &= (last - first <= _SHORT) & (np.searchsorted(others, label) == np.searchsorted(others, last))
    head[:, lengths] = 0
    is_good &= (head == np.frombuffer(_LABEL_HEAD, np.uint8)).all(1)
    return zip(*(column[is_good].tolist() for column in (row, first, label, last)), strict=True)
