"""ONNX's conditionals, loops, sequences and functions as what TensorFlow has for them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import placesim
from placesim.core.errors import GraphFileError
from placesim.formats.onnx.reader import OnnxFile, read_onnx

onnx = pytest.importorskip("onnx")
HEAD = '<ir_version: 10, opset_import: ["": 21]>\n'
X = np.array([[1.0, -2.0], [3.0, 0.5]], np.float32)


def bytes_of(text: str) -> bytes:
    """A model of ONNX's text form."""
    from onnx import parser

    return bytes(parser.parse_model(HEAD + text).SerializeToString())


def read(text: str) -> OnnxFile:
    return read_onnx(bytes_of(text), "model.onnx")


def run(text: str, **feeds: Any) -> dict[str, Any]:
    report = placesim.run(io.BytesIO(bytes_of(text)), feed=feeds)
    return {str(result.name): result.value for result in report.results}


def ops(text: str) -> list[str]:
    return [node.op for node in read(text).file.graph.nodes]


BRANCHES = """
flow (float[N, 2] x, bool c) => (float[N, 2] y) {
  w = Constant <value = float[2] {2, 3}> ()
  y = If <then_branch = yes () => (float[N, 2] t) { t = Mul (x, w) },
          else_branch = no () => (float[N, 2] f) { f = Neg (x) }> (c)
}
"""


@pytest.mark.parametrize(("chosen", "expected"), [(True, X * [2, 3]), (False, -X)])
def test_a_condition_is_a_conditional_of_functions(chosen: bool, expected: Any) -> None:
    assert np.array_equal(run(BRANCHES, x=X, c=np.bool_(chosen))["y"], expected)
    graph = read(BRANCHES).file.graph
    assert [node.op for node in graph.nodes if node.op.endswith("If")] == ["StatelessIf"]
    assert sorted({node.op for function in graph.functions.values() for node in function.nodes} - {"Identity"}) == [
        "Const",
        "Mul",
        "Neg",
    ]


def test_of_a_condition_that_is_known_only_the_branch_is_there() -> None:
    """As exporters write it where they ask for a shape that turns out to be known."""
    text = """
    flow (float[2, 1] x) => (y) {
      size = Shape <start = 1> (x)
      one = Constant <value = int64[1] {1}> ()
      is_one = Equal (size, one)
      axes = Constant <value = int64[1] {1}> ()
      y = If <then_branch = yes () => (t) { t = Squeeze (x, axes) }, else_branch = no () => (f) { f = Identity (x) }> (is_one)
    }
    """
    assert "StatelessIf" not in ops(text)
    assert np.array_equal(run(text, x=X[:, :1])["y"], X[:, 0])


LOOP = """
flow (float[2, 2] x, int64 n) => (float[2, 2] last, float[K, 2, 2] all) {
  yes = Constant <value = bool {1}> ()
  last, all = Loop <body = turn (int64 i, bool c, float[2, 2] a) => (bool go_on, float[2, 2] b, float[2, 2] s) {
    f = Cast <to = 1> (i)
    s = Add (a, f)
    b = Mul (s, x)
    total = ReduceSum <keepdims = 0> (b)
    limit = Constant <value = float {50}> ()
    go_on = Less (total, limit)
  }> (n, yes, x)
}
"""


def test_a_loop_ends_with_its_count_or_its_condition() -> None:
    for count in (0, 1, 3, 9):
        carried, gathered, goes_on = X, [], True
        for i in range(count):
            if not goes_on:
                break
            gathered.append(carried + np.float32(i))
            carried = gathered[-1] * X
            goes_on = carried.sum() < 50
        found = run(LOOP, x=X, n=np.int64(count))
        assert np.allclose(found["last"], carried)
        assert found["all"].shape == (len(gathered), 2, 2)
        assert np.allclose(found["all"], np.array(gathered).reshape(-1, 2, 2))


def test_a_loop_carries_what_grows() -> None:
    text = """
    flow (float[1, 2] x, int64 n) => (y) {
      y = Loop <body = turn (int64 i, bool c, a) => (go_on, b) { b = Concat <axis = 0> (a, x) go_on = Identity (c) }> (n, , x)
    }
    """
    found = read(text)
    shape = found.file.graph.functions
    assert shape
    assert np.array_equal(run(text, x=X[:1], n=np.int64(3))["y"], np.repeat(X[:1], 4, 0))


def test_loops_within_loops_see_what_is_outside() -> None:
    text = """
    flow (float[2] x) => (y) {
      n = Constant <value = int64 {3}> ()
      w = Constant <value = float[2] {0.5, 2}> ()
      y = Loop <body = outer (int64 i, bool c, a) => (c2, b) {
        b = Loop <body = inner (int64 j, bool d, e) => (d2, g) {
          both = Add (i, j)
          f = Cast <to = 1> (both)
          h = Mul (e, w)
          k = Add (h, f)
          g = Add (k, x)
          d2 = Identity (d)
        }> (n, , a)
        c2 = Identity (c)
      }> (n, , x)
    }
    """
    x = X[0]
    expected = x
    for i in range(3):
        for j in range(3):
            expected = expected * np.array([0.5, 2], np.float32) + np.float32(i + j) + x
    assert np.allclose(run(text, x=x)["y"], expected)


def test_a_scan_goes_along_its_axes_either_way() -> None:
    text = """
    flow (float[2] s, float[2, 3] x) => (last, all) {
      last, all = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [1],
                        scan_output_directions = [1],
                        body = turn (a, e) => (b, o) { b = Add (a, e) o = Mul (b, e) }> (s, x)
    }
    """
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    last, gathered = X[0], []
    for column in (2, 1, 0):
        last = last + x[:, column]
        gathered.append(last * x[:, column])
    found = run(text, s=X[0], x=x)
    assert np.allclose(found["last"], last)
    assert np.allclose(found["all"], np.stack(gathered[::-1], 1))


def test_a_loop_carries_a_sequence_whose_members_it_inserts_and_erases() -> None:
    text = """
    flow (float[2] x, int64 n, int64 place) => (y, count, first) {
      none = SequenceEmpty <dtype = 1> ()
      members = Loop <body = turn (int64 i, bool c, own) => (c2, longer) {
        f = Cast <to = 1> (i)
        item = Add (x, f)
        zero = Constant <value = int64 {0}> ()
        longer = SequenceInsert (own, item, zero)
        c2 = Identity (c)
      }> (n, , none)
      fewer = SequenceErase (members, place)
      count = SequenceLength (fewer)
      last = Constant <value = int64 {-1}> ()
      first = SequenceAt (fewer, last)
      y = ConcatFromSequence <axis = 1, new_axis = 1> (fewer)
    }
    """
    for place, left in ((0, [2, 1, 0]), (-1, [3, 2, 1]), (2, [3, 2, 0])):
        found = run(text, x=X[0], n=np.int64(4), place=np.int64(place))
        assert np.array_equal(found["y"], np.stack([X[0] + np.float32(i) for i in left], 1))
        assert found["count"] == 3
        assert np.array_equal(found["first"], X[0] + np.float32(left[-1]))


def test_a_sequence_that_is_known_leaves_no_list() -> None:
    text = """
    flow (float[2, 3] x) => (y) {
      parts = SplitToSequence <axis = 1> (x)
      one = Constant <value = int64 {1}> ()
      item = SequenceAt (parts, one)
      more = SequenceInsert (parts, item)
      y = ConcatFromSequence <axis = 1> (more)
    }
    """
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(run(text, x=x)["y"], x[:, [0, 1, 2, 1]])
    assert not [op for op in ops(text) if op.startswith("TensorList")]


def test_a_function_of_the_model_is_read_under_its_nodes_name() -> None:
    text = """
    flow (float[2, 2] x) => (y) { h = mine.twice <by = 3.0> (x)  y = mine.twice <by = 2.0> (h) }
    <domain: "mine", opset_import: ["": 21]>
    twice <by> (a) => (b) { factor = Constant <value_float : float = @by> ()  s = Mul (a, factor)  b = Add (s, a) }
    """
    model = onnx.parser.parse_model(HEAD.replace('"": 21', '"": 21, "mine": 1') + text)
    for index, node in enumerate(model.graph.node):
        node.name = f"layer{index}"
    data = model.SerializeToString()
    report = placesim.run(io.BytesIO(data), feed={"x": X})
    assert np.array_equal(report.results["y"], X * 12)
    names = [node.name for node in read_onnx(data, "model.onnx").file.graph.nodes]
    assert [name for name in names if name.startswith("layer1/") and "Mul" in name]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("b = Nothing (a)", "(Loop, node 0): node without a name (Nothing, node 0)"),
        ("b = Add (a, nowhere)", "unknown value 'nowhere'"),
        ("b = Cast <to = 7> (a)", "type"),
    ],
)
def test_what_is_wrong_in_a_body_is_said_with_its_place(body: str, message: str) -> None:
    text = (
        f"flow (float[2] x, int64 n) => (y) {{ y = Loop <body = turn (int64 i, bool c, a) => (c, b) {{ {body} }}> (n, , x) }}"
    )
    with pytest.raises(GraphFileError) as caught:
        read(text)
    assert message in str(caught.value)
