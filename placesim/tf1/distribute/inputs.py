"""Datasets of a strategy: each batch is split among the replicas, whose parts are fetched ahead to their devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import placesim.tf1 as tf
from placesim.ops.attributes import FunctionName
from placesim.tf1.data import structures
from placesim.tf1.data.building import element_attrs, transformed
from placesim.tf1.data.datasets import Dataset, VariantDataset
from placesim.tf1.data.iterators import make_initializable_iterator
from placesim.tf1.data.mapping import normalized
from placesim.tf1.data.options import AutoShardPolicy, Options
from placesim.tf1.distribute.values import regroup
from placesim.tf1.functions.building import build, function_name
from placesim.tf1.functions.definitions import add_function
from placesim.tf1.functions.function_graph import FunctionGraph
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.ops.generated_functions import gen

_SOURCE = "/cpu:0"
"""Device of the dataset, as the ops on the replicas' devices name it."""


class InputContext(NamedTuple):
    """`tf.distribute.InputContext`, the argument of an input function; all replicas share one input pipeline."""

    num_replicas_in_sync: int = 1
    input_pipeline_id: int = 0
    num_input_pipelines: int = 1

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """Size of a replica's batches.  Raises ValueError for a size that cannot be split evenly."""
        size, rest = divmod(global_batch_size, self.num_replicas_in_sync)
        if rest:
            raise ValueError(
                f"The `global_batch_size` {global_batch_size!r} is not divisible by `num_replicas_in_sync` "
                f"{self.num_replicas_in_sync!r} "
            )
        return size


class CallableIterator:
    """Iterator that calls a function for each replica, on the host."""

    def __init__(self, function: Callable[[], Any], host: str, count: int) -> None:
        self._function, self._host, self._count = function, host, count

    @property
    def initializer(self) -> Any:
        """A new op that does nothing."""
        return tf.group()

    def initialize(self) -> Any:
        """As `initializer`."""
        return self.initializer

    def get_next(self, name: str | None = None) -> Any:
        """The results of the function, one for each replica."""
        with tf.device(self._host):
            return regroup([self._function() for _ in range(self._count)])


def input_function_iterator(input_fn: Callable[[Any], Any], host: str, devices: Sequence[str]) -> Any:
    """Iterator over the result of an input function: a dataset of replicas' batches, or a function.  Raises ValueError."""
    with tf.device(host):
        found = input_fn(InputContext(len(devices)))
    if isinstance(found, Dataset):
        return DistributedIterator(found, host, devices)
    if not callable(found):
        raise ValueError("input_fn must return a tf.data.Dataset or a callable.")
    return CallableIterator(found, host, len(devices))


class DistributedDataset:
    """A dataset whose batches are split among replicas. `rebatches`: whether batches are divided among the replicas."""

    def __init__(self, dataset: Dataset, host: str, devices: Sequence[str], rebatches: bool = True) -> None:
        self._host, self._devices = host, devices
        count = len(devices) if rebatches else 1
        self._dataset = _split(dataset, host, count)

    @property
    def element_spec(self) -> Any:
        return self._dataset.element_spec

    def make_initializable_iterator(self) -> DistributedIterator:
        """A new iterator, whose initializer must run."""
        return DistributedIterator(self._dataset, self._host, self._devices)

    _make_initializable_iterator = make_initializable_iterator

    def make_one_shot_iterator(self) -> DistributedIterator:
        """Raise ValueError, as TensorFlow does in graphs."""
        raise ValueError("Cannot create a one shot iterator. Please use `make_initializable_iterator()` instead.")

    def __iter__(self) -> Any:
        raise RuntimeError("__iter__() is only supported inside of tf.function or when eager execution is enabled.")


class DistributedIterator(structures.ElementTypes):
    """Iterator that gives each replica the next part of a dataset."""

    def __init__(self, dataset: Dataset, host: str, devices: Sequence[str]) -> None:
        self._host, self.element_spec = host, dataset.element_spec
        with tf.device(host):
            options = Options()
            options.experimental_distribute.num_devices = len(devices)
            dataset = dataset.with_options(options)  # type: ignore[attr-defined]
            source = tf.convert_to_tensor(_SOURCE)
            with tf.device(_SOURCE):
                attrs = element_attrs(dataset.element_spec)
                shards = gen("MultiDeviceIterator")(devices=list(devices), shared_name="", container="", **attrs)
                run = gen("MultiDeviceIteratorInit")(dataset._variant_tensor, shards, max_buffer_size=1)
            prototypes = []
            for number, device in enumerate(devices):
                with tf.device(device):
                    prototypes.append(_Shard(number, shards, run, source, dataset.element_spec))
                    prototypes[-1].dataset()
            self._iterators = []
            for prototype, device in zip(prototypes, devices, strict=True):
                with tf.device(device):
                    fetched = prototype.dataset().prefetch(1, name="device_prefetch")
                    self._iterators.append((device, make_initializable_iterator(fetched)))
            self._initializer = tf.group(*(iterator.initializer for _, iterator in self._iterators))

    @property
    def initializer(self) -> Any:
        """A new op that starts the iterator."""
        return tf.group(self._initializer)

    def initialize(self) -> Any:
        """As `initializer`."""
        return self.initializer

    def get_next(self, name: str | None = None) -> Any:
        """The next part for each replica."""
        found = []
        with tf.device(self._host):
            for device, iterator in self._iterators:
                with tf.device(device):
                    found.append(iterator.get_next())
        return regroup(found)


# --- parts of batches -----------------------------------------------------------------------------------------------


def _split(dataset: Dataset, host: str, count: int) -> Dataset:
    """The dataset on the host, with batches of a replica's size."""
    size: Any = None
    if count > 1:
        with tf.colocate_with(dataset._variant_tensor):
            size = _batch_size(dataset)
    if dataset._variant_tensor.device != host:
        with tf.colocate_with(dataset._variant_tensor):
            graph = gen("DatasetToGraphV2")(dataset._variant_tensor, external_state_policy=0, strip_device_assignment=True)
        with tf.device(host):
            dataset = VariantDataset(gen("DatasetFromGraph")(graph), dataset.element_spec, dataset.options())
    with tf.device(host):
        if count > 1:
            dataset = _rebatched(dataset, size, count)
        policy = dataset.options().experimental_distribute.auto_shard_policy
        if policy is AutoShardPolicy.OFF:
            return dataset
        return transformed(
            dataset, "AutoShardDataset", num_workers=1, index=0, auto_shard_policy=int(policy or 0), num_replicas=count
        )


def _batch_dims(dataset: Dataset) -> list[int | None]:
    """First dimensions of an element's tensors."""
    shapes = structures.component_shapes(dataset.element_spec)
    if any(shape.ndims == 0 for shape in shapes):
        raise ValueError(
            "Invalid `batch_sizes`. Expected dataset with rank of >= 1 but found a dataset with scalar elements. Fix the issue "
            "by adding the `batch` transformation to the dataset."
        )
    return [None if shape.ndims is None else shape.as_list()[0] for shape in shapes]


def _batch_size(dataset: Dataset) -> Tensor:
    """The size of the dataset's batches; -1 if there is none."""
    sizes = _batch_dims(dataset)
    if None in sizes:
        return gen("ComputeBatchSize")(dataset._variant_tensor)  # type: ignore[no-any-return]
    return tf.constant(sizes[0] if len(set(sizes)) == 1 else -1, dtype=tf.int64, name="static_batch_size")  # type: ignore[no-any-return]


def _rebatched(dataset: Dataset, size: Tensor, count: int) -> Dataset:
    """The dataset in batches of a replica's size, by the op for known sizes of batches, or else by an older one."""
    # a dataset that was sent to the host has version 2's `map`
    is_remote = isinstance(dataset, VariantDataset)
    parts = structures.unbatched(dataset.element_spec)
    known = tf.get_static_value(size)
    even = None if known is None or known < 0 or known % count else int(known) // count
    spec = structures.batched(parts, even)

    def by_sizes() -> Tensor:
        sizes = _part_sizes(size, count)
        # this constant of TensorFlow's has no reader
        tf.convert_to_tensor(False, tf.bool, name="drop_remainder")
        return _prefetched(transformed(normalized(dataset, is_remote), "RebatchDatasetV2", sizes, False, spec=spec), count)

    def by_count() -> Tensor:
        dense = normalized(dataset, is_remote)
        return _prefetched(transformed(dense, "RebatchDataset", num_replicas=count, spec=spec), count)

    with tf.colocate_with(dataset._variant_tensor):
        variant = tf.cond(tf.not_equal(size, -1), by_sizes, by_count)
    return VariantDataset(variant, spec, dataset.options())


def _prefetched(dataset: Any, count: int) -> Tensor:
    return dataset.prefetch(count)._variant_tensor  # type: ignore[no-any-return]


def _part_sizes(size: Tensor, count: int) -> Tensor:
    """Sizes of the replicas' parts of a batch, the larger ones first."""
    known = tf.get_static_value(size)
    if known is not None:
        least, larger = divmod(int(known), count)
        sizes = [least + 1] * larger + [least] * (count - larger)
        return tf.convert_to_tensor(sizes, dtype=tf.int64, name="batch_sizes")  # type: ignore[no-any-return]
    smallest: Any = size // count
    rest = size - count * smallest
    ones = tf.ones(count, dtype=tf.int64)
    parts = smallest * ones + tf.concat([tf.ones(rest, dtype=tf.int64), tf.zeros(count - rest, dtype=tf.int64)], axis=0)
    return tf.concat([parts[0:], parts[:0]], axis=0)  # type: ignore[no-any-return]


# --- a replica's part -----------------------------------------------------------------------------------------------


class _Shard:
    """A replica's part of a dataset. Three functions on the replica's device call functions on the dataset's device."""

    def __init__(self, number: int, shards: Tensor, run: Tensor, source: Tensor, spec: Any) -> None:
        self._spec = spec
        handle = gen("MultiDeviceIteratorToStringHandle")(shards)
        types, attrs = structures.component_types(spec), element_attrs(spec)
        start = _Function("_init_func", lambda: handle, has_argument=False)
        self._start = _Function("_remote_init_func", lambda: _call(source, start.captured, [tf.string], start), False)

        def following(text: Tensor) -> Any:
            iterator = gen("MultiDeviceIteratorFromStringHandle")(text, **attrs)
            return gen("MultiDeviceIteratorGetNextFromShard")(iterator, number, run, **attrs)

        next_one = _Function("_next_func", following)
        self._next = _Function(
            "_remote_next_func",
            lambda text: _call(source, [text, *next_one.captured], types, next_one),
            attrs={"experimental_ints_on_device": True},
        )
        end = _Function("_finalize_func", lambda text: tf.constant(0, tf.int64))
        self._end = _Function("_remote_finalize_func", lambda text: _call(source, [text, *end.captured], [tf.int64], end))

    def dataset(self) -> Any:
        """A dataset of the replica's parts."""
        functions = {"init_func": self._start, "next_func": self._next, "finalize_func": self._end}
        captured = [function.captured for function in functions.values()]
        names = {key: function.name for key, function in functions.items()}
        return VariantDataset(gen("GeneratorDataset")(*captured, **names, **element_attrs(self._spec)), self._spec)


class _Function:
    """A library function with one string argument or none, and the tensors that it captures."""

    def __init__(
        self, name: str, function: Callable[..., Any], has_argument: bool = True, attrs: dict[str, Any] | None = None
    ) -> None:
        body = FunctionGraph("", keeps_devices=False)
        with body.as_default():
            args = [body.add_argument(tf.string, (), "string_handle")] if has_argument else []
        build(body, function, args, orders_effects=True)
        body.name = function_name((f"__inference_{name}",))
        attrs = attrs or {}
        self.name = FunctionName(add_function(get_default_graph(), body, attrs), tuple(attrs.items()))
        self.captured: list[Tensor] = list(body.captures)


def _call(target: Tensor, args: Sequence[Any], types: Sequence[Any], function: _Function) -> Any:
    return gen("RemoteCall")(target, list(args), Tout=list(types), f=function.name)
