"""Models of ONNX: what is read, by which names, and what is refused."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placesim
from placesim.core.errors import DeadlineExceededError, GraphFileError, UsageError
from placesim.formats.recognition import Format, recognise
from tests.formats.onnx.models import OPSET, info, model, node, run, tensor


def layer() -> Any:
    """`z = relu(x w + b)`, with weights that are large enough to be taken out of the bytes."""
    weights = np.linspace(-1, 1, 4 * 300, dtype=np.float32).reshape(4, 300)
    nodes = [node("Gemm", "x w b", "y", name="/fc/Gemm"), node("Relu", "y", "z")]
    return model(
        nodes, [info("x", ["n", 4])], [info("z", ["n", 300])], tensor("w", weights), tensor("b", np.ones(300, np.float32))
    )


def test_a_model_runs_by_the_names_of_its_inputs_and_outputs() -> None:
    proto = layer()
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    weights = np.linspace(-1, 1, 4 * 300, dtype=np.float32).reshape(4, 300)
    np.testing.assert_allclose(run(proto, {"x": x})["z"], np.maximum(x @ weights + 1, 0), rtol=1e-5)


def test_ops_stand_in_the_scope_of_their_node() -> None:
    log = placesim.place(io.BytesIO(layer().SerializeToString())).text()
    for name in ("x: (Placeholder)", "w: (Const)", "fc/Gemm/MatMul: (MatMul)", "fc/Gemm/AddV2: (AddV2)", "Relu/Relu: (Relu)"):
        assert name in log


def test_large_weights_are_views_of_the_bytes() -> None:
    from placesim.formats.onnx.reader import read_onnx

    data = layer().SerializeToString()
    graph = read_onnx(data, "layer.onnx").file.graph
    held = graph.nodes[graph.ids["w"]].attrs["value"].array
    assert np.shares_memory(held, np.frombuffer(data, np.uint8))


def test_a_model_is_known_by_its_bytes(tmp_path: Path) -> None:
    data = layer().SerializeToString()
    assert recognise(data).format is Format.ONNX
    path = tmp_path / "weights.bin"
    path.write_bytes(data)
    assert placesim.place(path).text()


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Nonsense", "x", "y", name="odd")], "node 'odd' (Nonsense, node 0): unsupported ONNX op 'Nonsense'"),
        ([node("Relu", "nowhere", "y")], "node without a name (Relu, node 0): unknown value 'nowhere'"),
        ([node("Relu", "x", "y"), node("Relu", "x", "y")], "node without a name (Relu, node 1): duplicate value 'y'"),
    ],
)
def test_what_is_wrong_is_said_of_the_node(nodes: list[Any], message: str) -> None:
    with pytest.raises(GraphFileError) as caught:
        run(model(nodes, [info("x", [2])], [info("y", [2])]))
    assert message in str(caught.value)


def unknown_model() -> Any:
    """A node of another's domain between two that are known."""
    from onnx import helper

    nodes = [node("Relu", "x", "a"), node("MoE", "a", "y", name="conv", domain="com.microsoft"), node("Relu", "y", "z")]
    found = model(nodes, [info("x", [2])], [info("z", [2])])
    found.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return found


def test_an_op_that_nothing_knows_is_placed_where_it_is_told() -> None:
    found = unknown_model()
    found.graph.value_info.append(info("y", [2]))
    data = found.SerializeToString()
    log = placesim.place(io.BytesIO(data), gpu=1, allow_unknown="cpu").text()
    assert "conv/MoE: (ComMicrosoft>MoE): /job:localhost/replica:0/task:0/device:CPU:0" in log
    log = placesim.place(io.BytesIO(data), gpu=1, allow_unknown=["cpu", "gpu"]).text()
    assert "conv/MoE: (ComMicrosoft>MoE): /job:localhost/replica:0/task:0/device:GPU:0" in log


def test_an_op_that_nothing_knows_needs_types_of_its_outputs() -> None:
    data = unknown_model().SerializeToString()
    with pytest.raises(GraphFileError, match=r"unsupported ONNX op 'com.microsoft::MoE'.*--allow-unknown"):
        placesim.place(io.BytesIO(data))
    with pytest.raises(GraphFileError, match="unknown type of output 'y': expected it in the model's 'value_info'"):
        placesim.place(io.BytesIO(data), allow_unknown="cpu")
    with pytest.raises(UsageError, match="wrong allow_unknown: got 'moon', expected device types among CPU and GPU"):
        placesim.place(io.BytesIO(data), allow_unknown="moon")
    with pytest.raises(UsageError, match="--allow-unknown does not apply: got a graph file"):
        placesim.place({"nodes": []}, allow_unknown="cpu")


def test_nodes_are_brought_into_order_and_circles_refused() -> None:
    late = model([node("Relu", "a", "y"), node("Neg", "x", "a")], [info("x", [2])], [info("y", [2])])
    np.testing.assert_array_equal(run(late, {"x": np.array([-1, 1], np.float32)})["y"], [1, 0])
    nodes = [node("Add", "x b", "a", name="one"), node("Relu", "a", "b", name="two"), node("Relu", "b", "y")]
    with pytest.raises(GraphFileError, match=r"cycle: got 'two' .node 1. -> 'one' .node 0. -> 'two'"):
        run(model(nodes, [info("x", [2])], [info("y", [2])]))


def weights_beside(location: str, **more: str) -> Any:
    """A model whose weights lie in another file."""
    from onnx import TensorProto

    found = model([node("Add", "x w", "y")], [info("x", [400])], [info("y", [400])])
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[400], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **more}.items():
        entry = weights.external_data.add()
        entry.key, entry.value = key, value
    found.graph.initializer.append(weights)
    return found


def test_weights_may_lie_beside_the_model(tmp_path: Path) -> None:
    weights = np.arange(400, dtype=np.float32)
    (tmp_path / "weights.bin").write_bytes(b"head" + weights.tobytes())
    path = tmp_path / "model.onnx"
    path.write_bytes(weights_beside("weights.bin", offset="4", length="1600").SerializeToString())
    report = placesim.run(path, feed={"x": np.ones(400, np.float32)})
    np.testing.assert_array_equal(report.results["y"], weights + 1)


def test_large_weights_beside_the_model_are_read_when_they_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[int, int]] = []

    def read_and_tell(path: Path, offset: int, size: int) -> bytes:
        read.append((offset, size))
        return path.read_bytes()[offset : offset + size]

    monkeypatch.setattr("placesim.formats.onnx.tensors.MOST_KNOWN", 399)
    monkeypatch.setattr("placesim.formats.onnx.tensors.read_part", read_and_tell)
    weights = np.arange(400, dtype=np.float32)
    (tmp_path / "weights.bin").write_bytes(b"head" + weights.tobytes())
    path = tmp_path / "model.onnx"
    path.write_bytes(weights_beside("weights.bin", offset="4").SerializeToString())
    assert "w: (Const)" in placesim.place(path, gpu=1).text()
    assert placesim.simulate(path, gpu=1).text()
    assert not read
    report = placesim.run(path, feed={"x": np.ones(400, np.float32)})
    np.testing.assert_array_equal(report.results["y"], weights + 1)
    assert read == [(4, 1600)]
    assert "399.0" in placesim.convert(path, format="yaml").text()


def test_without_their_file_weights_only_stop_a_run(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(weights_beside("missing.bin").SerializeToString())
    log = placesim.place(path, gpu=1).text()
    assert "w: (Const): /job:localhost/replica:0/task:0/device:GPU:0" in log
    assert placesim.simulate(path, gpu=1).text()
    message = "model.onnx: cannot read the weights file 'missing.bin': No such file"
    with pytest.raises(GraphFileError, match=message):
        placesim.run(path, feed={"x": np.ones(400, np.float32)})


def test_a_sequence_is_fed_member_by_member() -> None:
    from onnx import TensorProto, helper

    given = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None)
    found = model([node("SequenceInsert", "x w", "y")], [given], [], tensor("w", np.zeros(1, np.float32)))
    found.graph.output.append(helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None))
    data = found.SerializeToString()
    parts = [np.arange(size, dtype=np.float32) for size in (3, 2)]
    results = placesim.run(io.BytesIO(data), feed={f"x[{index}]": part for index, part in enumerate(parts)}).results
    assert [result.name for result in results] == ["y[0]", "y[1]", "y[2]"]
    for expected, result in zip([*parts, np.zeros(1)], results, strict=True):
        np.testing.assert_array_equal(result.value, expected)
    assert [result.name for result in placesim.run(io.BytesIO(data), feed={"x": None}).results] == ["y[0]"]
    for feed in ({"z": None}, {"w[0]": parts[0]}):
        with pytest.raises(GraphFileError, match=r"wrong feed of '[zw]': expected the name of an input that is a sequence"):
            placesim.run(io.BytesIO(data), feed=feed)


def test_a_tensor_may_have_the_name_of_a_member() -> None:
    proto = model([node("Relu", "x[0]", "y")], [info("x[0]", [2])], [info("y", [2])])
    assert run(proto, {"x[0]": np.array([-1, 2], np.float32)})["y"].tolist() == [0, 2]


def test_weights_that_say_they_are_in_the_model_are_there() -> None:
    """As `onnx.save` writes the weights of a model whose weights were elsewhere."""
    from onnx import TensorProto

    weights = np.arange(400, dtype=np.float32)
    found = model([node("Add", "x w", "y")], [info("x", [400])], [info("y", [400])], tensor("w", weights))
    found.graph.initializer[0].data_location = TensorProto.DEFAULT
    np.testing.assert_array_equal(run(found, {"x": np.ones(400, np.float32)})["y"], weights + 1)


@pytest.mark.parametrize(
    ("location", "more", "message"),
    [
        ("../weights.bin", {}, "no weights file: got location '../weights.bin', expected a file beside the model"),
        ("/etc/passwd", {}, "expected a file beside the model"),
        ("link", {}, "expected a file beside the model"),
        ("", {}, "expected a file beside the model"),
        ("short.bin", {}, "wrong size of a tensor's content: got 3 bytes, expected 1600 for float of shape [400]"),
        ("short.bin", {"offset": "4", "length": "1600"}, "weights file 'short.bin' too short: got 3 bytes, expected 1604"),
        ("short.bin", {"offset": "-1"}, "wrong offset of a tensor's content: got '-1'"),
        ("short.bin", {"length": "9" * 5000}, "wrong length of a tensor's content: got '99999"),
        ("circle", {}, "no weights file: got location 'circle', expected a file beside the model"),
        ("a\0b", {}, "no weights file: got location 'a\\x00b', expected a file beside the model"),
    ],
)
def test_weights_elsewhere_are_refused(tmp_path: Path, location: str, more: dict[str, str], message: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "short.bin").write_bytes(b"abc")
    (tmp_path / "weights.bin").write_bytes(bytes(1600))
    (folder / "link").symlink_to(tmp_path / "weights.bin")
    (folder / "circle").symlink_to("circle")
    path = folder / "model.onnx"
    path.write_bytes(weights_beside(location, **more).SerializeToString())
    with pytest.raises(GraphFileError) as caught:
        placesim.place(path)
    assert message in str(caught.value)
    assert "initializer 'w'" in str(caught.value)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (node("Gemm", "x", "y"), "wrong number of inputs: got 1, expected 2 to 3"),
        (node("Gemm", "_ x", "y"), "no input 0: got none, expected 'A'"),
        (node("Relu", "x", "y", alpha=1.0), "unknown attribute: got 'alpha'"),
        (node("Transpose", "x", "y", perm=1), "wrong type of attribute 'perm': got INT, expected INTS"),
        (node("Concat", "x x", "y"), "no attribute 'axis': expected one, of type INT"),
        (node("And", "x x", "y"), "wrong type of input 'A': got tensor(float), expected tensor(bool)"),
        (node("Relu", "x", "y", domain="far.away"), "no opset for domain 'far.away'"),
    ],
)
def test_nodes_are_held_to_the_definition_of_their_op(made: Any, message: str) -> None:
    with pytest.raises(GraphFileError) as caught:
        run(model([made], [info("x", [2])], [info("y", [2])]))
    assert message in str(caught.value)


def test_sparse_initializers_are_made_dense() -> None:
    from onnx import helper

    found = model([node("Add", "x w", "y")], [info("x", [2, 3])], [info("y", [2, 3])])
    values, indices = tensor("w", np.array([5, 7], np.float32)), tensor("", np.array([[0, 1], [1, 2]]))
    found.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
    expected = [[1, 6, 1], [1, 1, 8]]
    np.testing.assert_array_equal(run(found, {"x": np.ones((2, 3), np.float32)})["y"], expected)
    found.graph.sparse_initializer[0].dims[:] = [1 << 40, 3]
    with pytest.raises(GraphFileError, match="sparse initializer 'w': tensor too large"):
        run(found)


@pytest.mark.parametrize("end", [1, 100, 5000])
def test_a_model_that_is_cut_off_is_refused(end: int) -> None:
    data = layer().SerializeToString()
    with pytest.raises(GraphFileError, match=r"invalid ONNX model: truncated|no graph"):
        placesim.place(io.BytesIO(data[:-end]))


def test_names_are_texts() -> None:
    data = layer().SerializeToString().replace(b"/fc/Gemm", b"/fc/\xff\xfe\xfd\xfc")
    with pytest.raises(GraphFileError, match=r"node 0.: name is not UTF-8: got b'/fc/"):
        placesim.place(io.BytesIO(data))


def test_what_a_model_must_say() -> None:
    found = layer()
    del found.opset_import[:]
    with pytest.raises(GraphFileError, match="no opsets: got a model that imports none"):
        run(found)
    with pytest.raises(GraphFileError, match="unknown opset: got 99"):
        run(model([node("Relu", "x", "y")], [info("x", [2])], [info("y", [2])], opset=99))
    with pytest.raises(GraphFileError, match="input 'x': no element type: got an input without one"):
        run(model([node("Relu", "x", "y")], [info("x", [2], "UNDEFINED")], [info("y", [2])]))


def test_shapes_that_a_file_says_settle_what_inference_leaves_open() -> None:
    nodes = [node("NonZero", "x", "places", name="where"), node("Flatten", "places", "y", axis=1)]
    found = model(nodes, [info("x", [4])], [info("y", [1, 3], "INT64")])
    found.graph.value_info.append(info("places", [1, 3], "INT64"))
    np.testing.assert_array_equal(run(found, {"x": np.array([1, 0, 2, 3], np.float32)})["y"], [[0, 2, 3]])


def test_the_package_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = layer().SerializeToString()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UsageError, match=r"cannot read an ONNX model: .*; install it with pip install 'placesim\[onnx\]'"):
        placesim.place(io.BytesIO(data))


@pytest.mark.parametrize("depth", [1 << 40, -(1 << 40)])
def test_a_number_that_tensorflow_has_no_room_for_is_refused(depth: int) -> None:
    tensors = [tensor("i", np.array([0, 1])), tensor("d", np.array(depth)), tensor("v", np.array([0, 1], np.float32))]
    with pytest.raises(GraphFileError, match=f"number too large: got {depth}, expected one of 32 bits"):
        run(model([node("OneHot", "i d v", "y")], [], [info("y", None)], *tensors))


@pytest.mark.parametrize("number", [1 << 40, -(1 << 40), (1 << 32) + 1])
def test_such_a_number_is_an_error_where_a_run_computes_it(number: int) -> None:
    tensors = [tensor("i", np.array([0, 1])), tensor("v", np.array([0, 1], np.float32))]
    proto = model([node("OneHot", "i d v", "y")], [info("d", [], "INT64")], [info("y", None)], *tensors)
    assert run(proto, {"d": np.int64(3)})["y"].tolist() == [[1, 0, 0], [0, 1, 0]]
    with pytest.raises(
        placesim.InvalidArgumentError, match=rf"depth out of range: expected numbers of 32 bits, got\] \[{number}\]"
    ):
        run(proto, {"d": np.int64(number)})
    nodes = [node("SequenceConstruct", "i i", "s"), node("SequenceAt", "s d", "y")]
    proto = model(nodes, [info("d", [], "INT64")], [info("y", None, "INT64")], *tensors)
    assert run(proto, {"d": np.int64(-1)})["y"].tolist() == [0, 1]
    with pytest.raises(placesim.InvalidArgumentError, match="position out of range: expected numbers of 32 bits, got"):
        run(proto, {"d": np.int64(number)})


@pytest.mark.parametrize(
    ("names", "what", "told"),
    [
        ("x n", "length", "number too large: got {}, expected one of 32 bits"),
        ("x l n", "axis", "no such axis: got {}, expected one of 3 dimensions"),
    ],
)
def test_a_length_or_an_axis_of_a_transform_that_int32_does_not_hold_is_an_error(names: str, what: str, told: str) -> None:
    number = (1 << 32) + 1  # as int32 it would be 1
    given = [tensor("x", np.ones((1, 4, 1), np.float32)), tensor("l", np.array(4))]
    proto = model([node("DFT", names, "y")], [info("n", [], "INT64")], [info("y", None)], *given)
    with pytest.raises(placesim.InvalidArgumentError, match=f"{what} out of range: expected numbers of 32 bits, got"):
        run(proto, {"n": np.int64(number)})
    known = model([node("DFT", names, "y")], [], [info("y", None)], *given, tensor("n", np.array(number)))
    with pytest.raises(GraphFileError, match=told.format(number)):
        run(known)


@pytest.mark.parametrize(
    ("op", "names", "shape", "right"),
    [
        ("Resize", "x   n", (1, 1, 2, 2), (1, 1, 4, 4)),
        ("Col2Im", "x n b", (1, 4, 1), (2, 2)),
    ],
)
def test_sizes_that_int32_does_not_hold_are_an_error_where_a_run_computes_them(
    op: str, names: str, shape: tuple[int, ...], right: tuple[int, ...]
) -> None:
    from onnx import helper

    given = [tensor("x", np.ones(shape, np.float32)), tensor("b", np.array([2, 2]))]
    made = helper.make_node(op, names.split(" "), ["y"])
    proto = model([made], [info("n", [len(right)], "INT64")], [info("y", None)], *given)
    assert run(proto, {"n": np.array(right)})["y"].shape == (1, 1, *right[-2:])
    beyond = np.array([*right[:-1], right[-1] + (1 << 32)])  # as int32 it would be the right one
    what = {"Resize": "sizes", "Col2Im": "image_shape"}[op]
    with pytest.raises(placesim.InvalidArgumentError, match=f"{what} out of range: expected numbers of 32 bits, got"):
        run(proto, {"n": beyond})


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("count", [0, -1])
def test_less_than_one_group_is_refused(op: str, count: int) -> None:
    tensors = [tensor("x", np.ones((1, 2, 4, 4), np.float32)), tensor("w", np.ones((2, 2, 3, 3), np.float32))]
    with pytest.raises(GraphFileError, match=f"wrong group: got {count}, expected 1 or more"):
        run(model([node(op, "x w", "y", group=count)], [], [info("y", None)], *tensors))


def doubling(count: int, last: str = "Relu") -> Any:
    """A model whose functions each call the next one twice."""
    from onnx import helper

    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("own", 1)]
    bodies = [[node(f"f{i + 1}", "x", "a", domain="own"), node(f"f{i + 1}", "a", "y", domain="own")] for i in range(count)]
    bodies.append([node(last, "x", "y", domain="own" if last.startswith("f") else "")])
    functions = [helper.make_function("own", f"f{i}", ["x"], ["y"], body, opsets) for i, body in enumerate(bodies)]
    found = model([node("f0", "x", "y", domain="own")], [info("x", [2])], [info("y", [2])], functions=functions)
    found.opset_import.append(opsets[1])
    return found


def test_functions_that_expand_too_far_are_refused_before_any_is_expanded() -> None:
    with pytest.raises(GraphFileError, match="functions expand too far: their calls come to 1610612734 nodes"):
        run(doubling(29))


def test_calls_in_bodies_count_too() -> None:
    from onnx import helper

    found = doubling(20)
    for body in (found.functions[1].node[0], found.graph.node[0]):
        branch = helper.make_graph([helper.make_node(body.op_type, ["x"], ["y"], domain="own")], "b", [], [info("y", None)])
        body.CopyFrom(node("If", "c", "y", then_branch=branch, else_branch=branch))
    with pytest.raises(GraphFileError, match="functions expand too far: their calls come to"):
        run(found)


def test_functions_that_expand_far_enough_run() -> None:
    np.testing.assert_array_equal(run(doubling(3), {"x": np.array([-1, 1], np.float32)})["y"], [0, 1])


def test_functions_in_a_circle_are_refused() -> None:
    with pytest.raises(GraphFileError, match="functions expand too far"):
        run(doubling(3, "f0"))


def test_a_timeout_holds_while_functions_are_expanded() -> None:
    with pytest.raises(DeadlineExceededError, match=r"Timed out reading <stream>: it takes more than 0.05 seconds"):
        run(doubling(12), timeout=0.05)


def test_weights_are_not_read_beyond_what_their_shape_asks_for(tmp_path: Path) -> None:
    with (tmp_path / "weights.bin").open("wb") as file:
        file.truncate(5 << 30)
    path = tmp_path / "model.onnx"
    path.write_bytes(weights_beside("weights.bin").SerializeToString())
    with pytest.raises(GraphFileError, match="wrong size of a tensor's content: got 5368709120 bytes, expected 1600"):
        placesim.place(path)
    path.write_bytes(weights_beside("weights.bin", offset=str(4 << 30), length="1600").SerializeToString())
    assert placesim.place(path).placements


def test_a_cast_of_the_model_itself_wraps() -> None:
    proto = model([node("Cast", "x", "y", to=6)], [], [info("y", [1], "INT32")], tensor("x", np.array([(1 << 40) + 5])))
    assert run(proto)["y"].tolist() == [5]


def test_a_known_size_beside_an_unknown_one_is_divided_as_the_model_says() -> None:
    nodes = [
        node("Shape", "x", "sizes"),
        node("Cast", "sizes", "real", to=1),
        node("Div", "real two", "half"),
        node("Ceil", "half", "up"),
        node("Cast", "up", "rounded", to=7),
        node("Gather", "rounded last", "count"),
        node("ConstantOfShape", "count", "zeros"),
        node("Split", "zeros", "a b", axis=0, num_outputs=2),
    ]
    numbers = tensor("two", np.array([2], np.float32)), tensor("last", np.array([1]))
    proto = model(nodes, [info("x", ["n", 21])], [info("a", None), info("b", None)], *numbers)
    found = run(proto, {"x": np.zeros((4, 21), np.float32)})
    assert [found[name].shape for name in "ab"] == [(6,), (5,)]


WORDS = {"string_vocabulary": ["a", "b", "c"]}
SPARSE = {"map_form": "SPARSE", "max_map": 5}


@pytest.mark.parametrize(
    ("op", "attrs", "fed", "kind", "row"),
    [
        ("DictVectorizer", WORDS, {"c": 1.5, "a": 2.0, "zz": 3.0}, "FLOAT", [2.0, 0.0, 1.5]),
        ("DictVectorizer", {"int64_vocabulary": [5, 2, 9]}, {9: 1.5, 5: 2.0, 7: 3.0}, "FLOAT", [2.0, 0.0, 1.5]),
        ("CastMap", {}, {3: 1.5, 1: 2.25}, "FLOAT", [2.25, 1.5]),
        ("CastMap", {"cast_to": "TO_STRING"}, {3: 1.5, 2: -1 / 3, 9: 1e1}, "STRING", [b"-0.333333", b"1.500000", b"10.000000"]),
        ("CastMap", {"cast_to": "TO_INT64"}, {3: 1.5, 1: 2.75, 9: -2.5}, "INT64", [2, 1, -2]),
        ("CastMap", SPARSE, {3: 1.0, 7: 2.0}, "FLOAT", [0.0, 0.0, 0.0, 1.0, 0.0]),
        ("CastMap", SPARSE | {"cast_to": "TO_STRING"}, {3: 1.5}, "STRING", [b"0.f", b"0.f", b"0.f", b"1.500000", b"0.f"]),
    ],
)  # fmt: skip
def test_a_map_is_fed_as_keys_and_values(
    op: str, attrs: dict[str, Any], fed: dict[Any, float], kind: str, row: list[Any]
) -> None:
    """The expected rows are those of onnxruntime 1.32."""
    from onnx import TensorProto, TypeProto, ValueInfoProto

    with_words = any(isinstance(key, str) for key in fed)
    maps = TypeProto()
    maps.map_type.key_type = TensorProto.STRING if with_words else TensorProto.INT64
    maps.map_type.value_type.tensor_type.elem_type = TensorProto.FLOAT
    nodes = [node(op, "x", "y", domain="ai.onnx.ml", **attrs)]
    proto = model(nodes, [ValueInfoProto(name="x", type=maps)], [info("y", None, kind)])
    proto.opset_import.add(domain="ai.onnx.ml", version=1)
    keys = np.array(list(fed), object if with_words else np.int64)
    found = run(proto, {"x.keys": keys, "x.values": np.array(list(fed.values()), np.float32)})["y"]
    np.testing.assert_array_equal(found, np.array([row], found.dtype))
