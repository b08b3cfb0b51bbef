"""Normals of a given mean and deviation between given bounds, by the cheapest of three rejection methods.

The batches are drawn one after another from one generator, and each starts at a new block. TensorFlow does the same within each
of its threads; a tensor of fewer than some thousand elements gets one thread. Source: Robert, "Simulation of truncated normal
variables" (1995), with TensorFlow's choice of the method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import DataType
from placesim.core.errors import InternalError, InvalidArgumentError
from placesim.ops.attributes import Attrs, TensorValue, format_tensor
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table, Tensor, elements, one_per_output
from placesim.ops.kernels.philox import Philox, reserve
from placesim.ops.kernels.random.distributions import normal_values, uniform_values
from placesim.ops.kernels.random.shapes import (
    check_seed_pair,
    check_shape_vector,
    dims_before,
    philox_of_seeds,
    requested_shape,
)
from placesim.ops.kernels.random.stateless import infer_seeded
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import Dims, ShapeContext, vector_shape_value, with_rank_at_most

MAX_ITERATIONS = 1000
"""Number of consecutive rejections after which TensorFlow fails."""
DEVIATIONS_FOR_NORMALS = 1.3
"""If a bound is this many deviations beyond the mean, plain normals are proposed."""
BATCH = 100
"""Number of outputs with the same parameters that are drawn together."""
NAMES = ("means", "stddevs", "minvals", "maxvals")

Proposal = Callable[[Tensor], tuple[Tensor, Tensor]]
"""A function from words `[units, blocks, 4]` to proposed values, and whether they are accepted, both `[units, values]`."""


# --- one batch ------------------------------------------------------------------------------------------------------


def draw_between(generator: Philox, parameters: Sequence[Any], count: int, dtype: DataType) -> Tensor:
    """Draw normals `[count]`; the parameters are mean, deviation and two bounds. The generator advances past the blocks used.

    Parameters and arithmetic have the element type. Raises InvalidArgumentError for impossible parameters, InternalError for
    too many consecutive rejections.
    """
    mean, deviation, low, high = parameters
    if not (deviation > 0 and low < high and (np.isfinite(low) or np.isfinite(high))):
        raise InvalidArgumentError("Invalid parameters")
    if low == -np.inf or high < mean:
        # mirror, so that the lower bound is nearer to the mean
        low, high, deviation = high, low, -deviation
    least, most = (low - mean) / deviation, (high - mean) / deviation
    proposal, blocks, failure, limit = _choose(least, most, dtype)
    return np.asarray(_accepted(generator, proposal, blocks, count, failure, limit) * deviation + mean)


def _choose(least: Any, most: Any, dtype: DataType) -> tuple[Proposal, int, str, int]:
    """For normals between two bounds: (the proposal, its blocks per unit, the error text, the limit of rejections)."""
    kind = dtype.numpy.type
    # Robert's bound between uniform and exponential proposals
    root = np.sqrt(least * least + kind(4))
    cutoff = kind(2) * np.exp(kind(0.5) + (least * (least - root)) / kind(4)) / (least + root)
    reach = kind(DEVIATIONS_FOR_NORMALS)
    if (least < -reach and most >= 0) or (most > reach and least <= 0):
        text = "TruncatedNormal randn rejection sampler failed to accept a sample."
        return _plain(least, most, dtype), 1, text, MAX_ITERATIONS + 1
    if most - least < cutoff:
        text = "TruncatedNormal uniform rejection sampler failed to  accept a sample."
        return _flat(least, most, dtype), 2, text, MAX_ITERATIONS
    text = "TruncatedNormal exponential distribution rejection sampler failed to accept a sample."
    return _exponential(least, most, dtype), 1, text, MAX_ITERATIONS


def _plain(least: Any, most: Any, dtype: DataType) -> Proposal:
    def propose(words: Tensor) -> tuple[Tensor, Tensor]:
        values = normal_values(words[:, 0], dtype)
        return values, (values >= least) & (values <= most)

    return propose


def _flat(least: Any, most: Any, dtype: DataType) -> Proposal:
    """Propose uniforms between the bounds, accepted in proportion to the density."""
    kind = dtype.numpy.type
    highest = kind(0) if least < 0 else least * least

    def propose(words: Tensor) -> tuple[Tensor, Tensor]:
        values = uniform_values(words[:, 0], dtype) * (most - least) + least
        return values, uniform_values(words[:, 1], dtype) <= np.exp((highest - values * values) / kind(2))

    return propose


def _exponential(least: Any, most: Any, dtype: DataType) -> Proposal:
    """Propose exponentials from the lower bound, with the rate that fits the density best."""
    kind = dtype.numpy.type
    alpha = (least + np.sqrt(least * least + kind(4))) / kind(2)

    def propose(words: Tensor) -> tuple[Tensor, Tensor]:
        uniforms = uniform_values(words[:, 0], dtype)
        values = -np.log(uniforms[:, 0::2]) / alpha + least
        x = alpha - values if least < alpha else least - alpha
        return values, (uniforms[:, 1::2] <= np.exp(-x * x / kind(2))) & (values < most)

    return propose


def _accepted(generator: Philox, propose: Proposal, blocks: int, count: int, failure: str, limit: int) -> Tensor:
    """Return the first `count` accepted proposals. Raises InternalError after `limit` consecutive rejections."""
    found: list[Tensor] = []
    missing, rejected = count, 0
    while missing:
        # a guess; blocks that turn out to be superfluous are not skipped
        units = missing // 2 + 4
        words = generator.copy().take(units * blocks).reshape(units, blocks, 4)
        values, accepted = propose(words)
        places = np.flatnonzero(accepted.reshape(-1))[:missing]
        gaps = np.diff(places, prepend=-1 - rejected) - 1
        if len(places) and gaps.max() >= limit:
            raise InternalError(failure)
        enough = len(places) == missing
        if not enough:
            rejected = values.size - 1 - int(places[-1]) if len(places) else rejected + values.size
            if rejected >= limit:
                raise InternalError(failure)
        generator.skip((int(places[-1]) // values.shape[1] + 1 if enough else units) * blocks)
        found.append(values.reshape(-1)[places])
        missing -= len(places)
    return np.concatenate(found) if found else np.empty(0)


# --- the ops --------------------------------------------------------------------------------------------------------


def _vector_of(parameters: Tensor, count: int) -> Tensor:
    """Return a vector of parameters; a scalar or a vector of length 1 is repeated."""
    flat = np.reshape(parameters, -1)
    return np.broadcast_to(flat, (count,)) if len(flat) == 1 else flat


def _check_parameters(parameters: Sequence[Tensor], batches: int) -> bool:
    """Return whether all batches have the same parameters. Raises InvalidArgumentError for a wrong number of parameters."""
    for name, parameter in zip(NAMES, parameters, strict=True):
        if np.ndim(parameter) > 1:
            raise InvalidArgumentError(f"Input {name} should be a scalar or vector, got shape: {shape_text(parameter)}")
    means, deviations, low, high = parameters
    if np.shape(means) in ((), (1,)) and np.shape(deviations) in ((), (1,)) and not np.ndim(low) and not np.ndim(high):
        return True
    for name, parameter in zip(NAMES, parameters, strict=True):
        if np.shape(parameter) not in ((), (1,), (batches,)):
            raise InvalidArgumentError(f"Input {name} should have length 1 or shape[0], got shape: {shape_text(parameter)}")
    return False


def parameterized_truncated_normal(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """Draw normals of the requested shape `[batch, ...]`; each batch may have its own mean, deviation and bounds.

    Raises InvalidArgumentError for a shape or parameters that do not fit, and the errors of `draw_between`.
    """
    shape, dtype = inputs[0], attrs["dtype"]
    check_shape_vector(shape)
    if not len(shape):
        raise InvalidArgumentError(f"Shape tensor must not be empty, got {format_tensor(TensorValue(attrs['T'], shape))}")
    dims = requested_shape(shape)
    batches, samples, total = dims[0], elements(dims[1:]), elements(dims)
    if _check_parameters(inputs[1:], batches):
        # if all batches have equal parameters, TensorFlow draws batches of its own size instead
        batches, samples = -(-total // BATCH), BATCH
    generator = reserve(context, attrs, batches * 2 * MAX_ITERATIONS * (samples + 3) // 4)
    rows = zip(*(_vector_of(parameter, batches) for parameter in inputs[1:]), strict=True)
    result = np.empty(total, dtype.numpy)
    for number, row in enumerate(rows):
        part = result[number * samples : (number + 1) * samples]
        part[:] = draw_between(generator, row, len(part), dtype)
    return (result.reshape(dims),)


def seeded_truncated_normal(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Draw normals of the requested shape, which must end with the parameters' broadcast shape.

    Raises InvalidArgumentError for a shape, seed or parameters that do not fit, and the errors of `draw_between`.
    """
    shape, seed, *parameters = inputs
    check_seed_pair(seed)
    try:
        broadcast = np.broadcast_arrays(*parameters)
    except ValueError:
        texts = " vs. ".join(map(shape_text, parameters))
        raise InvalidArgumentError(f"means, stddevs, minvals, maxvals must have compatible batch dimensions: {texts}") from None
    check_shape_vector(shape)
    dims, tail = requested_shape(shape), broadcast[0].shape
    samples = elements(dims_before(dims, tail))
    generator = philox_of_seeds(seed)
    result = np.empty((samples, elements(tail)), attrs["dtype"].numpy)
    for column, row in enumerate(zip(*(part.reshape(-1) for part in broadcast), strict=True)):
        result[:, column] = draw_between(generator, row, samples, attrs["dtype"])
    return (result.reshape(dims),)


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_parameterized(context: ShapeContext) -> Sequence[Dims]:
    for dims in context.shapes[1:]:
        with_rank_at_most(dims, 1)
    return (vector_shape_value(context, 0),)


TABLE: Table = {
    "ParameterizedTruncatedNormal": Kernel(
        parameterized_truncated_normal, _infer_parameterized, one_per_output, needs_context=True
    ),
    "StatelessParameterizedTruncatedNormal": Kernel(seeded_truncated_normal, infer_seeded, one_per_output),
}
