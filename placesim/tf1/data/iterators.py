"""Iterators over datasets: one-shot, initializable, reinitializable and feedable ones."""

from __future__ import annotations

from typing import Any

from placesim.tf1.data import structures
from placesim.tf1.data.building import element_attrs, metadata
from placesim.tf1.data.datasets import Dataset
from placesim.tf1.graphs.default_graph_scopes import colocate_with, name_scope
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes

_COLLECTION = "iterators"
_NO_INITIALIZER = (
    "The iterator does not have an initializer. This means it was likely created using "
    "`tf.data.Dataset.make_one_shot_iterator()`. For an initializable iterator, use "
    "`tf.data.Dataset.make_initializable_iterator()` instead."
)


class Iterator(structures.ElementTypes):
    """`tf.data.Iterator`: an iterator over the elements of a dataset."""

    __module__ = "tensorflow.python.data.ops.iterator_ops"

    def __init__(self, iterator_resource: Tensor, initializer: Any, element_spec: Any) -> None:
        self._iterator_resource = iterator_resource
        self._initializer = initializer
        self.element_spec = element_spec
        self._string_handle = gen("IteratorToStringHandle")(iterator_resource)
        get_default_graph().add_to_collection(_COLLECTION, iterator_resource)

    def __repr__(self) -> str:
        return f"<tensorflow.python.data.ops.iterator_ops.Iterator object at {id(self):#x}>"

    @staticmethod
    def from_structure(
        output_types: object, output_shapes: object = None, shared_name: str | None = None, output_classes: object = None
    ) -> Iterator:
        """An iterator without a dataset, which `make_initializer` sets."""
        spec = structures.spec_from_types(output_types, output_shapes, output_classes)
        resource = gen("IteratorV2")(shared_name=shared_name or "", container="", **element_attrs(spec))
        return Iterator(resource, None, spec)

    @staticmethod
    def from_string_handle(
        string_handle: TensorLike, output_types: object, output_shapes: object = None, output_classes: object = None
    ) -> Iterator:
        """The iterator with a string handle, which may be fed."""
        spec = structures.spec_from_types(output_types, output_shapes, output_classes)
        handle = convert_to_tensor(string_handle, dtypes.string)
        return Iterator(gen("IteratorFromStringHandleV2")(handle, **element_attrs(spec)), None, spec)

    @property
    def initializer(self) -> Operation:
        if self._initializer is None:
            raise ValueError(_NO_INITIALIZER)
        return self._initializer  # type: ignore[no-any-return]

    def make_initializer(self, dataset: Dataset, name: str | None = None) -> Operation:
        """Op that starts the iterator on a dataset.  Raises ValueError or TypeError if its elements have another structure."""
        with name_scope(name, "make_initializer") as scope:
            self._check(dataset)
            with colocate_with(self._iterator_resource):
                return gen("MakeIterator")(dataset._variant_tensor, self._iterator_resource, name=scope)  # type: ignore[no-any-return]

    def _check(self, dataset: Dataset) -> None:
        from placesim.tf1.types import nest

        for own, other in (
            (self.output_types, dataset.output_types),
            (self.output_shapes, dataset.output_shapes),
            (self.output_classes, dataset.output_classes),
        ):
            nest.assert_same_structure(own, other)
        for what in ("classes", "types"):
            own, other = getattr(self, f"output_{what}"), getattr(dataset, f"output_{what}")
            if structures.flatten(own) != structures.flatten(other):
                raise TypeError(f"Expected output {what} {own!r} but got dataset with output {what} {other!r}.")
        pairs = zip(structures.flatten(self.output_shapes), structures.flatten(dataset.output_shapes), strict=True)
        if not all(own.is_compatible_with(other) for own, other in pairs):
            raise TypeError(
                f"Expected output shapes compatible with {self.output_shapes!r} but got dataset with output shapes "
                f"{dataset.output_shapes!r}."
            )

    def get_next(self, name: str | None = None) -> Any:
        """The next element as a structure of tensors, which fail with OutOfRangeError at the end."""
        with colocate_with(self._iterator_resource):
            tensors = gen("IteratorGetNext")(self._iterator_resource, name=name, **element_attrs(self.element_spec))
            return structures.from_tensors(self.element_spec, tensors)

    def get_next_as_optional(self) -> Any:
        """Raise NotImplementedError."""
        from placesim.tf1.importing.missing_names import not_there

        raise not_there("data.Iterator.get_next_as_optional", "`get_next` is")

    def string_handle(self, name: str | None = None) -> Tensor:
        """String handle of this iterator, a tensor."""
        if name is None:
            return self._string_handle  # type: ignore[no-any-return]
        return gen("IteratorToStringHandle")(self._iterator_resource, name=name)  # type: ignore[no-any-return]


def make_initializable_iterator(dataset: Dataset, shared_name: str | None = None) -> Iterator:
    """`tf.data.make_initializable_iterator`: an iterator that starts when its initializer runs."""
    if not isinstance(dataset, Dataset) and hasattr(dataset, "_make_initializable_iterator"):
        return dataset._make_initializable_iterator()
    spec = dataset.element_spec
    with colocate_with(dataset._variant_tensor):
        resource = gen("IteratorV2")(shared_name=shared_name or "", container="", **element_attrs(spec))
        return Iterator(resource, gen("MakeIterator")(dataset._variant_tensor, resource), spec)


def make_one_shot_iterator(dataset: Dataset) -> Iterator:
    """`tf.data.make_one_shot_iterator`: an iterator whose dataset is made by a function on first use.

    Raises ValueError if the dataset depends on a placeholder or on state.
    """
    from placesim.tf1.data.one_shot import dataset_function

    spec = dataset.element_spec
    factory = dataset_function(dataset)
    with colocate_with(dataset._variant_tensor):
        return Iterator(gen("OneShotIterator")(dataset_factory=factory, **element_attrs(spec)), None, spec)


def get_single_element(dataset: Dataset, name: str | None = None) -> Any:
    """The only element of a dataset."""
    spec = dataset.element_spec
    tensors = gen("DatasetToSingleElement")(dataset._variant_tensor, **element_attrs(spec), metadata=metadata(name))
    return structures.from_tensors(spec, tensors)


def cardinality(dataset: Dataset, name: str | None = None) -> Tensor:
    """Number of elements, a tensor of one int64; -1 if infinite, -2 if unknown."""
    return gen("DatasetCardinality")(dataset._variant_tensor, name=name)  # type: ignore[no-any-return]


def get_output_types(dataset_or_iterator: Any) -> Any:
    """`tf.data.get_output_types`."""
    return dataset_or_iterator.output_types


def get_output_shapes(dataset_or_iterator: Any) -> Any:
    """`tf.data.get_output_shapes`."""
    return dataset_or_iterator.output_shapes


def get_output_classes(dataset_or_iterator: Any) -> Any:
    """`tf.data.get_output_classes`."""
    return dataset_or_iterator.output_classes


def get_structure(dataset_or_iterator: Any) -> Any:
    """`tf.data.experimental.get_structure`: the spec of the elements."""
    return dataset_or_iterator.element_spec
