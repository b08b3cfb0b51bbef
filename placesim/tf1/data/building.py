"""The ops of datasets: their names, their common attrs, and what their results are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

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
"""Ops for datasets without a version 1 in TensorFlow, which `apply` returns unchanged."""


def metadata(name: str | None) -> bytes:
    """The attr that holds a dataset's name: a message with one text."""
    text = (name or "").encode()
    return b"" if not text else b"\n" + bytes([len(text)]) + text


def element_attrs(spec: object) -> dict[str, Any]:
    """Attrs with the types and shapes of an element's tensors."""
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
    """Dataset of an op's output; types, shapes and the name become attrs of ops that have them."""
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
    """Dataset of an op over another dataset; its elements have the same spec unless one is given."""
    if not isinstance(dataset, Dataset):
        raise TypeError(f"{dataset!r} is no dataset")
    return make(op, dataset._variant_tensor, *args, spec=dataset._spec if spec is None else spec, inputs=(dataset,), **attrs)


def number(value: TensorLike, name: str) -> Tensor:
    """A tensor of one int64."""
    return convert_to_tensor(value, dtypes.int64, name)
