"""Files: read, written, and found by pattern.  Source: TensorFlow's `whole_file_read_ops.cc`, `matching_files_op.cc`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.runtime.kernels.dimensions import shape_text
from placesim.runtime.kernels.kernel import Kernel, Table
from placesim.runtime.kernels.resources.file_access import matching_paths, read_bytes, write_bytes
from placesim.runtime.kernels.string_tensors import flat_strings, string_array
from placesim.runtime.shapes import Dims, ShapeContext, with_rank, with_rank_at_most


def _scalar_string(value: Any, name: str) -> bytes:
    if np.ndim(value):
        raise InvalidArgumentError(f"{name} tensor must be scalar, but had shape: {shape_text(value)}")
    return flat_strings(value)[0]


def read_file(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """A scalar: all bytes of a file, whose name is a scalar; InvalidArgumentError for no scalar, NotFoundError for no file."""
    name = _scalar_string(inputs[0], "Input filename").decode()
    return (string_array([read_bytes(name)], ()),)


def write_file(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """(name, contents), scalars -> nothing: the file is written; InvalidArgumentError for no scalars."""
    name, data = _scalar_string(inputs[0], "Input filename"), _scalar_string(inputs[1], "Contents")
    write_bytes(name.decode(), data)
    return ()


def find_files(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """The names that fit any of the patterns, a scalar or a vector, sorted, `[names]`; InvalidArgumentError for no such."""
    if np.ndim(inputs[0]) > 1:
        raise InvalidArgumentError(f"Input patterns tensor must be scalar or vector, but had shape: {shape_text(inputs[0])}")
    names = [os.fsencode(name) for pattern in flat_strings(inputs[0]) for name in matching_paths(os.fsdecode(pattern))]
    # a name that fits two patterns comes twice
    return (string_array(sorted(names), (len(names),)),)


# --- shape functions ------------------------------------------------------------------------------------------------


def _check_scalars(context: ShapeContext) -> None:
    for dims in context.shapes:
        with_rank(dims, 0)


def _infer_contents(context: ShapeContext) -> Sequence[Dims]:
    _check_scalars(context)
    return ((),)


def _infer_write(context: ShapeContext) -> Sequence[Dims]:
    _check_scalars(context)
    return ()


def _infer_names(context: ShapeContext) -> Sequence[Dims]:
    with_rank_at_most(context.shapes[0], 1)
    return ((-1,),)


TABLE: Table = {
    "ReadFile": Kernel(read_file, _infer_contents),
    "WriteFile": Kernel(write_file, _infer_write),
    "MatchingFiles": Kernel(find_files, _infer_names),
}
