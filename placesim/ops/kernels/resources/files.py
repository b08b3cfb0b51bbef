"""ReadFile, WriteFile, MatchingFiles.  Source: TensorFlow's `whole_file_read_ops.cc`, `matching_files_op.cc`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table
from placesim.ops.kernels.resources.file_access import file_name, matching_paths, read_bytes, write_bytes
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import infer_by
from placesim.ops.kernels.string_tensors import flat_strings, string_array


def _scalar_string(value: Any, name: str) -> bytes:
    if np.ndim(value):
        raise InvalidArgumentError(f"{name} tensor must be scalar, but had shape: {shape_text(value)}")
    return flat_strings(value)[0]


def read_file(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """A scalar file name -> the file's bytes, a scalar.

    Raises InvalidArgumentError for a name that is not a scalar, and the errors of `read_bytes`.
    """
    name = file_name(_scalar_string(inputs[0], "Input filename"))
    return (string_array([read_bytes(context.files, name)], ()),)


def write_file(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(name, contents) -> nothing: write a file.

    Raises InvalidArgumentError unless both are scalars, and the errors of `write_bytes`.
    """
    name, data = _scalar_string(inputs[0], "Input filename"), _scalar_string(inputs[1], "Contents")
    write_bytes(context.files, file_name(name), data)
    return ()


def find_files(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Patterns, scalar or vector -> the sorted names of matching files `[names]`. Raises InvalidArgumentError for a matrix."""
    if np.ndim(inputs[0]) > 1:
        raise InvalidArgumentError(f"Input patterns tensor must be scalar or vector, but had shape: {shape_text(inputs[0])}")
    patterns = map(file_name, flat_strings(inputs[0]))
    # a name that matches two patterns is listed twice
    names = [os.fsencode(name) for pattern in patterns for name in matching_paths(context.files, pattern)]
    return (string_array(sorted(names), (len(names),)),)


# --- shape functions ------------------------------------------------------------------------------------------------


TABLE: Table = {
    "ReadFile": Kernel(read_file, infer_by("[] -> []"), needs_context=True),
    "WriteFile": Kernel(write_file, infer_by("[], [] ->"), needs_context=True),
    "MatchingFiles": Kernel(find_files, infer_by("x:1- -> [?]"), needs_context=True),
}
