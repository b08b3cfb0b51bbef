"""Nodes are read alike whether their reader has read others like them, or reads them beside others, or not."""

from __future__ import annotations

import random
import struct
from itertools import accumulate
from typing import Any

import numpy as np
import pytest

from placesim.core.dtypes import FLOAT as FLOAT32
from placesim.core.protobuf_wire import BYTES, WireError, message_field, number_field
from placesim.formats.tensorflow import node_parts
from placesim.formats.tensorflow.messages import message_class
from placesim.formats.tensorflow.node_def import NodeReader, NodeWriter
from placesim.graph.graph import NodeDef
from placesim.ops.attributes import TensorValue

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
    entries[:0] = [_labelled(rng, key) for key in ("_class", "_class", "s") if rng.random() < 0.2]
    written = [entry.SerializeToString(deterministic=True) for entry in entries]
    if rng.random() < 0.3:
        written = written[1:] + written[:1]
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
    label = message_field(1, message_field(2, rng.choice([b"loc:@a", b"loc:@b"])))
    more += [message_field(5, message_field(1, b"_class") + message_field(2, label + number_field(9, 7)))]
    more += [message_field(7, b"\x08\x03"), message_field(5, written[0]) if written else b""]
    more += [message_field(5, struct.pack("<f", 1.5)), message_field(2, b"Sub"), bytes([6 << 3 | BYTES, 0])]
    data += rng.choice(more) if rng.random() < 0.2 else b""
    if rng.random() < 0.05:
        data = data[: rng.randrange(len(data) + 1)]
    if rng.random() < 0.05 and data:
        position = rng.randrange(len(data))
        data = data[:position] + bytes([rng.randrange(256)]) + data[position + 1 :]
    return data


def _labelled(rng: random.Random, key: str) -> Any:
    """An attr of texts: mostly one colocation label, at times several, a long one, or bytes that look like an attr's."""
    entry = message_class("AttrEntry")(key=key)
    texts = [rng.choice(["loc:@a", "loc:@layer/B", "loc:@é", "x" * rng.choice([112, 113, 114, 130]), ""]).encode()]
    other = message_class("AttrEntry")(key="_class")
    other.value.list.s.append(b"loc:@a")
    texts += [message_field(5, other.SerializeToString()), b"loc:@c"] if rng.random() < 0.1 else []
    entry.value.list.s.extend(texts[: rng.choice([1, 1, 2, 3])])
    return entry


def _read_all(reader: NodeReader, nodes: list[bytes]) -> list[Any]:
    """What a reader makes of nodes that stand one after the other, each in a field of its own."""
    written = [message_field(1, node) for node in nodes]
    ends = accumulate(map(len, written))
    spans = [position for end, node in zip(ends, nodes, strict=True) for position in (end - len(node), end)]
    return [_shown(node) for node in reader.read_all(memoryview(b"".join(written)), spans)]


def _read(data: bytes) -> Any:
    """The same of one node, read without looking at others; of one that is wrong what is said of it."""
    try:
        return _shown(NodeReader().read(memoryview(data)))
    except WireError as error:
        return str(error)


def _shown(node: NodeDef) -> Any:
    return node._replace(attrs={}), [(key, _content(value)) for key, value in node.attrs.items()]


def _content(value: Any) -> Any:
    if not isinstance(value, TensorValue):
        return value
    return value.dtype, np.shape(value.array), np.asarray(value.array).tobytes()


def test_what_is_read_beside_it_changes_nothing() -> None:
    rng = random.Random(0)
    reader = NodeReader()
    expected = {data: _read(data) for data in (_node(rng) for _ in range(3000))}
    good = [data for data, found in expected.items() if not isinstance(found, str)]
    for count in (len(good), 1, 100, 999):
        rng.shuffle(good)
        for first in range(0, len(good), count):
            some = good[first : first + count]
            assert _read_all(reader, some) == [expected[data] for data in some], some
    bad = [data for data, found in expected.items() if isinstance(found, str)]
    assert bad
    for data in bad:
        with pytest.raises(WireError) as raised:
            _read_all(reader, [*good[:3], data, *good[3:6]])
        assert str(raised.value) == expected[data]


@pytest.mark.slow
def test_a_run_ends_with_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that are larger than a run, and those around them."""
    monkeypatch.setattr(node_parts, "_RUN_BYTES", 1 << 16)
    large = _constant("large", np.zeros(1 << 15, np.float32))
    small = [_constant(f"n{i}", np.float32(i)) for i in range(3_000)]
    nodes = [*small[:2_000], large, large, *small[2_000:], large]
    names = [shown[0].name for shown in _read_all(NodeReader(), nodes)]
    assert names == [*(f"n{i}" for i in range(2_000)), "large", "large", *(f"n{i}" for i in range(2_000, 3_000)), "large"]


def _constant(name: str, value: Any) -> bytes:
    tensor = TensorValue(FLOAT32, np.asarray(value))
    return b"".join(map(bytes, NodeWriter().write(name, "Const", (), "", {"dtype": FLOAT32, "value": tensor})))
