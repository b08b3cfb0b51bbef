"""Refusals of shape functions, in TensorFlow's words: with the node, the shapes, and the values that were looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from placesim.core.dtypes import FLOAT, INT32
from placesim.core.errors import GraphBuildError
from placesim.ops.kernels import load_kernels
from placesim.ops.kernels.kernel import Kernel
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError
from placesim.runtime.shapes.shape_inference import MAX_VALUES, infer_shapes, word_refusal

DTYPES = [FLOAT, INT32, INT32, INT32]
SHAPES: list[Dims] = [(2, -1), (2,), (2,), None]


def refusing(used: Sequence[int], spelled: Sequence[int], *, needs: int | None = None) -> Kernel:
    """A kernel that looks at these values and spelled shapes, and refuses; `needs`: only where that value is known."""

    def shape(context: ShapeContext) -> Sequence[Dims]:
        for index in spelled:
            context.shape_value(index)
        for index in used:
            context.value(index)
        if needs is None or context.value(needs) is not None:
            raise ShapeError("It does not fit")
        return ()

    return load_kernels()["Neg"]._replace(shape=shape)


def worded(kernel: Kernel, values: Sequence[Any] = (), partial: Sequence[Dims] = ()) -> str:
    context = ShapeContext(SHAPES, {"T": FLOAT}, values, (), partial)
    with pytest.raises(ShapeError) as caught:
        infer_shapes(kernel, context)
    found = word_refusal(caught.value, kernel, context, "n", "Op", ["a", "b", "c", "d"], DTYPES)
    assert found.node == "n"
    head = "It does not fit for '{{node n}} = Op[T=DT_FLOAT](a, b, c, d)' with input shapes: [2,?], [2], [2], ?"
    assert found.message.startswith(head)
    return found.message.removeprefix(head)


ONE, TWO = np.array([1, 2], np.int32), np.array([3, 4], np.int32)


def test_a_refusal_tells_what_it_looked_at_in_the_order_of_the_inputs() -> None:
    values, partial = [None, ONE, TWO, None], [None, None, None, (-1, 7)]
    assert (
        worded(refusing([2, 1], [], needs=1), values) == " and with computed input tensors: input[1] = <1 2>, input[2] = <3 4>."
    )
    assert worded(refusing([], [3, 2], needs=1), values, partial) == (
        " and with computed input tensors: input[1] = <1 2> and with input tensors computed as partial shapes: "
        "input[2] = [3,4],input[3] = [?,7]."
    )
    assert worded(refusing([1], [1], needs=2), values) == (
        " and with computed input tensors: input[2] = <3 4> and with input tensors computed as partial shapes: "
        "input[1] = [1,2]."
    )


def test_a_refusal_without_values_comes_first() -> None:
    assert worded(refusing([1, 2], []), [None, ONE, TWO, None]) == "."


def test_of_many_values_some_are_shown() -> None:
    text = worded(refusing([], [], needs=1), [None, np.arange(MAX_VALUES + 1, dtype=np.int32), None, None])
    assert text.startswith(" and with computed input tensors: input[1] = <0 1 2 ")
    assert f" {MAX_VALUES - 1}" in text
    assert f" {MAX_VALUES}" not in text


@pytest.mark.parametrize(("dim", "is_refused"), [(-2, True), (-1, False), (0, False)])
def test_a_dimension_below_none(dim: int, is_refused: bool) -> None:
    kernel = load_kernels()["Neg"]._replace(shape=lambda context: [None, (3, dim)])
    if not is_refused:
        assert infer_shapes(kernel, ShapeContext([], {})) == (None, (3, dim))
        return
    context = ShapeContext([], {})
    with pytest.raises(GraphBuildError, match="Dimension -2 must be >= 0") as caught:
        infer_shapes(kernel, context)
    assert word_refusal(caught.value, kernel, context, "n", "Op", [], []) is caught.value
