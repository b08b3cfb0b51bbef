"""GraphDefs: what is read is what was written, field by field."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.core.dtypes import DTYPES, FLOAT, INT32, STRING, parse_dtype
from placesim.core.errors import GraphFileError
from placesim.core.protobuf_wire import WireError
from placesim.core.tensor_fields import read_serialised
from placesim.formats.device_annotations import assign_devices, clear_devices, device_annotations, set_devices
from placesim.formats.graph_file.reader import graph_file_from_mapping, read_graph_file
from placesim.formats.graph_file.writing.raw_writer import graph_file_document, write_yaml
from placesim.formats.tensorflow.graph_def import read_graph_def, write_graph_def, write_partitions
from placesim.formats.tensorflow.messages import Message, message_class, parse, parse_text, serialise
from placesim.formats.tensorflow.node_def import REST
from placesim.formats.tensorflow.tensor_proto import read_tensor, write_tensor
from placesim.graph.graph import Graph
from placesim.graph.session_steps import GraphFile
from placesim.ops.attributes import UNKNOWN_RANK, FunctionName, Shape, TensorValue
from tests.core.checkpoints.checkpoint_files import varint
from tests.formats.readings import raw_graphs

FILES = Path(__file__).parent.parent.parent / "data" / "tensorflow-files"
GRAPH_DEFS = ("frozen.pb", "frozen.pbtxt", "control.pb")


def graph_of(text: str) -> GraphFile:
    return read_graph_def(text.encode(), "test.pbtxt")


def node_with(attr: str) -> str:
    return f'node {{ name: "n" op: "NoOp" attr {{ key: "_x" value {{ {attr} }} }} }}'


def as_float32(value: Any) -> Any:
    """A document's floats as the float32 that a GraphDef holds; a tensor's values are left alone."""
    if isinstance(value, float) and abs(value) < 3e38:
        return struct.unpack("f", struct.pack("f", value))[0]
    if isinstance(value, dict):
        return {key: inner if key == "value" else as_float32(inner) for key, inner in value.items()}
    return list(map(as_float32, value)) if isinstance(value, list) else value


def document(file: GraphFile) -> str:
    """A graph and its functions as text, which tells 1 from 1.0 and true."""
    kept = {key: value for key, value in graph_file_document(file).items() if key in ("nodes", "functions", "versions")}
    return json.dumps(as_float32(kept))


# --- whole files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GRAPH_DEFS)
def test_a_file_is_written_as_it_was_read(name: str) -> None:
    file = read_graph_def((FILES / name).read_bytes(), name)
    text = (FILES / name).read_bytes()
    original = parse_text("GraphDef", text) if name.endswith("txt") else parse("GraphDef", text)
    assert parse("GraphDef", write_graph_def(file)) == original
    assert parse_text("GraphDef", write_graph_def(file, text=True)) == original


def test_a_graph_file_goes_through_a_graph_def(subtests: pytest.Subtests) -> None:
    for case in raw_graphs():
        with subtests.test(case["id"]):
            file = graph_file_from_mapping(case["graph"], case["id"])
            assert document(read_graph_def(write_graph_def(file), case["id"])) == document(file)


@pytest.mark.parametrize("name", GRAPH_DEFS)
def test_a_graph_def_goes_through_yaml(name: str) -> None:
    file = read_graph_def((FILES / name).read_bytes(), name)
    assert write_graph_def(read_graph_file(write_yaml(file), name)) == write_graph_def(file)


def test_unknown_parts_go_through_yaml() -> None:
    node = message_class("NodeDef")(name="n", op="NoOp")
    node.experimental_debug_info.original_node_names.append("m")
    node.attr["_none"].SetInParent()
    node.attr["_x"].shape.dim.add(size=2, name="batch")
    data = serialise(message_class("GraphDef")(node=[node]))
    data = data[:1] + bytes([data[1] + 4]) + data[2:] + bytes.fromhex("9a06012a")  # field 99 of the node: "*"
    file = read_graph_def(data, "f.pb")
    assert file.graph.node("n").attrs["_x"] == Shape((2,))
    assert "_none" not in file.graph.node("n").attrs
    again = write_graph_def(read_graph_file(write_yaml(file), "f.yaml"))
    assert parse("GraphDef", again) == parse("GraphDef", data)


def test_the_rest_of_a_graph_def_is_kept() -> None:
    text = """
        versions { producer: 21 min_consumer: 3 bad_consumers: 7 }
        library { gradient { function_name: "f" gradient_func: "g" } }
        debug_info { files: "a.py" }
    """
    message = parse_text("GraphDef", text.encode())
    data = serialise(message) + bytes.fromhex("9a06012a")
    file = read_graph_def(data, "f.pb")
    assert file.graph.versions == {"producer": 21, "min_consumer": 3}
    assert parse("GraphDef", write_graph_def(file)) == parse("GraphDef", data)


FUNCTION = """
    library { function {
        signature {
            name: "f" is_stateful: true control_output: "after" description: "twice"
            input_arg { name: "x" type_attr: "T" description: "what" } output_arg { name: "y" type_attr: "T" }
            attr { name: "T" type: "type" }
        }
        attr { key: "_noinline" value { b: true } }
        arg_attr { key: 0 value { attr { key: "_user_specified_name" value { s: "x" } } } }
        node_def { name: "add" op: "AddV2" input: "x" input: "x" device: "/gpu:0" attr { key: "T" value { placeholder: "T" } } }
        ret { key: "y" value: "add:z:0" }
        control_ret { key: "after" value: "add" }
    } }
    node { name: "c" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 1 } } } }
    node { name: "call" op: "f" input: "c" attr { key: "T" value { type: DT_FLOAT } } }
"""


def test_a_function_library() -> None:
    file = graph_of(FUNCTION)
    function = file.graph.functions["f"]
    assert [arg.type_attr for arg in (*function.inputs, *function.outputs)] == ["T", "T"]
    assert function.outputs[0].value == "add:z:0"
    assert function.control_outputs == {"after": "add"}
    assert file.graph.node("call").signature.output_dtypes == (FLOAT,)
    original = parse_text("GraphDef", FUNCTION.encode())
    assert parse("GraphDef", write_graph_def(file)) == original


# --- attrs ----------------------------------------------------------------------------------------------------------

ATTRS: dict[str, Any] = {
    's: "text"': "text",
    's: "\\377"': b"\xff",
    's: ""': "",
    "i: -9223372036854775808": -(1 << 63),
    "f: 0.1": 0.1,
    "f: inf": float("inf"),
    "b: false": False,
    "type: DT_BFLOAT16": parse_dtype("bfloat16"),
    "shape { }": Shape(()),
    "shape { dim { size: -1 } dim { size: 3 } }": Shape((-1, 3)),
    "shape { unknown_rank: true }": UNKNOWN_RANK,
    'placeholder: "T"': None,
    "list { }": (),
    "list { i: 1 i: 2 }": (1, 2),
    "list { f: 1 f: 2.5 }": (1.0, 2.5),
    "list { b: true }": (True,),
    'list { s: "loc:@a" s: "\\001\\377" }': ("loc:@a", b"\1\xff"),
    "list { type: DT_FLOAT type: DT_STRING }": (FLOAT, STRING),
    "list { shape { } shape { unknown_rank: true } }": (Shape(()), UNKNOWN_RANK),
    'func { name: "f" attr { key: "T" value { type: DT_INT32 } } }': FunctionName("f", (("T", INT32),)),
    'list { func { name: "f" } func { name: "g" } }': (FunctionName("f"), FunctionName("g")),
}


@pytest.mark.parametrize("attr", ATTRS)
def test_an_attr_is_held_as_it_was_written(attr: str) -> None:
    file = graph_of(node_with(attr))
    held = file.graph.node("n").attrs
    if not attr.startswith("placeholder"):
        assert held == {"_x": ATTRS[attr]}
        assert type(held["_x"]) is type(ATTRS[attr])
    assert parse("GraphDef", write_graph_def(file)) == parse_text("GraphDef", node_with(attr).encode())


LOSSY = ("", "type: DT_INVALID", "type: DT_FLOAT_REF", "type: 77", "list { i: 1 f: 2 }", "shape { dim { size: 2 name: 'n' } }")


@pytest.mark.parametrize("attr", LOSSY)
def test_what_an_attr_value_cannot_say_is_kept(attr: str) -> None:
    file = graph_of(node_with(attr))
    assert REST in file.graph.node("n").attrs
    assert parse("GraphDef", write_graph_def(file)) == parse_text("GraphDef", node_with(attr).encode())


def test_an_attr_named_as_the_rest_is_no_rest() -> None:
    text = 'node { name: "n" op: "NoOp" attr { key: "_node_def" value { i: 3 } } }'
    assert parse("GraphDef", write_graph_def(graph_of(text))) == parse_text("GraphDef", text.encode())
    file = graph_file_from_mapping({"raw": True, "nodes": [{"op": "NoOp", "name": "n", "attrs": {"_node_def": "\x0a"}}]}, "m")
    assert parse("GraphDef", write_graph_def(file)).node[0].attr["_node_def"].s == b"\n"


# --- tensors --------------------------------------------------------------------------------------------------------

TENSORS: dict[str, Any] = {
    "dtype: DT_FLOAT tensor_shape { dim { size: 3 } } float_val: 1 float_val: 2": np.array([1, 2, 2], np.float32),
    "dtype: DT_FLOAT tensor_shape { dim { size: 1 } } float_val: 1 float_val: 2": np.array([1], np.float32),
    "dtype: DT_INT32 tensor_shape { dim { size: 2 } }": np.zeros(2, np.int32),
    "dtype: DT_UINT8 tensor_shape { } int_val: 200": np.array(200, np.uint8),
    "dtype: DT_QINT8 tensor_shape { } int_val: -3": np.array(-3, np.int8),
    "dtype: DT_HALF tensor_shape { dim { size: 2 } } half_val: 15360 half_val: 49152": np.array([1, -2], np.float16),
    "dtype: DT_BFLOAT16 tensor_shape { } half_val: 16256": np.array(1, DTYPES["bfloat16"].numpy),
    "dtype: DT_COMPLEX64 tensor_shape { } scomplex_val: 1 scomplex_val: -2": np.array(1 - 2j, np.complex64),
    "dtype: DT_COMPLEX128 tensor_shape { } dcomplex_val: 1 dcomplex_val: -2": np.array(1 - 2j),
    "dtype: DT_INT64 tensor_shape { } int64_val: -9223372036854775808": np.array(-(1 << 63)),
    "dtype: DT_UINT64 tensor_shape { } uint64_val: 18446744073709551615": np.array((1 << 64) - 1, np.uint64),
    "dtype: DT_UINT32 tensor_shape { } uint32_val: 4294967295": np.array((1 << 32) - 1, np.uint32),
    "dtype: DT_BOOL tensor_shape { dim { size: 2 } } bool_val: true bool_val: false": np.array([True, False]),
    "dtype: DT_DOUBLE tensor_shape { } double_val: 0.1": np.array(0.1),
    'dtype: DT_INT16 tensor_shape { dim { size: 2 } } tensor_content: "\\001\\000\\377\\377"': np.array([1, -1], np.int16),
    "dtype: DT_FLOAT8_E5M2 tensor_shape { } float8_val: '<'": np.array(1, DTYPES["float8_e5m2"].numpy),
    "dtype: DT_INT4 tensor_shape { } int_val: -8": np.array(-8, DTYPES["int4"].numpy),
    'dtype: DT_STRING tensor_shape { dim { size: 2 } } string_val: "a"': np.array([b"a", b"a"], object),
    'dtype: DT_STRING tensor_shape { dim { size: 2 } } tensor_content: "\\001\\002abb"': np.array([b"a", b"bb"], object),
    "dtype: DT_STRING tensor_shape { }": np.array(b"", object),
    "dtype: DT_FLOAT tensor_shape { dim { size: 0 } dim { size: 9 } }": np.zeros((0, 9), np.float32),
}


@pytest.mark.parametrize("text", TENSORS)
def test_every_encoding_of_a_tensor(text: str) -> None:
    tensor = read_tensor(parse_text("TensorProto", text.encode()))
    assert tensor.array.dtype == TENSORS[text].dtype
    assert tensor.array.shape == TENSORS[text].shape
    assert tensor.array.tolist() == TENSORS[text].tolist()
    dtype, array = read_serialised(serialise(parse_text("TensorProto", text.encode())))
    assert (dtype, array.dtype, array.tolist()) == (tensor.dtype, tensor.array.dtype, tensor.array.tolist())
    again = read_tensor(write_tensor(tensor))
    assert again.dtype is tensor.dtype
    assert again.array.tolist() == tensor.array.tolist()


NUMBERS = [dtype for dtype in DTYPES.values() if dtype.size]


@given(st.sampled_from(NUMBERS), st.binary(min_size=1, max_size=16), st.integers(0, 3), st.integers(0, 40), st.booleans())
def test_numbers_keep_their_bits(dtype: Any, content: bytes, rows: int, columns: int, is_one: bool) -> None:
    count = rows * columns
    bits = np.frombuffer((content * (count * dtype.size + 1))[: count * dtype.size], np.uint8)
    if dtype.name in ("bool", "int2", "uint2", "int4", "uint4", "float4_e2m1fn"):
        bits = bits % 2
    array = bits.view(dtype.numpy).reshape(rows, columns)
    if is_one and count:
        array = np.broadcast_to(np.array(1).astype(dtype.numpy), (rows, columns))
    again = read_tensor(write_tensor(TensorValue(dtype, array))).array
    assert again.tobytes() == np.ascontiguousarray(array).tobytes()


def test_large_constants_are_views_of_the_file() -> None:
    array = np.arange(100_000, dtype=np.float32)
    file = graph_file_from_mapping({"nodes": [{"op": "Const", "name": "c", "value": array}]})
    data = write_graph_def(file)
    held = read_graph_def(data, "f.pb").graph.node("c").attrs["value"].array
    assert np.shares_memory(held, np.frombuffer(data, np.uint8))
    assert held.tobytes() == array.tobytes()


@pytest.mark.parametrize("dim_name", ["", "batch"])
def test_large_constants_are_written_in_full(dim_name: str) -> None:
    array = np.arange(10_000, dtype=np.int64)
    node = message_class("NodeDef")(name="c", op="Const")
    node.attr["dtype"].type = 9
    tensor = node.attr["value"].tensor
    tensor.dtype = 9
    tensor.tensor_shape.dim.add(size=10_000, name=dim_name)
    tensor.tensor_content = array.tobytes()
    original = message_class("GraphDef")(node=[node])
    file = read_graph_def(serialise(original), "f.pb")
    assert parse("GraphDef", write_graph_def(file)) == original
    assert parse("GraphDef", write_graph_def(clear_devices(file))) == original


def test_one_value_for_many_elements_is_held_once() -> None:
    text = "dtype: DT_FLOAT tensor_shape { dim { size: 100000000 } } float_val: 2"
    tensor = read_tensor(parse_text("TensorProto", text.encode()))
    assert tensor.array.strides == (0,)
    assert write_tensor(tensor).ByteSize() < 100


# --- devices --------------------------------------------------------------------------------------------------------


def devices_of(graph: Graph) -> list[str]:
    return [node.device for node in graph.nodes]


def test_devices_are_counted_cleared_and_set() -> None:
    file = read_graph_def((FILES / "frozen.pb").read_bytes(), "frozen.pb")
    assert device_annotations(file) == {"/device:CPU:0": 2, "/device:GPU:1": 5}
    cleared = clear_devices(file)
    assert device_annotations(cleared) == {}
    assert clear_devices(graph_of(FUNCTION)).graph.functions["f"].nodes[0].device == ""
    changed = set_devices(cleared, [("l1/", "/gpu:0"), ("*/biases", "/cpu:0")])
    assert changed.graph.node("l1/weights").device == "/gpu:0"
    assert changed.graph.node("l1/biases").device == "/cpu:0"
    assert device_annotations(file) == {"/device:CPU:0": 2, "/device:GPU:1": 5}


def test_placed_and_partitioned() -> None:
    file = read_graph_def((FILES / "frozen.pb").read_bytes(), "frozen.pb")
    device = "/job:localhost/replica:0/task:0/device:GPU:0"
    placed = read_graph_def(write_graph_def(assign_devices(file, {"x": device})), "placed.pb")
    assert devices_of(placed.graph) == [device if n.name == "x" else n.device for n in file.graph.nodes]
    parts = write_partitions({device: file.graph})
    assert set(devices_of(read_graph_def(parts[device], "part.pb").graph)) == {device}


# --- what is wrong --------------------------------------------------------------------------------------------------

TENSOR = 'attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { %s } } } }'
CONST = 'node { name: "c" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } ' + TENSOR + " }"
T = 'attr { key: "T" value { type: DT_FLOAT } }'
FUNC = 'library { function { signature { name: "%s" %s } %s } }'
NEG = 'node { name: "a" op: "Neg" ' + T + ' input: "%s" }'
WRONG = {
    'node { name: "a" op: "Nagg" }': "unknown op: got 'Nagg' of node 'a', expected an op of TensorFlow 2.21",
    'node { op: "NoOp" }': "a node of op 'NoOp' without a name",
    'node { name: "a" op: "NoOp" } node { name: "a" op: "NoOp" }': "Node 'a' is not unique",
    NEG % "b": "Node 'a': Unknown input node 'b'",
    NEG % "a:\u00b2": "Node 'a': Unknown input node 'a:\u00b2'",
    NEG % ("a:" + "9" * 5000): "Node 'a': Unknown input node 'a:999",
    NEG % "a:7": "Node 'a': Connecting to invalid output 7 of source node a which has 1 outputs.",
    'node { name: "a:1" op: "NoOp" }': "Node 'a:1': Node name contains invalid characters",
    NEG % "a": "cycle: got a -> a, expected no cycle, except from a NextIteration to a Merge",
    NEG % "^a": "NodeDef expected inputs 'float' do not match 0 inputs specified",
    'node { name: "a" op: "Neg" }': "NodeDef missing attr 'T' from Op<name=Neg;",
    'node { name: "a" op: "Neg" attr { key: "T" value { i: 1 } } }': "AttrValue had value with type 'int' when 'type' expected",
    'node { name: "a" op: "Neg" attr { key: "U" value { i: 1 } } ' + T + " }": "NodeDef mentions attr 'U'",
    'node { name: "a" op: "Pack" attr { key: "N" value { i: 99999999999 } } attr { key: "T" value { type: DT_INT8 } } }': (
        "Value for attr 'N' of 99999999999 is not a number of tensors"
    ),
    'node { name: "a" op: "Neg" input: "^b" input: "b" ' + T + ' } node { name: "b" op: "NoOp" }': (
        "Node 'a': Control dependencies must come after regular dependencies"
    ),
    CONST % "dim { size: 99999999999 }": "tensor too large: got 399999999996 bytes",
    CONST % "dim { size: -5 }": "shape [-5] has a negative dimension",
    CONST % "unknown_rank: true": "its rank is unknown",
    FUNC % ("NoOp", "", ""): "Cannot add function 'NoOp' because an op with the same name already exists.",
    FUNC % ("f", 'output_arg { name: "y" type: DT_FLOAT }', ""): "Return value for output 'y' is missing",
    FUNC % ("f", 'input_arg { name: "x" number_attr: "N" }', ""): "stands for several tensors",
    FUNC % ("f", "", 'node_def { name: "a" op: "f" }'): "recursive functions: f -> f;",
    "versions { min_consumer: 99999 }": "GraphDef min consumer version 99999 above current version 2474 for TensorFlow 2.21.0.",
    'node { name: "a" op: "NoOp"\n nome: "b" }': "invalid GraphDef: Message type",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_said(text: str) -> None:
    with pytest.raises(GraphFileError) as caught:
        graph_of(text)
    assert WRONG[text] in caught.value.message
    assert caught.value.message.startswith("test.pbtxt")


def test_all_problems_are_reported_and_a_flood_is_cut() -> None:
    with pytest.raises(GraphFileError) as caught:
        graph_of('node { name: "a" op: "X1" } node { name: "b" op: "X2" }')
    assert len(caught.value.problems) == 2
    with pytest.raises(GraphFileError) as caught:
        graph_of("\n".join(f'node {{ name: "n{i}" op: "X{i}" }}' for i in range(500)))
    assert len(caught.value.problems) == 100


def test_a_name_out_of_all_measure_is_cut() -> None:
    with pytest.raises(GraphFileError) as caught:
        graph_of(f'node {{ name: "a" op: "{"N" * 1_000_000}" }}')
    assert len(caught.value.message) < 21_000


def test_text_says_where() -> None:
    with pytest.raises(GraphFileError) as caught:
        graph_of('node { name: "a"\n  nome: "b" }')
    assert str(caught.value.problems[0].location) == "test.pbtxt:2:3"


def test_what_cannot_be_written_is_said() -> None:
    file = graph_file_from_mapping({"raw": True, "nodes": [{"op": "NoOp", "name": "n", "attrs": {"_x": 1 << 70}}]}, "m")
    with pytest.raises(GraphFileError, match="attr '_x'"):
        write_graph_def(file)


@pytest.mark.parametrize("depth", [50, 5000])
def test_deep_nesting(depth: int) -> None:
    message: Message = message_class("AttrValue")()
    data = b""
    for _ in range(depth):  # func { attr { key: "" value { func ... } } }, written by hand from the inside
        data = b"\x12" + varint(len(data)) + data
        data = b"\x12" + varint(len(data)) + data
        data = b"\x52" + varint(len(data)) + data
    entry = b"\x0a\x02_x\x12" + varint(len(data)) + data
    node = b"\x0a\x01n\x12\x04NoOp\x2a" + varint(len(entry)) + entry
    with pytest.raises((GraphFileError, WireError)):
        read_graph_def(b"\x0a" + varint(len(node)) + node, "deep.pb")
    assert message.WhichOneof("value") is None
