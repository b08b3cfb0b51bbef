"""Einsum: an equation over one or two tensors, as reductions and one batched matrix product.

Source: TensorFlow's `einsum_op_util.cc`, `einsum_op_impl.h` and `EinsumShape` for the rules and error texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, Trait
from placesim.ops.kernels.linalg.einsum_memory import einsum_memory
from placesim.ops.kernels.linalg.equations import ELLIPSIS, Labels, broadcast_rank, expand, parse_equation, split_labels
from placesim.ops.kernels.linalg.products import product
from placesim.ops.kernels.precision import wide_dtype
from placesim.ops.kernels.shape_operands import broadcast_dims
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    broadcast,
    format_dims,
    merge_dim,
    subshape,
    with_rank,
    with_rank_at_least,
    with_rank_at_most,
)

# --- kernel ---------------------------------------------------------------------------------------------------------


def compute_einsum(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """Evaluate attr `equation` over one or two tensors; half and bfloat16 are summed in float.

    Raises InvalidArgumentError for an invalid equation, another number of inputs, a label that only the output has, and ranks
    or sizes that do not fit the labels. Also raises it for broadcast axes that do not fit, or that the output lacks.
    """
    equation = parse_equation(attrs["equation"])
    if len(equation.inputs) != len(inputs):
        raise InvalidArgumentError(f"Expected {len(equation.inputs)} inputs but got: {len(inputs)}")
    sizes: dict[str, int] = {}
    named = [_name_axes(index, s, t, sizes) for index, (s, t) in enumerate(zip(equation.inputs, inputs, strict=True))]
    output = _name_output(equation.output, max((broadcast_rank(labels) for labels in named), default=0))
    missing = [label for label in output if not any(label in labels for labels in named)]
    if missing:
        raise InvalidArgumentError(_missing_label_text(attrs["equation"], missing[0]))
    wide = wide_dtype(attrs["T"].numpy)
    operands = [
        _reduce_operand(t.astype(wide, copy=False), labels, output, named) for t, labels in zip(inputs, named, strict=True)
    ]
    tensor, labels = operands[0] if len(operands) == 1 else _contract(operands[0], operands[1], output, named)
    return (_inflate(tensor, labels, output).astype(attrs["T"].numpy, order="C", copy=False),)


def _name_axes(index: int, subscript: str, tensor: Tensor, sizes: dict[str, int]) -> Labels:
    """The label of each axis of an input; adds the size of each named label to `sizes`.

    Raises InvalidArgumentError for a rank or sizes that do not fit.
    """
    labels = split_labels(subscript)
    named = len(labels) - (ELLIPSIS in labels)
    if ELLIPSIS not in labels and tensor.ndim != named:
        raise InvalidArgumentError(f"Expected input {index} to have rank {named} but got: {tensor.ndim}")
    if tensor.ndim < named:
        raise InvalidArgumentError(f"Expected input {index} to have rank at least {named} but got: {tensor.ndim}")
    labels = expand(labels, tensor.ndim - named)
    for axis, (label, size) in enumerate(zip(labels, tensor.shape, strict=True)):
        if label.startswith(ELLIPSIS):
            continue
        # TensorFlow compares only with sizes above 0
        if sizes.get(label, 0) not in (0, size):
            raise InvalidArgumentError(
                f"Expected dimension {sizes[label]} at axis {axis} of the input shaped {format_dims(tensor.shape)} "
                f"but got dimension {size}"
            )
        sizes[label] = size
    return labels


def _name_output(subscript: str, broadcast_rank: int) -> Labels:
    labels = split_labels(subscript)
    if broadcast_rank and ELLIPSIS not in labels:
        raise InvalidArgumentError(
            f"Output contains {broadcast_rank} broadcasting dimension(s) but no ellipsis (...) "
            "was found in the output subscripts."
        )
    return expand(labels, broadcast_rank)


def _missing_label_text(equation: str, label: str) -> str:
    return (
        f"Einsum output subscripts for equation '{equation}' has label '{label}' which is not present in the input subscripts"
    )


def _reduce_operand(tensor: Tensor, labels: Labels, output: Labels, named: list[Labels]) -> tuple[Tensor, Labels]:
    """Take the diagonal of repeated labels, and sum over labels that only this tensor has; return (tensor, labels)."""
    for label in dict.fromkeys(labels):
        # numpy puts the diagonal's axis last, so its label is last too
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            tensor = np.diagonal(tensor, axis1=first, axis2=second)
            labels = (*labels[:first], *labels[first + 1 : second], *labels[second + 1 :], label)
    shared = set(output) | (set(named[0]) & set(named[1]) if len(named) == 2 else set())
    summed = tuple(axis for axis, label in enumerate(labels) if label not in shared)
    if summed:
        tensor = tensor.sum(axis=summed, dtype=tensor.dtype)
    return tensor, tuple(label for label in labels if label in shared)


def _contract(
    one: tuple[Tensor, Labels], two: tuple[Tensor, Labels], output: Labels, named: Sequence[Labels]
) -> tuple[Tensor, Labels]:
    """The product of two tensors, summed over labels that both have and the output lacks; `named` has the inputs' labels."""
    (a, a_labels), (b, b_labels) = one, two
    kept = tuple(dict.fromkeys(output))
    # labels of both tensors are batch axes if the output has them, else they are summed
    batch = tuple(n for n in kept if n.startswith(ELLIPSIS) or (n in a_labels and n in b_labels))
    inner = tuple(n for n in a_labels if n in b_labels and n not in kept)
    rows = tuple(n for n in a_labels if n not in batch and n not in inner)
    columns = tuple(n for n in b_labels if n not in batch and n not in inner)
    left, left_batch, left_free = _as_matrices(a, a_labels, batch, rows, inner, transposed=False)
    right, right_batch, right_free = _as_matrices(b, b_labels, batch, columns, inner, transposed=True)
    common = broadcast_dims(left_batch, right_batch)
    if common is None:
        # TensorFlow's order of batch axes: broadcast axes, then labels in order of appearance
        along = (
            *(n for n in batch if n.startswith(ELLIPSIS)),
            *(n for n in a_labels if n in batch and not n.startswith(ELLIPSIS)),
        )
        shapes = " vs. ".join(
            _operand_text(*operand, along, inner, axes) for operand, axes in zip((one, two), named, strict=True)
        )
        raise InvalidArgumentError(f"Invalid broadcasting dimensions: {shapes}")
    shape = common + left_free + right_free
    if not left.size or not right.size:  # in TensorFlow a size of 0 fits any other size
        return np.zeros(shape, left.dtype), batch + rows + columns
    return product(left, right).reshape(shape), batch + rows + columns


def _operand_text(tensor: Tensor, labels: Labels, batch: Labels, inner: Labels, named: Labels) -> str:
    """The shape of an operand of TensorFlow's batched matrix product, as text.

    If the input's axes, labelled `named`, are already ordered as batch, summed, free and reduced, they stay so; else free axes
    come before the summed axes.
    """
    size = dict(zip(labels, tensor.shape, strict=True))
    free = [name for name in labels if name not in batch and name not in inner]
    along = [name for name in batch if name in labels]
    pair = (prod(size[name] for name in free), prod(size[name] for name in inner))
    kinds = [(name not in labels, not name.startswith(ELLIPSIS), name not in batch, name in free) for name in named]
    is_ordered = kinds == sorted(kinds)
    return format_dims((*(size[name] for name in along), *(reversed(pair) if is_ordered else pair)))


def _as_matrices(
    tensor: Tensor, labels: Labels, batch: Labels, free: Labels, inner: Labels, transposed: bool
) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]]:
    """(`[batch..., free, inner]`, or `[batch..., inner, free]` if `transposed`; sizes of batch axes; sizes of free axes)."""
    order = [n for n in batch if n in labels] + list(inner + free if transposed else free + inner)
    arranged = tensor.transpose([labels.index(n) for n in order])
    size = dict(zip(labels, tensor.shape, strict=True))
    batch_dims = tuple(size.get(n, 1) for n in batch)
    free_dims = tuple(size[n] for n in free)
    pair = (prod(free_dims), prod(size[n] for n in inner))
    return arranged.reshape(*batch_dims, *(reversed(pair) if transposed else pair)), batch_dims, free_dims


def _inflate(tensor: Tensor, labels: Labels, output: Labels) -> Tensor:
    """Order the axes as in the output; a label that the output repeats, as in `i->ii`, gives a diagonal."""
    unique = tuple(dict.fromkeys(output))
    arranged = tensor.transpose([labels.index(n) for n in unique])
    if len(unique) == len(output):
        return arranged
    size = dict(zip(unique, arranged.shape, strict=True))
    inflated = np.zeros([size[n] for n in output], tensor.dtype)
    positions = dict(zip(unique, np.ogrid[tuple(slice(n) for n in arranged.shape)], strict=True))
    inflated[tuple(positions[n] for n in output)] = arranged
    return inflated


# --- shape functions and costs --------------------------------------------------------------------------------------


def infer_einsum(context: ShapeContext) -> tuple[Dims]:
    """Static shape of the output. Raises ShapeError for an invalid equation and for shapes that do not fit."""
    text = context.attrs["equation"]
    try:
        equation = parse_equation(text)
    except InvalidArgumentError as error:
        raise ShapeError(error.message) from None
    if len(equation.inputs) != len(context.shapes):
        raise ShapeError(f"Expected {len(equation.inputs)} inputs for equation {text} but got: {len(context.shapes)}")
    dims_of: dict[str, int] = {}
    broadcasts = [
        _infer_operand(subscript, dims, dims_of, where=f" for {index}th input and equation: {text}")
        for index, (subscript, dims) in enumerate(zip(equation.inputs, context.shapes, strict=True))
    ]
    common = broadcasts[0] if len(broadcasts) == 1 else broadcast(broadcasts[0], broadcasts[1])
    return (_infer_output(text, equation.output, common, dims_of),)


def _infer_operand(subscript: str, dims: Dims, dims_of: dict[str, int], where: str) -> Dims:
    """Add the dimensions of an input's labels to `dims_of`, and return the dimensions of its ellipsis."""
    _check_ellipsis(subscript)
    labels = split_labels(subscript)
    named = len(labels) - (ELLIPSIS in labels)
    try:
        dims = (with_rank_at_least if ELLIPSIS in labels else with_rank)(dims, named) if dims is not None else None
    except ShapeError as error:
        raise ShapeError(f"{error.message}\n\t{where}") from None
    for label, dim in _labelled(labels, dims):
        dims_of[label] = merge_dim(dims_of[label], dim) if label in dims_of else dim
    if ELLIPSIS not in labels or dims is None:
        return None if ELLIPSIS in labels else ()
    start = labels.index(ELLIPSIS)
    return subshape(dims, start, start + len(dims) - named)


def _labelled(labels: Labels, dims: Dims) -> Iterator[tuple[str, int]]:
    after = len(labels)
    for position, label in enumerate(labels):
        if label == ELLIPSIS:
            after = position
        else:
            yield label, -1 if dims is None else dims[position - (len(labels) if position > after else 0)]


def _check_ellipsis(subscript: str) -> None:
    periods = subscript.count(".")
    if periods not in (0, 3):
        raise ShapeError(
            f"Expected at most one ellipsis (...), but found {periods} periods (.) in the input subscript: {subscript}"
        )
    if periods == 3 and ELLIPSIS not in subscript:
        raise ShapeError(f"Periods found outside of ellipsis in subscript: {subscript}")


def _infer_output(text: str, subscript: str, common: Dims, dims_of: dict[str, int]) -> Dims:
    _check_ellipsis(subscript)
    if ELLIPSIS in subscript:
        if common is None:
            return None
    else:
        try:
            with_rank_at_most(common, 0)
        except ShapeError as error:
            raise ShapeError(
                f"{error.message}\n\t for einsum equation '{text}' without ellipsis (...) in the output subscripts "
                "where input(s) have non-empty broadcasting shape"
            ) from None
    dims: list[int] = []
    for label in split_labels(subscript):
        if label != ELLIPSIS and label not in dims_of:
            raise ShapeError(_missing_label_text(text, label))
        dims.extend(common or () if label == ELLIPSIS else (dims_of[label],))
    return tuple(dims)


def _einsum_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    """For each combination of label values, an addition, and with two inputs also a multiplication."""
    sizes: dict[str, int] = {}
    for subscript, dims in zip(parse_equation(attrs["equation"]).inputs, inputs, strict=True):
        labels = split_labels(subscript)
        known: Any = dims or ()
        for label, dim in zip(expand(labels, len(known) - len(labels) + 1), known, strict=True):
            sizes[label] = max(sizes.get(label, 1), dim)
    return len(inputs) * prod(sizes.values())


TABLE: Table = {"Einsum": Kernel(compute_einsum, infer_einsum, _einsum_flops, memory=einsum_memory, traits=Trait.SUMS)}
