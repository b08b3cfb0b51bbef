"""`tf.data.Dataset`: a variant tensor and the structure of its elements; its methods stand in the modules beside this one."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from placesim.tf1.data import structures
from placesim.tf1.data.building import VERSION_2, element_attrs, metadata, transformed
from placesim.tf1.data.options import Options
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.ops.generated_functions import gen


class Dataset(metaclass=ABCMeta):  # noqa: B024 - of the class that TensorFlow tells
    """A sequence of elements of one structure.  TensorFlow's class of this name; every dataset is a DatasetV1Adapter."""

    def __init__(self, variant_tensor: Tensor, element_spec: Any, kind: str, options: Options | None = None) -> None:
        self._variant_tensor = variant_tensor
        self._spec = element_spec
        self._kind = kind
        self._options = options or Options()

    def __repr__(self) -> str:
        return f"<{self._kind} element_spec={self._spec}>"

    # --- what it is -------------------------------------------------------------------------------------------------

    @property
    def element_spec(self) -> Any:
        return self._spec

    @property
    def output_types(self) -> Any:
        return structures.types_of(self._spec)

    @property
    def output_shapes(self) -> Any:
        return structures.shapes_of(self._spec)

    @property
    def output_classes(self) -> Any:
        return structures.classes_of(self._spec)

    @property
    def _type_spec(self) -> structures.DatasetSpec:
        return structures.DatasetSpec(self._spec)

    def options(self) -> Options:
        """What was set of it and of the datasets that it was made of."""
        return self._options

    def __iter__(self) -> NoReturn:
        raise RuntimeError("`tf.data.Dataset` only supports Python-style iteration in eager mode or within tf.function.")

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> NoReturn:
        raise TypeError("`tf.data.Dataset` only supports `len` in eager mode. Use `tf.data.Dataset.cardinality()` instead.")

    def as_numpy_iterator(self) -> NoReturn:
        """Raises RuntimeError: there is no eager execution."""
        raise RuntimeError("`tf.data.Dataset.as_numpy_iterator()` is only supported in eager mode.")

    def cardinality(self, name: str | None = None) -> Tensor:
        """How many elements, a tensor of one int64; -1 without end, -2 where that is unknown."""
        return gen("DatasetCardinality")(self._variant_tensor, name=name)  # type: ignore[no-any-return]

    # --- from tensors, numbers and files ----------------------------------------------------------------------------

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """One element."""
        return sources.from_tensors(tensors, name)

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """The slices of tensors along their first axis.  Raises ValueError for scalars and for other lengths."""
        return sources.from_tensor_slices(tensors, name)

    @staticmethod
    def from_sparse_tensor_slices(sparse_tensor: Any) -> Dataset:
        """The rows of a sparse tensor, as indices, values and dense shape."""
        return sources.from_sparse_tensor_slices(sparse_tensor)

    @staticmethod
    def from_generator(
        generator: Callable[..., Any],
        output_types: Any = None,
        output_shapes: Any = None,
        args: Sequence[Any] | None = None,
        output_signature: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """What a Python generator gives.  Raises TypeError and ValueError for wrong arguments."""
        return generators.from_generator(generator, output_types, output_shapes, args, output_signature, name)

    @staticmethod
    def range(*args: Any, **kwargs: Any) -> Dataset:
        """Numbers: `stop`, or `start, stop[, step]`, of `output_type` (int64)."""
        return sources.number_range(*args, **kwargs)

    @staticmethod
    def random(seed: Any = None, rerandomize_each_iteration: Any = None, name: str | None = None) -> Dataset:
        """Random numbers without end."""
        return sources.random_numbers(seed, rerandomize_each_iteration, name)

    @staticmethod
    def list_files(file_pattern: Any, shuffle: Any = None, seed: Any = None, name: str | None = None) -> Dataset:
        """The names of the files that match, shuffled unless told otherwise."""
        return files.list_files(file_pattern, shuffle, seed, name)

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> Dataset:
        """Elements of several datasets together.  Raises TypeError for what is no dataset."""
        return sources.zipped(args, datasets, name)

    @staticmethod
    def sample_from_datasets(
        datasets: Sequence[Dataset],
        weights: Any = None,
        seed: Any = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: Any = None,
    ) -> Dataset:
        """Elements of several datasets, each drawn at random."""
        return choices.sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)

    @staticmethod
    def choose_from_datasets(
        datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = True
    ) -> Dataset:
        """Elements of several datasets, in the order that a dataset of their numbers tells."""
        return choices.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)

    # --- changes ----------------------------------------------------------------------------------------------------

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        """This dataset's elements, then another one's.  Raises TypeError where they have no structure in common."""
        return changes.concatenate(self, dataset, name)

    def batch(
        self,
        batch_size: Any,
        drop_remainder: Any = False,
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Several elements as one."""
        return batches.batch(self, batch_size, drop_remainder, num_parallel_calls, deterministic, name)

    def padded_batch(
        self,
        batch_size: Any,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: Any = False,
        name: str | None = None,
    ) -> Dataset:
        """Several elements as one, padded to one shape.  ValueError or TypeError for shapes and values that don't fit."""
        return batches.padded_batch(self, batch_size, padded_shapes, padding_values, drop_remainder, name)

    def window(
        self, size: Any, shift: Any = None, stride: Any = 1, drop_remainder: Any = False, name: str | None = None
    ) -> Dataset:
        """Datasets of so many elements."""
        return batches.window(self, size, shift, stride, drop_remainder, name)

    def unbatch(self, name: str | None = None) -> Dataset:
        """The slices of its elements."""
        return batches.unbatch(self, name)

    def shuffle(
        self, buffer_size: Any, seed: Any = None, reshuffle_each_iteration: Any = None, name: str | None = None
    ) -> Dataset:
        """Its elements in another order, drawn from a buffer."""
        return changes.shuffle(self, buffer_size, seed, reshuffle_each_iteration, name)

    def repeat(self, count: Any = None, name: str | None = None) -> Dataset:
        """Its elements so many times; without end unless told."""
        return changes.with_number(self, "RepeatDataset", "count", -1 if count is None else count, name)

    def take(self, count: Any, name: str | None = None) -> Dataset:
        """Its first elements."""
        return changes.with_number(self, "TakeDataset", "count", count, name)

    def skip(self, count: Any, name: str | None = None) -> Dataset:
        """All but its first elements."""
        return changes.with_number(self, "SkipDataset", "count", count, name)

    def prefetch(self, buffer_size: Any = None, name: str | None = None) -> Dataset:
        """Its elements, so many of them ahead."""
        return changes.prefetch(self, buffer_size, name)

    def cache(self, filename: Any = "", name: str | None = None) -> Dataset:
        """Its elements, kept when first there."""
        return changes.cache(self, filename, name)

    def shard(self, num_shards: Any, index: Any, name: str | None = None) -> Dataset:
        """Each `num_shards`-th element, from `index` on."""
        return changes.shard(self, num_shards, index, name)

    def enumerate(self, start: Any = 0, name: str | None = None) -> Dataset:
        """Its elements with their numbers."""
        return changes.enumerated(self, start, name)

    def unique(self, name: str | None = None) -> Dataset:
        """Each element once."""
        return transformed(self, "UniqueDataset", name=name)

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Dataset:
        """The elements that come without an error."""
        return transformed(self, "IgnoreErrorsDataset", log_warning=log_warning, name=name)

    def with_options(self, options: Options, name: str | None = None) -> Dataset:
        """The same elements under these options.  Raises ValueError where they contradict those set before."""
        return changes.with_options(self, options, name)

    def apply(self, transformation_func: Callable[[Dataset], Any]) -> Any:
        """What a function makes of it.  Raises TypeError where that is no dataset."""
        found = transformation_func(self)
        if not isinstance(found, Dataset):
            raise TypeError(f"`transformation_func` must return a `tf.data.Dataset` object. Got {type(found)}.")
        kind = found._kind if found._variant_tensor.op.type in VERSION_2.split() else DatasetV1Adapter.__name__
        return DatasetV1Adapter(found._variant_tensor, found._spec, kind, found._options)

    # --- changes by functions ---------------------------------------------------------------------------------------

    def map(
        self,
        map_func: Any,
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        synchronous: bool | None = None,
        use_unbounded_threadpool: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """What a function makes of each element.  TensorFlow leaves the name out."""
        return mapping.mapped(self, map_func, num_parallel_calls, deterministic)

    def map_with_legacy_function(
        self, map_func: Any, num_parallel_calls: Any = None, deterministic: bool | None = None
    ) -> Dataset:
        """As `map`."""
        raise not_there("data.Dataset.map_with_legacy_function", "`map` is")

    def flat_map(self, map_func: Any, name: str | None = None) -> Dataset:
        """The elements of the datasets that a function makes of each element.  Raises TypeError where it makes none."""
        return mapping.flat_mapped(self, map_func, name)

    def interleave(
        self,
        map_func: Any,
        cycle_length: Any = None,
        block_length: Any = None,
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """The elements, in turn, of the datasets that a function makes of several elements."""
        return mapping.interleaved(self, map_func, cycle_length, block_length, num_parallel_calls, deterministic, name)

    def filter(self, predicate: Any, name: str | None = None) -> Dataset:
        """The elements for which a function is true.  Raises ValueError where it gives no truth value."""
        return mapping.filtered(self, predicate, name)

    def filter_with_legacy_function(self, predicate: Any) -> Dataset:
        """As `filter`."""
        raise not_there("data.Dataset.filter_with_legacy_function", "`filter` is")

    def reduce(self, initial_state: Any, reduce_func: Any, name: str | None = None) -> Any:
        """What a function makes of a state and each element in turn: the last state."""
        return folding.reduced(self, initial_state, reduce_func, name)

    def scan(self, initial_state: Any, scan_func: Any, name: str | None = None) -> Dataset:
        """What a function makes of a state and each element in turn."""
        return folding.scanned(self, initial_state, scan_func, name)

    def take_while(self, predicate: Any, name: str | None = None) -> Dataset:
        """The elements before the first for which a function is false."""
        return mapping.taken_while(self, predicate, name)

    def group_by_window(
        self, key_func: Any, reduce_func: Any, window_size: Any = None, window_size_func: Any = None, name: str | None = None
    ) -> Dataset:
        """What a function makes of the elements of each key."""
        return folding.grouped_by_window(self, key_func, reduce_func, window_size, window_size_func, name)

    def bucket_by_sequence_length(
        self,
        element_length_func: Any,
        bucket_boundaries: Any,
        bucket_batch_sizes: Any,
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Batches of elements of about one length."""
        return buckets.bucket_by_sequence_length(
            self,
            element_length_func,
            bucket_boundaries,
            bucket_batch_sizes,
            padded_shapes,
            padding_values,
            pad_to_bucket_boundary,
            no_padding,
            drop_remainder,
            name,
        )

    # --- reading it -------------------------------------------------------------------------------------------------

    def make_one_shot_iterator(self) -> Any:
        """An iterator that needs no initializing.  Raises ValueError where the dataset depends on state."""
        return iterators.make_one_shot_iterator(self)

    def make_initializable_iterator(self, shared_name: str | None = None) -> Any:
        """An iterator that begins where its initializer is run."""
        return iterators.make_initializable_iterator(self, shared_name)

    def get_single_element(self, name: str | None = None) -> Any:
        """The only element."""
        tensors = gen("DatasetToSingleElement")(self._variant_tensor, **element_attrs(self._spec), metadata=metadata(name))
        return structures.from_tensors(self._spec, tensors)


Dataset.__module__ = "tensorflow.python.data.ops.dataset_ops"


class DatasetV1Adapter(Dataset):
    """What every call gives: a dataset whose iterators are version 1's."""

    __module__ = "tensorflow.python.data.ops.dataset_ops"


class VariantDataset(DatasetV1Adapter):
    """A dataset that is known by its tensor only: an element of another one, or what a function made."""

    def __init__(self, variant_tensor: Tensor, element_spec: Any, options: Options | None = None) -> None:
        super().__init__(variant_tensor, element_spec, "_VariantDataset" if options is None else "DatasetV1Adapter", options)


# the modules that hold the methods' work begin with the class above
from placesim.tf1.data import batches, buckets, changes, choices, files, folding, generators, iterators, mapping, sources  # noqa: E402
