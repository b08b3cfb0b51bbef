"""Kernels of a dry run: values that are known are computed, others are shapes, with the feeds that would tell them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from placesim.core.dtypes import BOOL, FLOAT, INT32, DataType
from placesim.core.errors import InvalidArgumentError
from placesim.graph.graph import Graph, NodeDef
from placesim.ops.kernels import load_kernels
from placesim.ops.kernels.abstract_tensor import NOTHING, UNTOLD, Sketch, SketchedValueError
from placesim.ops.kernels.device_resources import VariableResource
from placesim.ops.registry import load_registry
from placesim.runtime.dry_runs.abstract_values import MAX_KNOWN_ELEMENTS, MAX_ROOTS, sketch_kernel, unknown_choice
from placesim.runtime.dry_runs.assumptions import Assumptions

FLOATS: dict[str, Any] = {"T": FLOAT}


def run(op: str, values: Sequence[Any], guesses: Assumptions | None = None, **attrs: Any) -> list[Any]:
    """The outputs of an op as the node `node`; its inputs stand in the graph as `i0`, `i1`, ..."""
    definition = load_registry().op(op)
    assert definition is not None
    graph = Graph(load_registry())
    kinds = [arg.dtypes({name: attr.default for name, attr in definition.attrs.items()} | attrs) for arg in definition.inputs]
    dtypes = [dtype for kind in kinds for dtype in kind]
    graph.extend([NodeDef(f"i{i}", "Placeholder", attrs={"dtype": dtype}) for i, dtype in enumerate(dtypes)])
    graph.extend([NodeDef("node", op, tuple(f"i{i}" for i in range(len(dtypes))), "", attrs)])
    node = graph.node("node")
    kernel = sketch_kernel(load_kernels()[op], graph, node, guesses or Assumptions())
    return list(kernel.compute(tuple(values), graph.kernel_attrs(node)))


def sketch(*shape: int, roots: str | None = None, opened_by: str = "", dtype: DataType = FLOAT) -> Sketch:
    found = Sketch(shape, dtype, "origin", None if roots is None else frozenset(roots))
    found.opened_by = frozenset(opened_by)
    return found


def test_few_known_elements_are_computed() -> None:
    assert run("Neg", [np.array([1.0, 2.0], np.float32)], **FLOATS)[0].tolist() == [-1.0, -2.0]
    (found,) = run("Neg", [np.zeros(MAX_KNOWN_ELEMENTS, np.float32)], **FLOATS)
    assert isinstance(found, np.ndarray)
    (found,) = run("Neg", [np.zeros(MAX_KNOWN_ELEMENTS + 1, np.float32)], **FLOATS)
    assert isinstance(found, Sketch)
    assert (found.shape, found.dtype, found.origin, found.roots) == ((1025,), np.dtype(np.float32), "node", None)


@pytest.mark.parametrize(("count", "is_computed"), [(MAX_KNOWN_ELEMENTS, True), (MAX_KNOWN_ELEMENTS + 1, False)])
def test_large_outputs_are_not(count: int, is_computed: bool) -> None:
    (found,) = run("Fill", [np.array([count], np.int32), np.float32(1)], **FLOATS)
    assert isinstance(found, np.ndarray) is is_computed
    assert found.shape == (count,)


@pytest.mark.parametrize(
    ("roots", "told"),
    [
        (["a"], "a"),
        (["a", "b"], "ab"),
        (["abcd", "defg"], "abcdefg"),
        (["abcd", "efgh"], "abcdefgh"),
        (["abcde", "fghi"], None),
        (["a", None], None),
    ],
)
def test_the_feeds_that_would_tell_a_value(roots: list[str | None], told: str | None) -> None:
    assert MAX_ROOTS == 8
    (found,) = run("AddN", [sketch(2, roots=some) for some in roots], N=len(roots), **FLOATS)
    assert found.roots == (None if told is None else frozenset(told))


def test_a_variable_s_value_counts() -> None:
    held: Any = VariableResource("v", FLOAT)
    held.value = sketch(2, roots="a")
    (found,) = run("Neg", [held], **FLOATS)
    assert (found.shape, found.roots) == ((2,), frozenset("a"))


def test_shapes_that_were_assumed_are_inherited_where_any_are() -> None:
    values = [sketch(2, opened_by="a"), sketch(2, opened_by="b"), sketch(2)]
    assumed, plain = Assumptions(dimension=2), Assumptions()
    (found,) = run("AddN", values, assumed, N=3, **FLOATS)
    assert found.opened_by == frozenset("ab")
    ((_, node, slot),) = assumed.causes
    assert (node, slot, *assumed.causes.values()) == ("node", 0, frozenset("ab"))
    (found,) = run("AddN", values, plain, N=3, **FLOATS)
    assert (found.opened_by, plain.causes) == (NOTHING, {})
    (found,) = run("Neg", [sketch(2)], assumed, **FLOATS)
    assert found.opened_by == NOTHING


def test_a_shape_that_depends_on_a_value() -> None:
    sizes = sketch(2, roots="n", dtype=INT32)
    with pytest.raises(SketchedValueError) as caught:
        run("Fill", [sizes, np.float32(0)], **FLOATS)
    assert caught.value.message == "The shape of {{node node}} is known only at run time: [?,?]"
    assert (caught.value.node, caught.value.roots) == ("node", frozenset("n"))
    assumed = Assumptions(dimension=5)
    (found,) = run("Fill", [sizes, np.float32(0)], assumed, **FLOATS)
    assert (found.shape, found.opened_by) == ((5, 5), frozenset("n"))
    (found,) = run("Fill", [sketch(2, dtype=INT32), np.float32(0)], assumed, **FLOATS)
    assert found.opened_by == frozenset([UNTOLD])


def test_what_a_shape_function_refuses() -> None:
    with pytest.raises(InvalidArgumentError, match="Dimensions must be equal"):
        run("MatMul", [sketch(2, 3), sketch(2, 3)], **FLOATS)


@pytest.mark.parametrize(
    ("op", "known", "expected"),
    [("LogicalAnd", False, False), ("LogicalAnd", True, None), ("LogicalOr", True, True), ("LogicalOr", False, None)],
)
def test_one_input_may_settle_a_logical_op(op: str, known: bool, expected: bool | None) -> None:
    for values in ([np.bool_(known), sketch(dtype=BOOL)], [sketch(dtype=BOOL), np.bool_(known)]):
        (found,) = run(op, values)
        assert (None if isinstance(found, Sketch) else bool(found)) is expected
    (found,) = run(op, [np.array([known]), sketch(1, dtype=BOOL)])
    assert isinstance(found, Sketch)


def test_elements_that_are_moved_stay_known() -> None:
    partly = sketch(2, dtype=INT32)
    partly.known = np.array([-1, 7], np.int32)
    packed: dict[str, Any] = {"T": INT32, "N": 2}
    (found,) = run("ConcatV2", [partly, np.array([3], np.int32), np.int32(0)], Tidx=INT32, **packed)
    assert isinstance(found, Sketch)
    assert found.known is not None
    assert found.known.tolist() == [-1, 7, 3]
    (found,) = run("ConcatV2", [sketch(2, dtype=INT32), np.array([3], np.int32), np.int32(0)], Tidx=INT32, **packed)
    assert found.known is not None
    assert found.known.tolist() == [-1, -1, 3]
    (found,) = run("ConcatV2", [sketch(2), np.array([3], np.float32), np.int32(0)], Tidx=INT32, T=FLOAT, N=2)
    assert found.known is None
    (found,) = run("ConcatV2", [sketch(300, dtype=INT32), np.array([3], np.int32), np.int32(0)], Tidx=INT32, **packed)
    assert found.known is None


def test_a_choice_that_nothing_tells() -> None:
    graph = Graph(load_registry())
    graph.extend([NodeDef("p", "Placeholder", attrs={"dtype": BOOL})])
    error = unknown_choice(graph, graph.node("p"), [sketch(roots="ab", dtype=BOOL)])
    assert error.message == "The work of {{node p}} depends on a value known only at run time"
    assert (error.node, error.roots) == ("p", frozenset("ab"))
