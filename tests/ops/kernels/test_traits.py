"""Facts of kernels' rows on which training strategies rely hold for TensorFlow's recorded inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from placesim.ops.kernels import load_kernels, mixing_of
from placesim.ops.kernels.kernel import Kernel, Trait
from placesim.ops.kernels.shapes import ShapeContext
from tests.ops.kernels.op_cases import Case, load_cases

KERNELS = load_kernels()
Array = np.ndarray[Any, Any]


def cases(wanted: Callable[[Kernel], object]) -> Iterator[tuple[Case, list[Array]]]:
    """Yield the recorded cases of wanted kernels with finite numbers of double and int32, and their inputs."""
    for family in ("math", "array", "nn", "linalg", "random"):
        for recorded in load_cases(family):
            kernel, types = KERNELS.get(recorded["op"]), {given["dtype"] for given in recorded["inputs"]}
            if kernel is not None and wanted(kernel) and types <= {"double", "int32"} and not recorded["error"]:
                case = Case(recorded)
                inputs = [np.asarray(array) for _, array in case.tensors]
                if all(np.isfinite(array).all() for array in inputs):
                    yield case, inputs


def output(case: Case, inputs: Sequence[Array]) -> Any:
    kernel = case.kernel
    return np.asarray(kernel.compute(inputs, case.attrs, *([None] if kernel.needs_context else []))[0])


@pytest.mark.parametrize(
    ("trait", "ops", "holds"),
    [
        (Trait.ADDS, {"AddN", "AddV2", "Sub"}, lambda y, x: np.allclose(y, sum(x)) or np.array_equal(y, x[0] - x[1])),
        (Trait.MULTIPLIES, {"Mul"}, lambda y, x: np.array_equal(y, x[0] * x[1])),
        (Trait.FILLS, {"ZerosLike", "OnesLike"}, lambda y, x: y.shape == x[0].shape and len({*y.flat}) <= 1),
    ],
)
def test_outputs_are_those_of_the_trait(trait: Trait, ops: set[str], holds: Callable[[Array, Sequence[Array]], bool]) -> None:
    seen = set()
    for case, inputs in cases(lambda kernel: trait in kernel.traits):
        assert holds(output(case, inputs), inputs), case.id
        seen.add(case.op)
    assert ops <= seen


def test_quotients_times_divisors_are_dividends() -> None:
    seen = set()
    for case, inputs in cases(lambda kernel: Trait.DIVIDES in kernel.traits):
        dividend, divisor = np.broadcast_arrays(*inputs)
        with np.errstate(divide="ignore", invalid="ignore"):
            quotient = output(case, inputs)
        valid = (divisor != 0) & (dividend.dtype.kind == "f")
        np.testing.assert_allclose(quotient[valid] * divisor[valid], dividend[valid], err_msg=case.id)
        seen.add(case.op)
    assert {"RealDiv", "DivNoNan"} <= seen


def test_the_result_of_a_linear_op_for_a_sum_is_the_sum_of_the_results() -> None:
    seen = set()
    for case, (first, *others) in cases(lambda kernel: Trait.LINEAR in kernel.traits):
        if first.dtype.kind == "f":
            second = first[::-1] if first.ndim else 3 * first
            whole, *parts = (output(case, [part, *others]) for part in (first + second, first, second))
            np.testing.assert_allclose(whole, sum(parts), atol=1e-9, err_msg=case.id)
            seen.add(case.op)
    assert {"Neg", "Sum", "Mean", "Transpose"} <= seen


def test_the_shape_of_an_output_is_the_value_of_the_only_input_read_as_a_shape() -> None:
    seen = set()
    for case, inputs in cases(lambda kernel: Trait.TAKES_SHAPE in kernel.traits):
        context = ShapeContext([value.shape for value in inputs], case.attrs, inputs)
        (dims,) = case.kernel.shape(context)
        (read,) = context.used_partial_shapes.values()
        assert [dim if given >= 0 else given for dim, given in zip(dims or (), read or (), strict=True)] == [*(read or ())]
        seen.add(case.op)
    assert {"Fill", "Reshape", "BroadcastTo", "RandomUniform"} <= seen


def test_without_mixing_a_slice_of_the_input_gives_the_slice_of_the_output() -> None:
    seen = set()
    for case, inputs in cases(lambda kernel: kernel.mixes is not None):
        mixes, first, whole = mixing_of(case.op), inputs[0], output(case, inputs)
        assert mixes is not None
        mixed = mixes(ShapeContext([value.shape for value in inputs], case.attrs, inputs))
        assert mixed is not None
        others = {*range(first.ndim)} - {dim % first.ndim for dim in mixed}
        for axis in others if whole.shape == first.shape and case.op != "ReverseSequence" else ():
            if first.shape[axis]:
                part = output(case, [first.take([0], axis), *inputs[1:]])
                np.testing.assert_allclose(part, whole.take([0], axis), err_msg=case.id)
                seen.add(case.op)
    assert {"Softmax", "Cumsum", "ReverseV2"} <= seen
