"""Random ops with their own generator, seeded by attrs: fills, integers, shuffles and draws of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import DOUBLE
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.cost_model import CostModel, Passes
from placesim.ops.kernels.kernel import Compute, Kernel, KernelContext, Table, Tensor, Trait, elements, one_per_output
from placesim.ops.kernels.memory_rules import KernelMemory
from placesim.ops.kernels.philox import RESERVED_SAMPLES, Philox, reserve
from placesim.ops.kernels.random.distributions import (
    Distribution,
    full_integers,
    integers_between,
    normal,
    truncated_normal,
    uniform,
    uniform_values,
)
from placesim.ops.kernels.random.shapes import (
    build_infer_spelled,
    check_bounds_dims,
    check_scalar_bounds,
    integer_bounds,
    requested_shape,
)
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import Dims, ShapeContext, scalar_dim, unchanged, vector_shape_value, with_rank

# --- fills ----------------------------------------------------------------------------------------------------------


def fill(distribution: Distribution) -> Compute:
    """Return the kernel that fills the requested shape from a distribution. It raises InvalidArgumentError for a bad shape."""

    def compute(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
        shape = requested_shape(inputs[0])
        count = elements(shape)
        generator = reserve(context, attrs, count * RESERVED_SAMPLES)
        return (distribution(generator, count, attrs["dtype"]).reshape(shape),)

    return compute


def integers_within(bounds: Sequence[Any]) -> Distribution:
    """Return the distribution of integers in [minval, maxval). Raises InvalidArgumentError unless minval is less."""
    return integers_between(*integer_bounds(*bounds))


def random_integers(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """Draw integers in [minval, maxval) of the requested shape `[rank]`.

    Raises InvalidArgumentError for invalid bounds or an invalid shape; for an empty shape, bounds only need to be scalars.
    """
    check_scalar_bounds(*inputs[1:])
    shape = requested_shape(inputs[0])
    count = elements(shape)
    if not count:
        return (np.empty(shape, attrs["Tout"].numpy),)
    distribution = integers_within(inputs[1:])
    generator = reserve(context, attrs, count * RESERVED_SAMPLES)
    return (distribution(generator, count, attrs["Tout"]).reshape(shape),)


def system_integers(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Draw integers of the requested shape from the system's entropy. Raises InvalidArgumentError for an invalid shape."""
    import secrets

    shape = requested_shape(inputs[0])
    generator = Philox(secrets.randbits(64), secrets.randbits(128))
    return (full_integers(generator, elements(shape), attrs["dtype"]).reshape(shape),)


# --- shuffles -------------------------------------------------------------------------------------------------------


def shuffled_rows(value: Tensor, generator: Philox) -> Tensor:
    """Return the rows of `[rows, ...]` in an order that `rows - 1` words of the generator determine."""
    size = len(value)
    words = generator.take(-(-(size - 1) // 4)).reshape(-1)[: size - 1]
    left = np.arange(size, 1, -1, dtype=np.uint32)
    # Fisher and Yates from the front
    order = list(range(size))
    for place, step in enumerate((words % left).tolist()):
        other = place + step
        order[place], order[other] = order[other], order[place]
    return value[order]


def random_shuffle(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return `[rows, ...]` with its rows in random order; a scalar or a single row draws nothing."""
    value = inputs[0]
    if np.size(value) <= 1 or len(value) <= 1:
        return (value,)
    blocks = (len(value) - 1 + 3) // 4
    return (shuffled_rows(value, reserve(context, attrs, blocks)),)


# --- classes --------------------------------------------------------------------------------------------------------


def check_multinomial(logits: Tensor, samples: Tensor) -> tuple[int, int, int]:
    """Return batch size, number of classes and number of samples of a draw from `logits [batch, classes]`.

    Raises InvalidArgumentError for logits that are no matrix or have no classes, and an invalid number of samples.
    """
    if np.ndim(logits) != 2:
        raise InvalidArgumentError(f"logits should be a matrix, got shape {shape_text(logits)}")
    if np.ndim(samples):
        raise InvalidArgumentError(f"num_samples should be a scalar, got shape {shape_text(samples)}")
    if samples < 0:
        raise InvalidArgumentError(f"num_samples should be non-negative, got {samples}")
    if not logits.shape[1]:
        raise InvalidArgumentError("num_classes should be positive, got 0")
    return logits.shape[0], logits.shape[1], int(samples)


def draw_classes(logits: Tensor, samples: int, generator: Philox) -> Tensor:
    """Draw classes `[batch, samples]` with the odds of `logits [batch, classes]`, by a uniform double for each draw."""
    batch = len(logits)
    uniforms = uniform_values(generator.take(-(-batch * samples // 2)), DOUBLE).reshape(-1)[: batch * samples]
    # even an infinite logit has zero odds
    finite = np.isfinite(logits)
    highest = np.max(np.where(finite, logits, np.finfo(logits.dtype).min if logits.dtype.kind == "f" else -np.inf), 1)
    odds = np.exp(logits.astype(np.float64) - highest.astype(np.float64)[:, None])
    sums = np.cumsum(np.where(finite, odds, 0), 1)
    classes = np.empty((batch, samples), np.int64)
    for row, sought in enumerate(uniforms.reshape(batch, samples)):
        classes[row] = np.searchsorted(sums[row], sought * sums[row, -1], "right")
    return classes


def multinomial(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """Draw classes `[batch, samples]` from `logits [batch, classes]`. Raises the errors of `check_multinomial`."""
    logits, samples = inputs
    batch, _, count = check_multinomial(logits, samples)
    dtype = attrs["output_dtype"].numpy
    if not batch * count:
        return (np.empty((batch, count), dtype),)
    # TensorFlow reserves two words for each double, and rounds the number of samples up to a multiple of four
    generator = reserve(context, attrs, batch * 2 * (-(-count // 4) * 4) * RESERVED_SAMPLES)
    return (draw_classes(logits, count, generator).astype(dtype),)


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_random_integers(context: ShapeContext) -> Sequence[Dims]:
    check_bounds_dims(context, 1)
    return (vector_shape_value(context, 0),)


def infer_multinomial(context: ShapeContext) -> Sequence[Dims]:
    """Return `[batch, samples]` for logits `[batch, classes]` and a scalar number of samples."""
    batch, _ = with_rank(context.shapes[0], 2)
    with_rank(context.shapes[1], 0)
    return ((batch, scalar_dim(context, 1)),)


# --- memory ---------------------------------------------------------------------------------------------------------


def multinomial_memory(memory: KernelMemory) -> None:
    """A temporary has the cumulative probabilities of a row in double."""
    memory.allocate()
    if memory.outputs[0].elements:
        classes = memory.inputs[0].dims[1]
        memory.temporary(classes * DOUBLE.size, (classes,), DOUBLE)


def shuffle_memory(memory: KernelMemory) -> None:
    """A tensor of at most one row is passed on; a vector is copied outside the device's allocator."""
    tensor = memory.inputs[0]
    if tensor.elements <= 1 or tensor.dims[0] <= 1:
        memory.alias(0, 0)
    elif len(tensor.dims) == 1:
        memory.leave_untracked(0)


UNIFORM, NORMAL = CostModel("random"), CostModel("random", Passes(plain=4))
_TRUNCATED = CostModel("random", Passes(plain=13))

TABLE: Table = {
    "RandomUniform": Kernel(
        fill(uniform), build_infer_spelled(0), one_per_output, needs_context=True, traits=Trait.TAKES_SHAPE, cost=UNIFORM
    ),
    "RandomStandardNormal": Kernel(
        fill(normal), build_infer_spelled(0), one_per_output, needs_context=True, traits=Trait.TAKES_SHAPE, cost=NORMAL
    ),
    "TruncatedNormal": Kernel(
        fill(truncated_normal),
        build_infer_spelled(0),
        one_per_output,
        needs_context=True,
        traits=Trait.TAKES_SHAPE,
        cost=_TRUNCATED,
    ),
    "RandomUniformInt": Kernel(
        random_integers, _infer_random_integers, one_per_output, needs_context=True, traits=Trait.TAKES_SHAPE
    ),
    "RandomShuffle": Kernel(random_shuffle, unchanged, needs_context=True, memory=shuffle_memory, traits=Trait.TAKES_OBJECTS),
    "Multinomial": Kernel(multinomial, infer_multinomial, one_per_output, needs_context=True, memory=multinomial_memory),
    "NonDeterministicInts": Kernel(system_integers, build_infer_spelled(0), one_per_output, traits=Trait.TAKES_SHAPE),
}
