"""Constructors of datasets from ops, with the attrs that most of these ops have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from placesim.core.protobuf_wire import message_field
from placesim.ops.registry import load_registry
from placesim.tf1.data import structures
from placesim.tf1.data.datasets import Dataset, DatasetV1Adapter
from placesim.tf1.data.options import merged
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes

_VERSION = re.compile(r"V\d+$")
VERSION_2 = (
    "AssertCardinalityDataset DenseToSparseBatchDataset GroupByWindowDataset IgnoreErrorsDataset MapAndBatchDataset "
    "LegacyParallelInterleaveDatasetV2 ScanDataset ShuffleAndRepeatDataset TakeWhileDataset UniqueDataset"
)
"""Dataset ops whose Python class has no version 1 in TensorFlow: for them, `apply` keeps the class's name."""


def metadata(name: str | None) -> bytes:
    """Attr `metadata`: a message with the dataset's name as its only field."""
    return message_field(1, name.encode()) if name else b""


def element_attrs(spec: object) -> dict[str, Any]:
    """Attrs `output_types` and `output_shapes`, of an element's tensors."""
    return {"output_types": structures.component_types(spec), "output_shapes": structures.component_shapes(spec)}


def make(
    op: str,
    *args: Any,
    spec: object,
    inputs: Sequence[Dataset] = (),
    kind: str | None = None,
    name: str | None = None,
    **attrs: object,
) -> DatasetV1Adapter:
    """Dataset from a new op.  Types, shapes and the name become attrs if the op has such attrs."""
    definition = load_registry().op(op)
    assert definition is not None
    told = {key: value for key, value in element_attrs(spec).items() if key in definition.attrs}
    if "Toutput_types" in definition.attrs and not any(arg.type_list_attr == "Toutput_types" for arg in definition.inputs):
        told["Toutput_types"] = structures.component_types(spec)
    if name and "metadata" in definition.attrs:
        told["metadata"] = metadata(name)
    variant = gen(op)(*args, **told, **attrs)
    return DatasetV1Adapter(variant, spec, kind or "_" + _VERSION.sub("", op), merged(*(each._options for each in inputs)))


def transformed(dataset: Dataset, op: str, *args: Any, spec: Any = None, **attrs: Any) -> DatasetV1Adapter:
    """Dataset from a new op that reads another dataset; without `spec`, its elements have the other dataset's spec."""
    if not isinstance(dataset, Dataset):
        raise TypeError(f"Expected a tf.data.Dataset, got {dataset!r}")
    return make(op, dataset._variant_tensor, *args, spec=dataset._spec if spec is None else spec, inputs=(dataset,), **attrs)


def number(value: TensorLike, name: str) -> Tensor:
    """The value as an int64 tensor."""
    return convert_to_tensor(value, dtypes.int64, name)
