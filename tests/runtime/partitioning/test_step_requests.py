"""What a step asks for: names of fetches, values of feeds, generated numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from placesim.core.dtypes import BOOL, COMPLEX64, DOUBLE, FLOAT, INT8, INT32, STRING, UINT64, DataType
from placesim.core.errors import GraphBuildError, PermissionDeniedError, RequestError
from placesim.core.files.access import FileAccess
from placesim.formats.graph_file.reader import graph_file_from_mapping, read_graph_file
from placesim.graph.graph import Graph, NodeDef, TensorRef
from placesim.graph.session_steps import Feed, Fetch, GeneratedFeed
from placesim.ops.attributes import Shape
from placesim.ops.registry import load_registry
from placesim.runtime.partitioning.step_requests import default_fetches, generate, load_npy, resolve_feed, resolve_fetch

NODES: list[dict[str, Any]] = [
    {"op": "Placeholder", "name": "value", "dtype": "float", "shape": [2, 3]},
    {"op": "Unpack", "name": "parts", "inputs": ["value"], "attrs": {"num": 2}},
    {"op": "NoOp", "name": "nothing"},
]
GRAPH = graph_file_from_mapping({"nodes": NODES}).graph


@pytest.mark.parametrize(
    ("name", "is_target", "tensor"),
    [
        ("parts", False, TensorRef(1, 0)),
        ("parts:1", False, TensorRef(1, 1)),
        ("parts:1", True, TensorRef(1, 1)),
        ("parts", True, None),
        ("^parts", False, None),
        ("nothing", False, None),
    ],
)
def test_a_fetch_is_a_tensor_or_a_target(name: str, is_target: bool, tensor: TensorRef | None) -> None:
    found = resolve_fetch(GRAPH, Fetch(name), is_target)
    assert (found.name, found.tensor) == (name.removeprefix("^"), tensor)
    assert resolve_fetch(GRAPH, Fetch(name, label="mine"), is_target).name == "mine"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("part", "The name 'part' refers to an Operation not in the graph."),
        (
            "part:0",
            "The name 'part:0' refers to a Tensor which does not exist. The operation, 'part', does not exist in the graph.",
        ),
        (
            "parts:2",
            "The name 'parts:2' refers to a Tensor which does not exist. "
            "The operation, 'parts', exists but only has 2 outputs.",
        ),
        (
            "nothing:0",
            "The name 'nothing:0' refers to a Tensor which does not exist. "
            "The operation, 'nothing', exists but only has 0 outputs.",
        ),
    ],
)
def test_a_fetch_that_the_graph_lacks(name: str, said: str) -> None:
    with pytest.raises(RequestError) as caught:
        resolve_fetch(GRAPH, Fetch(name))
    assert caught.value.message == f"Fetch argument '{name}' cannot be interpreted as a Tensor. (\"{said}\")"
    assert caught.value.help == (("did you mean parts?",) if name.startswith("part") and name != "parts:2" else ())


def test_without_fetches_each_output_of_each_sink_counts() -> None:
    refs = [TensorRef(1, 0), TensorRef(1, 1)]
    assert default_fetches(GRAPH) == [("parts", 1, refs[0]), ("parts:1", 1, refs[1]), ("nothing", 2, None)]
    assert default_fetches(GRAPH, only_targets=True) == [("parts", 1, None), ("nothing", 2, None)]


# --- feeds ----------------------------------------------------------------------------------------------------------


def fed(graph: Graph, name: str, value: Any) -> np.ndarray[Any, Any]:
    return resolve_feed(graph, Feed(name, value), Path(), FileAccess.of([Path()]))[1]


def placeholder(dtype: DataType, shape: Shape | None = None, producer: int | None = None) -> Graph:
    graph = Graph(load_registry())
    graph.extend([NodeDef("x", "Placeholder", attrs={"dtype": dtype, "shape": shape or Shape(None)})])
    if producer is not None:
        graph.versions["producer"] = producer
    return graph


@pytest.mark.parametrize(
    ("dtype", "given", "is_taken"),
    [
        (FLOAT, np.float64(1.5), True),
        (FLOAT, np.int64(1), True),
        (FLOAT, np.bool_(True), False),
        (FLOAT, np.complex64(1), False),
        (INT32, np.uint8(1), True),
        (INT32, np.float32(1), False),
        (BOOL, np.bool_(True), True),
        (BOOL, np.int32(1), False),
        (COMPLEX64, np.float32(1), True),
        (COMPLEX64, np.complex128(1), True),
        (FLOAT, np.array("1"), False),
        (STRING, 3, True),
    ],
)
def test_a_fed_value_keeps_its_kind(dtype: DataType, given: Any, is_taken: bool) -> None:
    if is_taken:
        assert fed(placeholder(dtype), "x", given).dtype == dtype.numpy
        return
    message = f"^Cannot feed value of type {given.dtype} for Tensor x:0, which has type {dtype.python_name}$"
    with pytest.raises(RequestError, match=message):
        fed(placeholder(dtype), "x", given)


def test_strings_are_fed_as_bytes() -> None:
    found = fed(placeholder(STRING), "x", [["a", b"\xff"], ["é", "7"]])
    assert found.tolist() == [[b"a", b"\xff"], [b"\xc3\xa9", b"7"]]


@pytest.mark.parametrize(
    ("dims", "given", "wanted"),
    [
        ((2, 3), (2, 3), None),
        ((-1, 3), (5, 3), None),
        ((-1, 3), (5, 4), "(None, 3)"),
        ((3,), (1, 3), "(3,)"),
        ((), (1,), "()"),
        (None, (4, 4), None),
    ],
)
def test_a_fed_shape_must_fit(dims: tuple[int, ...] | None, given: tuple[int, ...], wanted: str | None) -> None:
    graph = placeholder(FLOAT, Shape(dims), producer=24)
    if wanted is None:
        assert fed(graph, "x", np.zeros(given, np.float32)).shape == given
        return
    with pytest.raises(RequestError) as caught:
        fed(graph, "x", np.zeros(given, np.float32))
    assert caught.value.message == f"Cannot feed value of shape {given} for Tensor x:0, which has shape {wanted}"


def test_an_old_scalar_takes_any_shape() -> None:
    assert fed(placeholder(FLOAT, Shape(()), producer=23), "x", np.zeros((2, 2))).shape == (2, 2)


def test_a_value_that_is_computed_must_fit_too() -> None:
    assert fed(GRAPH, "parts:1", [1.0, 2.0, 3.0]).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(RequestError, match=r"for Tensor parts:1, which has shape \(3,\)"):
        fed(GRAPH, "parts:1", [1.0])


def test_a_feed_that_the_graph_lacks() -> None:
    with pytest.raises(RequestError) as caught:
        fed(GRAPH, "valu", 1.0)
    detail = "The name 'valu:0' refers to a Tensor which does not exist. The operation, 'valu', does not exist in the graph."
    assert caught.value.message == f'Cannot interpret feed_dict key as Tensor: "{detail}"'
    assert caught.value.help == ("did you mean value?",)
    with pytest.raises(RequestError, match=r"'parts:2' .* 'parts', exists but only has 2 outputs") as caught:
        fed(GRAPH, "parts:2", 1.0)
    assert caught.value.help == ()


def test_a_file_that_may_not_be_read_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "g.yaml"
    path.write_text(yaml.safe_dump({"nodes": NODES, "run": [{"fetch": ["parts"], "feed": {"value": {"file": "x.npy"}}}]}))
    file = read_graph_file(path.read_text(), "g.yaml")
    assert file.steps is not None
    (feed,) = file.steps[0].feeds
    with pytest.raises(PermissionDeniedError) as caught:
        resolve_feed(file.graph, feed, tmp_path.parent, FileAccess.of([tmp_path]))
    assert str(caught.value.location).startswith("g.yaml:")


# --- generated numbers ----------------------------------------------------------------------------------------------


def drawn(kind: str, dtype: DataType = DOUBLE, seed: int | None = 3, **figures: float) -> np.ndarray[Any, Any]:
    return generate(GeneratedFeed(kind, (200,), seed, figures), dtype)


def test_figures_stretch_and_move_what_is_drawn() -> None:
    normal, uniform = drawn("random_normal"), drawn("random_uniform")
    assert np.allclose(drawn("random_normal", mean=3.0, stddev=2.0), normal * 2 + 3)
    assert np.allclose(drawn("random_uniform", minval=-1.0, maxval=3.0), uniform * 4 - 1)
    assert 0 <= uniform.min() < 0.1 < 0.9 < uniform.max() < 1
    assert abs(normal.mean()) < 0.3
    assert abs(normal.std() - 1) < 0.3


def test_seeds() -> None:
    assert (drawn("random_normal", seed=0) != drawn("random_normal")).any()
    assert (drawn("random_normal", seed=-1) == drawn("random_normal", seed=(1 << 64) - 1)).all()
    assert drawn("zeros").tolist() == [0.0] * 200
    assert drawn("ones", INT8).tolist() == [1] * 200
    assert drawn("ones", INT8).dtype == np.int8


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [(INT8, -128, 128), (INT8, 5, 7), (UINT64, (1 << 64) - 2048, 1 << 64), (UINT64, 0, 1 << 63)]
)
def test_whole_numbers_lie_between_their_ends(dtype: DataType, low: int, high: int) -> None:
    found = drawn("random_uniform", dtype, minval=low, maxval=high).tolist()
    assert low <= min(found) < max(found) < high
    assert len(set(found)) > 1


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({}, "Must specify maxval for integer dtype int8"),
        ({"maxval": 0}, "Need minval < maxval, whole numbers of int8, got 0 >= 0"),
        ({"maxval": 129}, "Need minval < maxval, whole numbers of int8, got 0 >= 129"),
        ({"minval": -129, "maxval": 3}, "Need minval < maxval, whole numbers of int8, got -129 >= 3"),
        ({"minval": 0.5, "maxval": 3}, "Need minval < maxval, whole numbers of int8, got 0.5 >= 3"),
        ({"maxval": 2.5}, "Need minval < maxval, whole numbers of int8, got 0 >= 2.5"),
    ],
)
def test_whole_numbers_that_cannot_be_drawn(figures: dict[str, Any], said: str) -> None:
    with pytest.raises(GraphBuildError) as caught:
        drawn("random_uniform", INT8, **figures)
    assert caught.value.message == said
    assert drawn("random_uniform", INT8, maxval=1).tolist() == [0] * 200


# --- files ----------------------------------------------------------------------------------------------------------


def test_files_that_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"PK")
    (tmp_path / "x.CSV").write_text("1,2")
    (tmp_path / "x.txt").write_text("1 2")
    said = {}
    for name in ("x.npz", "x.CSV", "x.txt", "none", "."):
        with pytest.raises(ValueError) as caught:  # noqa: PT011  whatever the caller makes of it
            load_npy(tmp_path / name, ValueError)
        said[name] = str(caught.value).replace(str(tmp_path), "")
    assert said["x.npz"].endswith("; create one with numpy.save('x.npy', numpy.load('x.npz')['NAME'])")
    assert said["x.CSV"].endswith("; create one with numpy.save('x.npy', numpy.loadtxt('x.CSV', delimiter=','))")
    assert said["x.txt"].startswith("/x.txt is not a .npy file of numbers: ")
    assert "create one" not in said["x.txt"]
    assert said["none"] == "no such file: /none"
    assert said["."].startswith("cannot read ")


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_file_is_read_as_it_lies(order: Any, tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    for version in ((1, 0), (2, 0), (3, 0)):
        with (tmp_path / "x.npy").open("wb") as file:
            np.lib.format.write_array(file, np.asarray(array, order=order), version)
        assert load_npy(tmp_path / "x.npy", ValueError).tolist() == array.tolist()
