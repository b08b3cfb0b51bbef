"""Random ops whose state is a resource variable, int64 `[3]`: (lower half of the counter, upper half, key)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import INT64
from placesim.core.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.device_resources import VARIABLE_TYPE, ResourceHandle, VariableResource
from placesim.ops.kernels.kernel import Compute, Kernel, KernelContext, Table, Tensor, elements, one_per_output
from placesim.ops.kernels.philox import MASK_64, RESERVED_SAMPLES, Philox
from placesim.ops.kernels.random.distributions import Distribution, full_integers, normal, truncated_normal, uniform
from placesim.ops.kernels.random.numbers import integers_within
from placesim.ops.kernels.random.samplers import binomial_shape_of, sample_binomials
from placesim.ops.kernels.random.shapes import (
    AUTOMATIC,
    THREEFRY,
    build_infer_spelled,
    check_philox,
    requested_shape,
    scalar_input,
)
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    infer_by,
    vector_shape_value,
    with_rank,
    with_rank_at_most,
)

STATE_SIZE = 3


# --- the state ------------------------------------------------------------------------------------------------------


def _state_of(handle: ResourceHandle, context: KernelContext) -> VariableResource:
    """Return the state variable. Raises NotFoundError if it was not set, InvalidArgumentError unless it is an int64 vector."""
    variable: VariableResource = context.resources.lookup(handle, VARIABLE_TYPE)
    if variable.value is None:
        raise NotFoundError(f"Resource {handle.container}/{handle.name}/{handle.type} does not exist.")
    if variable.dtype is not INT64:
        raise InvalidArgumentError(f"dtype of RNG state variable must be int64, not {variable.dtype.name}")
    if variable.value.ndim != 1:
        raise InvalidArgumentError(f"RNG state must have one and only one dimension, not {variable.value.ndim}")
    return variable


def _check_algorithm(algorithm: int) -> None:
    if algorithm == THREEFRY:
        raise UnimplementedError("Non-XLA devices don't support the ThreeFry algorithm.")
    if algorithm != AUTOMATIC:
        check_philox(algorithm)


def advance(handle: ResourceHandle, context: KernelContext, algorithm: int | None, blocks: int, tag: int = 0) -> Philox:
    """Return the generator in the state variable, and advance the state by `blocks`.

    With `tag` 1, the state's first element is the algorithm. Raises NotFoundError if the variable was not set,
    InvalidArgumentError for a state of another type or shape and an unknown algorithm, UnimplementedError for ThreeFry.
    """
    variable = _state_of(handle, context)
    state = variable.value
    assert state is not None
    if tag and not len(state):
        raise InvalidArgumentError("Size of tensor must be at least 1")
    _check_algorithm(int(state[0]) if algorithm is None else algorithm)
    if len(state) < tag + STATE_SIZE:
        raise InvalidArgumentError(
            f"For the Philox algorithm, the size of state must be at least {tag + STATE_SIZE}; got {len(state)}"
        )
    # the signed words stand for unsigned ones
    low, high, key = (int(word) & MASK_64 for word in state[tag : tag + STATE_SIZE])
    generator = Philox(key, high << 64 | low)
    moved = generator.copy()
    moved.skip(blocks)
    # readers keep the old array
    variable.value = state.copy()
    variable.value[tag : tag + 2] = np.array([moved.counter & MASK_64, moved.counter >> 64], np.uint64).view(np.int64)
    return generator


# --- fills ----------------------------------------------------------------------------------------------------------


def _fill(
    handle: ResourceHandle,
    context: KernelContext,
    algorithm: int | None,
    shape: Tensor,
    attrs: Attrs,
    distribution: Distribution,
) -> Sequence[Tensor]:
    dims = requested_shape(shape)
    count = elements(dims)
    generator = advance(handle, context, algorithm, count * RESERVED_SAMPLES, tag=algorithm is None)
    return (distribution(generator, count, attrs["dtype"]).reshape(dims),)


def stateful(choose: Callable[[Sequence[Any]], Distribution]) -> Compute:
    """Return the kernel of a distribution; its inputs are state, algorithm, shape and parameters.

    It raises InvalidArgumentError for an invalid shape and invalid parameters, and the errors of `advance`.
    """

    def compute(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
        algorithm = scalar_input(inputs[1], 1)
        distribution = choose(inputs[3:])
        return _fill(inputs[0], context, algorithm, inputs[2], attrs, distribution)

    return compute


def tagged_normal(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """Draw normals from a state that starts with its algorithm; the inputs are state and shape. Raises `stateful`'s errors."""
    return _fill(inputs[0], context, None, inputs[1], attrs, normal)


def binomial(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """Draw binomial counts; the requested shape must end with the broadcast shape of counts and probabilities.

    Raises the errors of `binomial_shape_of` and `advance`; InvalidArgumentError for an algorithm that is not a scalar.
    """
    handle, algorithm, shape, counts, probabilities = inputs
    dims, batches, samples = binomial_shape_of(shape, counts, probabilities)
    if np.ndim(algorithm):
        raise InvalidArgumentError(f"algorithm must be of shape [], not {shape_text(algorithm)}")
    # TensorFlow reserves this for each batch, although it draws much less
    blocks = batches * 2 * 100 * (samples + 3) // 4 * RESERVED_SAMPLES
    generator = advance(handle, context, int(algorithm), blocks)
    return (sample_binomials(generator, dims, counts, probabilities, attrs["dtype"]),)


def skip(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """Advance the state as if `delta` numbers had been drawn. Raises the errors of `advance`."""
    advance(inputs[0], context, scalar_input(inputs[1], 1), scalar_input(inputs[2], 2) * RESERVED_SAMPLES)
    return ()


def read_and_skip(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """Return the state `[3]`, and advance it as if `delta` numbers had been drawn. Raises the errors of `advance`."""
    algorithm, delta = scalar_input(inputs[1], 1), scalar_input(inputs[2], 2)
    before = _state_of(inputs[0], context).value
    advance(inputs[0], context, algorithm, delta * RESERVED_SAMPLES)
    assert before is not None
    return (before[:STATE_SIZE].copy(),)


def _drawing(choose: Callable[[Sequence[Any]], Distribution]) -> Kernel:
    return Kernel(stateful(choose), infer_stateful, one_per_output, needs_context=True)


# --- shape functions ------------------------------------------------------------------------------------------------


def infer_stateful(context: ShapeContext) -> Sequence[Dims]:
    """Return the shape that input 2 gives; the algorithm and the inputs after the shape must be scalars."""
    for index in (1, *range(3, len(context.shapes))):
        with_rank(context.shapes[index], 0)
    return (vector_shape_value(context, 2),)


def _infer_binomial(context: ShapeContext) -> Sequence[Dims]:
    with_rank_at_most(context.shapes[3], 1)
    with_rank_at_most(context.shapes[4], 1)
    return (vector_shape_value(context, 2),)


TABLE: Table = {
    "StatefulUniform": _drawing(lambda parameters: uniform),
    "StatefulStandardNormalV2": _drawing(lambda parameters: normal),
    "StatefulTruncatedNormal": _drawing(lambda parameters: truncated_normal),
    "StatefulUniformFullInt": _drawing(lambda parameters: full_integers),
    "StatefulUniformInt": _drawing(integers_within),
    "StatefulStandardNormal": Kernel(tagged_normal, build_infer_spelled(1), one_per_output, needs_context=True),
    "StatefulRandomBinomial": Kernel(binomial, _infer_binomial, one_per_output, needs_context=True),
    "RngSkip": Kernel(skip, infer_by("[], [], [] ->"), needs_context=True),
    "RngReadAndSkip": Kernel(read_and_skip, infer_by(f"[], [], [] -> [{STATE_SIZE}]"), needs_context=True),
}
