"""Lookup tables filled from datasets of keys and values. Source: TensorFlow's `experimental/lookup_ops.cc`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.data.values import as_dataset
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table
from placesim.ops.kernels.partial_shapes import is_compatible
from placesim.ops.kernels.resources.table_initialization import find_initializable
from placesim.ops.kernels.shapes import format_dims, infer_by


def initialize_from_dataset(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Fill a table with the elements of a dataset, each a scalar key and value; a table that is already filled is unchanged.

    Raises InvalidArgumentError for wrong components or a mutable table; FailedPreconditionError for two values of one key.
    """
    table, dataset = find_initializable(inputs[0], context), as_dataset(inputs[1])
    if len(dataset.dtypes) != 2:
        raise InvalidArgumentError("Dataset should have two output types only")
    for what, wants, has in zip(("Key", "Value"), (table.key_dtype, table.value_dtype), dataset.dtypes, strict=True):
        if wants is not has:  # TensorFlow's message has the types' numbers
            raise InvalidArgumentError(f"{what} dtype expected: {wants.number} but obtained: {has.number} from the dataset")
    for shape in dataset.shapes:
        if not is_compatible(shape.dims, ()):
            raise InvalidArgumentError(f"Expected scalar for key. Obtained: {format_dims(shape.dims)}")
    if not table.is_initialized:
        pairs = [tuple(map(_scalar, element)) for element in dataset.start()]
        table.initialize(pairs, lambda: pairs)
    return ()


def _scalar(value: Any) -> Any:
    return value.item() if isinstance(value, np.ndarray | np.generic) else value


TABLE: Table = {"InitializeTableFromDataset": Kernel(initialize_from_dataset, infer_by("[], [] ->"), needs_context=True)}
