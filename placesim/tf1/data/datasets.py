"""`tf.data.Dataset`: a variant tensor and the spec of its elements.  The module `methods` adds its methods."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any, NoReturn

from placesim.tf1.data.options import Options
from placesim.tf1.graphs.tensor import Tensor


class Dataset(metaclass=ABCMeta):
    """`tf.data.Dataset`: base class of datasets, whose elements all have the same structure."""

    output_types: Any
    output_shapes: Any
    output_classes: Any

    def __init__(self, variant_tensor: Tensor, element_spec: Any, kind: str, options: Options | None = None) -> None:
        self._variant_tensor = variant_tensor
        self._spec = element_spec
        self._kind = kind
        self._options = options or Options()

    def __repr__(self) -> str:
        return f"<{self._kind} element_spec={self._spec}>"

    @property
    def element_spec(self) -> Any:
        return self._spec

    def options(self) -> Options:
        """Options of this dataset and of its input datasets."""
        return self._options

    def __iter__(self) -> NoReturn:
        raise RuntimeError("`tf.data.Dataset` only supports Python-style iteration in eager mode or within tf.function.")

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> NoReturn:
        raise TypeError("`tf.data.Dataset` only supports `len` in eager mode. Use `tf.data.Dataset.cardinality()` instead.")

    def as_numpy_iterator(self) -> NoReturn:
        """Raise RuntimeError, since there is no eager execution."""
        raise RuntimeError("`tf.data.Dataset.as_numpy_iterator()` is only supported in eager mode.")


Dataset.__module__ = "tensorflow.python.data.ops.dataset_ops"


class DatasetV1Adapter(Dataset):
    """Class of all datasets, which have version 1's iterators."""

    __module__ = "tensorflow.python.data.ops.dataset_ops"


class VariantDataset(DatasetV1Adapter):
    """Dataset from a tensor: an element of another dataset, or the result of a function."""

    def __init__(self, variant_tensor: Tensor, element_spec: Any, options: Options | None = None) -> None:
        super().__init__(variant_tensor, element_spec, "_VariantDataset" if options is None else "DatasetV1Adapter", options)
