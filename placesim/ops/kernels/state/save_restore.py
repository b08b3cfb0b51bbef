"""Checkpoints saved and restored by a graph, in the second format, which `core/checkpoints/` reads and writes.

Source: TensorFlow's `save_restore_v2_ops.cc`, `save_restore_tensor.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from placesim.core.checkpoints.checkpoint import Checkpoint
from placesim.core.checkpoints.merging import merge_bundles
from placesim.core.checkpoints.tensor_slices import SliceSpec, bounds, parse_slice_spec
from placesim.core.checkpoints.writer import SavedTensor, write_bundle
from placesim.core.dtypes import DataType
from placesim.core.errors import InternalError, InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.file_errors import file_error
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table, Tensor
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    format_dims,
    infer_by,
    merge,
    with_rank,
    with_value,
)
from placesim.ops.kernels.string_tensors import flat_strings


def _texts(value: Any) -> list[str]:
    return [text.decode(errors="surrogateescape") for text in flat_strings(value)]


def _checked_names(inputs: Sequence[Any]) -> tuple[str, list[str], list[str]]:
    """Return prefix, tensor names and slices. Raises InvalidArgumentError if their shapes do not fit."""
    prefix, names, specs = inputs[:3]
    if np.size(prefix) != 1:
        raise InvalidArgumentError(f"Input prefix should have a single element, got {np.size(prefix)} instead.")
    if np.ndim(names) != 1 or np.ndim(specs) != 1:
        raise InvalidArgumentError(
            "Input tensor_names and shape_and_slices should be an 1-D tensors, got "
            f"{shape_text(names)} and {shape_text(specs)} instead."
        )
    if np.size(names) != np.size(specs):
        raise InvalidArgumentError(
            f"tensor_names and shape_and_slices have different number of elements: {np.size(names)} vs. {np.size(specs)}"
        )
    return _texts(prefix)[0], _texts(names), _texts(specs)


def save(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Write a checkpoint of n tensors or slices; the inputs are its prefix, names `[n]`, slice specs `[n]` and the tensors.

    Raises InvalidArgumentError if inputs do not fit, and the error of a file that can't be written.
    """
    prefix, names, specs = _checked_names(inputs)
    values, dtypes = inputs[3:], attrs["dtypes"]
    if len(values) != len(names):
        raise InvalidArgumentError(f"Got {len(names)} tensor names but {len(values)} tensors.")
    tensors = [_to_save(*row) for row in zip(names, specs, dtypes, values, strict=True)]
    try:
        write_bundle(prefix, tensors, context.files.writable)
    except OSError as error:
        raise file_error(error.filename or prefix, error) from None
    return ()


def _to_save(name: str, text: str, dtype: DataType, value: Any) -> SavedTensor:
    array = np.asarray(value, dtype.numpy)
    spec = parse_slice_spec(text)
    if spec is None:
        return SavedTensor(name, dtype, array)
    if _slice_shape(spec) != array.shape:
        raise InvalidArgumentError(
            # TensorFlow's text has the two spaces
            "Slice in shape_and_slice specification does not match the shape of the tensor to  save: "
            f"{text}, tensor: {format_dims(array.shape)}"
        )
    return SavedTensor(name, dtype, array, spec.region, spec.shape)


def _slice_shape(spec: SliceSpec) -> tuple[int, ...]:
    return tuple(there.stop - there.start for there in bounds(*spec))


def restore(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the tensors or slices with these names from a checkpoint.

    The inputs are the checkpoint's prefix, names `[n]` and slice specs `[n]`. Raises NotFoundError for a missing name or
    checkpoint, InvalidArgumentError if types or shapes differ.
    """
    dtypes = attrs["dtypes"]
    if np.size(inputs[1]) != len(dtypes):
        raise InvalidArgumentError(f"Got {np.size(inputs[1])} tensor names, but {len(dtypes)} expected dtypes.")
    prefix, names, specs = _checked_names(inputs)
    try:
        checkpoint = Checkpoint(prefix, locate=context.files.readable)
        _check_types(checkpoint, names, dtypes)
        return [_restored(checkpoint, name, spec) for name, spec in zip(names, specs, strict=True)]
    except OSError as error:
        raise file_error(error.filename or prefix, error) from None


def _check_types(checkpoint: Checkpoint, names: Sequence[str], dtypes: Sequence[DataType]) -> None:
    # TensorFlow reads a checkpoint in the order of its names
    rows = sorted(zip(names, dtypes, strict=True), key=lambda row: row[0].encode())
    problems = [
        f"tensor_name = {name}; expected dtype {dtype} does not equal original dtype {checkpoint.entry(name).dtype}"
        for name, dtype in rows
        if checkpoint.entry(name).dtype is not dtype
    ]
    if problems:
        raise InvalidArgumentError("\n".join(problems))


def _restored(checkpoint: Checkpoint, name: str, text: str) -> Tensor:
    spec = parse_slice_spec(text)
    if spec is None:
        return checkpoint.read(name)
    bounds(*spec)
    stored = checkpoint.entry(name).shape
    if stored != spec.shape:
        raise InvalidArgumentError(
            f"tensor_name = {name}; shape in shape_and_slice spec {format_dims(spec.shape)} does not match the shape stored in "
            f"checkpoint: {format_dims(stored)}"
        )
    return checkpoint.read(name, spec.region)


def merge_checkpoints(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Merge the checkpoints with prefixes `[n]` into one; with attr `delete_old_dirs`, remove empty directories.

    Raises InvalidArgumentError for other shapes, and the error of a file that can't be read or written.
    """
    if np.ndim(inputs[0]) != 1:
        raise InvalidArgumentError(f"Input checkpoint_prefixes should be an 1-D tensor, got {shape_text(inputs[0])} instead.")
    if np.ndim(inputs[1]):
        raise InvalidArgumentError(f"Input destination_prefix should be a scalar tensor, got {shape_text(inputs[1])} instead.")
    prefixes, merged = _texts(inputs[0]), _texts(inputs[1])[0]
    try:
        merge_bundles(prefixes, merged, attrs["allow_missing_files"], context.files.writable)
        if attrs["delete_old_dirs"]:
            for directory in {Path(prefix).parent: None for prefix in prefixes}:
                if directory != Path(merged).parent and not any(directory.iterdir()):
                    context.files.writable(directory).rmdir()
    except OSError as error:
        raise file_error(error.filename or merged, error) from None
    return ()


def _infer_saved(context: ShapeContext) -> Sequence[Dims]:
    with_rank(context.shapes[0], 0)
    for index in (1, 2):
        with_value(with_rank(context.shapes[index], 1)[0], len(context.shapes) - 3)
    return ()


def _infer_restored(context: ShapeContext) -> Sequence[Dims]:
    with_rank(context.shapes[0], 0)
    merge(with_rank(context.shapes[1], 1), with_rank(context.shapes[2], 1))
    # a spec gives a shape only for a slice; the spec of a whole tensor is empty
    specs, count = context.value(2), len(context.attrs["dtypes"])
    if specs is None:
        return (None,) * count
    if specs.size != count:
        raise ShapeError("The number of shape_and_slice doesn't match tensor outputs.")
    return [_spec_shape(spec) for spec in _texts(specs)]


def _spec_shape(text: str) -> Dims:
    try:
        spec = parse_slice_spec(text)
        return None if spec is None else _slice_shape(spec)
    except (InvalidArgumentError, InternalError) as error:
        raise ShapeError(error.message) from None


TABLE: Table = {
    "SaveV2": Kernel(save, _infer_saved, needs_context=True),
    "RestoreV2": Kernel(restore, _infer_restored, needs_context=True),
    "MergeV2Checkpoints": Kernel(merge_checkpoints, infer_by("[?], [] ->"), needs_context=True),
}
