"""Nodes are read alike whether their reader has read others like them or not."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np

from placesim.formats.tensorflow.messages import message_class
from placesim.formats.tensorflow.node_def import NodeReader
from placesim.ops.attributes import TensorValue
from placesim.wire import BYTES, WireError, message_field, number_field

FLOAT, DOUBLE, INT32 = 1, 2, 3
SPECIAL = [0.0, -0.0, 1.5, float("nan"), float("inf"), 1e-40]


def _node(rng: random.Random) -> bytes:
    """A NodeDef: mostly as it is usually written, at times with parts of it twice, cut, in another order, or unknown ones."""
    name = rng.choice(["a", "layer/n_1", "é", "x" * 126, "x" * 200, ""]) + str(rng.randrange(50))
    inputs = [rng.choice(["a", "b:1", "^c", "y" * 130]) for _ in range(rng.choice([0, 1, 2, 2, 3]))]
    device = rng.choice(["", "/device:CPU:0", "/gpu:1"])
    op = rng.choice(["Const", "Const", "Add", "NoOp"])
    entries = [message_class("AttrEntry")(key="T")] if op == "Add" else []
    for entry in entries:
        entry.value.type = rng.choice([FLOAT, INT32])
    if op == "Const":
        dtype = rng.choice([FLOAT, FLOAT, DOUBLE, INT32])
        kind, value = (
            message_class("AttrEntry")(key="dtype"),
            message_class("AttrEntry")(key=rng.choice(["value", "value", "v"])),
        )
        kind.value.type = value.value.tensor.dtype = dtype
        if rng.random() < 0.9:
            value.value.tensor.tensor_shape.SetInParent()
        if rng.random() < 0.1:
            value.value.tensor.tensor_shape.dim.add(size=rng.choice([1, 2]))
        if rng.random() < 0.05:
            value.value.tensor.version_number = 1
        number = rng.choice(SPECIAL)
        if dtype == FLOAT:
            value.value.tensor.float_val.extend([number] * rng.choice([1, 1, 1, 2, 0]))
        elif dtype == DOUBLE:
            value.value.tensor.double_val.append(number)
        else:
            value.value.tensor.int_val.append(rng.choice([0, 5, 300]))
        entries = [kind, value] if rng.random() < 0.8 else [value, kind]
    written = [entry.SerializeToString(deterministic=True) for entry in entries]
    outline = message_class("NodeOutline")(name=name, op=op, input=inputs, device=device, attr=written)
    data = bytes(outline.SerializeToString())
    more = [
        b"",
        b"",
        b"",
        message_field(1, b"other"),
        message_field(3, b"late"),
        message_field(4, b"/cpu:0"),
        number_field(9, 7),
    ]
    more += [message_field(5, struct.pack("<f", 1.5)), message_field(2, b"Sub"), bytes([6 << 3 | BYTES, 0])]
    data += rng.choice(more) if rng.random() < 0.2 else b""
    if rng.random() < 0.05:
        data = data[: rng.randrange(len(data) + 1)]
    if rng.random() < 0.05 and data:
        position = rng.randrange(len(data))
        data = data[:position] + bytes([rng.randrange(256)]) + data[position + 1 :]
    return data


def _read(reader: NodeReader, data: bytes) -> Any:
    try:
        node = reader.read(memoryview(data))
    except WireError as error:
        return str(error)
    attrs = [(key, _content(value)) for key, value in node.attrs.items()]
    return node._replace(attrs={}), attrs


def _content(value: Any) -> Any:
    if not isinstance(value, TensorValue):
        return value
    return value.dtype, np.shape(value.array), np.asarray(value.array).tobytes()


def test_what_was_read_before_changes_nothing() -> None:
    rng = random.Random(0)
    reader = NodeReader()
    kept = [_node(rng) for _ in range(3000)]
    for data in kept:
        assert _read(reader, data) == _read(NodeReader(), data), data
    for data in kept:
        assert _read(reader, data) == _read(NodeReader(), data), data
