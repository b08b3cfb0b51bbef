"""`tf.distribute.MirroredStrategy` and `OneDeviceStrategy`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, NoReturn, TypeAlias

import placesim.tf1 as tf
from placesim.tf1.distribute.contexts import Mode, ReplicaContext, current_mode, entered, updating
from placesim.tf1.distribute.reductions import (
    CollectiveAllReduce,
    CrossDeviceOps,
    ReduceOp,
    ReductionToOneDevice,
    as_reduce_op,
    broadcast,
    copy_to,
)
from placesim.tf1.distribute.replicas import run_replicas
from placesim.tf1.distribute.values import DistributedValues, Mirrored, local_results, regroup, select_replica
from placesim.tf1.distribute.variables import DistributedVariable, MirroredVariable, SyncOnReadVariable
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import PerDimension
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.types.device_spec import DeviceSpec
from placesim.tf1.types.read_only import read_only
from placesim.tf1.variables.variable import Variable, VariableAggregation, VariableSynchronization

Destinations: TypeAlias = str | DistributedValues | Tensor | Variable
"""A device, or a value that is on the devices."""
_Place: TypeAlias = tuple[str, tuple[Any, ...]]
"""A device, and the component of a variable there, if there is a variable."""


class _NewOp:
    """Op without a device, to which device scopes are applied."""

    device = type = name = ""

    def _set_device(self, device: str) -> None:
        self.device = device


def full_device(device: str) -> str:
    """A device with all parts except the job. Missing parts come from the current scope, or are CPU 0 of task 0."""
    merged = DeviceSpec(replica=0, task=0, device_type="CPU", device_index=0)
    for text in (Strategy.current_device(), device):
        merged = merged.make_merged_spec(DeviceSpec.from_string(text))
    return merged.to_string()


class Strategy:
    """Base class, with the methods of a strategy of one device.

    `extended` returns the strategy itself, which also has the methods of `StrategyExtended`.
    """

    worker_devices: tuple[str, ...] = ()
    _splits_batches = True
    """Whether batches of a dataset are divided among the replicas."""
    _default_device = ""
    """The task of the devices, if they name a job."""
    averages_losses = False
    """Whether optimizers divide a replica's loss by the number of replicas."""

    @property
    def extended(self) -> Strategy:
        return self

    @property
    def num_replicas_in_sync(self) -> int:
        return 1

    parameter_devices: tuple[str, ...] = read_only("worker_devices")

    @staticmethod
    def current_device() -> str:
        """The device of the open scopes; empty without one."""
        op = _NewOp()
        tf.get_default_graph()._apply_device_functions(op)
        return op.device

    # --- scopes ---

    @contextmanager
    def scope(self) -> Iterator[Strategy]:
        """Context whose variables are the strategy's.  Raises RuntimeError in a replica or under another strategy."""
        if current_mode() is not None:
            self._check()
            yield self
            return
        with (
            entered(Mode(self)),
            tf.variable_scope(tf.get_variable_scope(), custom_getter=_without_partitioner),
            tf.variable_creator_scope(self._create),
            tf.device(self._default_device) if self._default_device else nullcontext(),
        ):
            yield self

    @contextmanager
    def averaged_losses(self) -> Iterator[None]:
        """Context in which optimizers divide a replica's loss by the number of replicas, as estimators want it."""
        self.averages_losses = True
        try:
            yield
        finally:
            self.averages_losses = False

    def _check(self) -> None:
        """Raise RuntimeError unless code runs between this strategy's replicas, or without a strategy."""
        mode = current_mode()
        if mode is None:
            return
        if mode.strategy is not self:
            raise RuntimeError(f"Mixing different tf.distribute.Strategy objects: {mode.strategy} is not {self}")
        if mode.replica is not None:
            raise RuntimeError("Method requires being in cross-replica context, use get_replica_context().merge_call()")

    def _create(self, next_creator: Callable[..., Any], **arguments: object) -> Any:
        arguments.update(use_resource=True, distribute_strategy=self)
        return self._create_variable(next_creator, arguments.pop("colocate_with", None), arguments)

    def _create_variable(self, next_creator: Callable[..., Any], beside: object, arguments: dict[str, Any]) -> Any:
        return next_creator(**arguments)

    def colocate_vars_with(self, colocate_with_variable: Variable) -> AbstractContextManager[None]:
        """Context whose variables are made on the devices of a variable of this strategy."""

        def create(next_creator: Callable[..., Any], **arguments: object) -> Any:
            return next_creator(colocate_with=colocate_with_variable, **arguments)

        found: AbstractContextManager[None] = tf.variable_creator_scope(create)
        return found

    def variable_created_in_scope(self, v: Variable) -> bool:
        return getattr(v, "distribute_strategy", None) is self

    # --- replicas ---

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: object = None,
    ) -> Any:
        """Run a function in each replica with its component of the arguments; return the grouped results."""
        self._check()
        with self.scope():
            return self._run(fn, tuple(args), dict(kwargs or {}))

    experimental_run_v2 = call_for_each_replica = run

    def experimental_run(self, fn: Callable[..., Any], input_iterator: Any = None) -> Any:
        """`run` with the next element of an iterator."""
        with self.scope():
            return self.run(fn, () if input_iterator is None else (input_iterator.get_next(),))

    def _run(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        with entered(Mode(self, ReplicaContext(self, 0))):
            return fn(*args, **kwargs)

    def experimental_local_results(self, value: object) -> tuple[Any, ...]:
        """The values of all replicas."""
        return (value,)

    unwrap: Callable[[Any], tuple[Any, ...]] = read_only("experimental_local_results")

    def group(self, value: object, name: str | None = None) -> Any:
        """Op that waits for the values of all replicas."""
        found = tf.nest.flatten(self.experimental_local_results(value))
        if len(found) != 1 or name is not None:
            return tf.group(*found, name=name)
        return getattr(found[0], "op", found[0])

    def value_container(self, value: object) -> Any:
        return value

    # --- between replicas ---

    def reduce(self, reduce_op: ReduceOp | str, value: object, axis: PerDimension | None = None) -> Any:
        """Sum or mean of the replicas' values, and of their elements along `axis`."""
        self._check()
        reduce_op = as_reduce_op(reduce_op)
        if axis is None:
            return self._reduce(reduce_op, value)
        if reduce_op is ReduceOp.SUM:
            return self._reduce(reduce_op, self.run(lambda item: tf.reduce_sum(item, axis=axis), (value,)))
        numerator, denominator = self.run(_sum_and_size, (value, axis))
        numerator = self._reduce(ReduceOp.SUM, numerator)
        denominator = self._reduce(ReduceOp.SUM, denominator)
        return tf.truediv(numerator, tf.cast(denominator, numerator.dtype))

    def _reduce(self, reduce_op: ReduceOp, value: object) -> Any:
        where = self.current_device() or self._default_device or "/device:CPU:0"
        return self.experimental_local_results(self.reduce_to(reduce_op, value, where))[0]

    def reduce_to(self, reduce_op: ReduceOp | str, value: object, destinations: Destinations, options: object = None) -> Any:
        """Sum or mean of the replicas' values on the devices of `destinations`: a device, a tensor or a variable."""
        return value

    def batch_reduce_to(
        self, reduce_op: ReduceOp | str, value_destination_pairs: Iterable[tuple[object, Destinations]], options: object = None
    ) -> list[Any]:
        """`reduce_to` of each pair of value and destinations."""
        return [self.reduce_to(reduce_op, value, destinations) for value, destinations in value_destination_pairs]

    def broadcast_to(self, tensor: object, destinations: Destinations | None = None) -> Any:
        """Copies of a tensor on the devices of `destinations`."""
        return tensor

    def read_var(self, v: Variable) -> Any:
        """The value of a variable, combined if its components differ."""
        return tf.identity(v)

    def update(
        self,
        var: Variable,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        group: bool = True,
    ) -> Any:
        """Call `fn(component, ...)` for each component of a variable; `group` makes one op of the results."""
        with self.scope():
            return self._update(self._components(var), fn, args, kwargs or {}, group)

    def update_non_slot(
        self,
        colocate_with: Iterable[str],
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        group: bool = True,
    ) -> Any:
        """Call `fn(...)` for each of the devices."""
        with self.scope():
            return self._update([(device, ()) for device in colocate_with], fn, args, kwargs or {}, group)

    def non_slot_devices(self, var_list: Iterable[Variable]) -> Any:
        return self.worker_devices

    def _components(self, var: Variable) -> list[_Place]:
        """Device and component, for each component of a variable."""
        return [(self.worker_devices[0], (var,))]

    def _update(
        self, places: Sequence[_Place], fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], group: bool
    ) -> Any:
        ((device, component),) = places
        with tf.device(device) if device else nullcontext(), updating(0):
            found = fn(*component, *args, **kwargs)
        return found if group else tf.nest.map_structure(self.experimental_local_results, found)

    # --- input ---

    def experimental_distribute_dataset(self, dataset: Any, options: object = None) -> Any:
        """The dataset, with its batches split among the replicas."""
        from placesim.tf1.distribute.inputs import DistributedDataset

        return DistributedDataset(dataset, self._host, self.worker_devices, self._splits_batches)

    def make_dataset_iterator(self, dataset: Any) -> Any:
        """Iterator over the dataset, with its batches split among the replicas."""
        return self.experimental_distribute_dataset(dataset).make_initializable_iterator()

    def make_input_fn_iterator(self, input_fn: Callable[[Any], Any], replication_mode: object = None) -> Any:
        """Iterator over the result of `input_fn(context)`: a dataset of replicas' batches, or a function without arguments."""
        from placesim.tf1.distribute.inputs import input_function_iterator

        return input_function_iterator(input_fn, self._host, self.worker_devices)

    def experimental_run_steps_on_iterator(self, *args: object, **kwargs: object) -> NoReturn:
        """Raise NotImplementedError."""
        name = "distribute.StrategyExtended.experimental_run_steps_on_iterator"
        raise not_there(name, "a Python loop around `experimental_run`'s results does it")

    @property
    def _host(self) -> str:
        """The CPU of the devices' task."""
        first = DeviceSpec.from_string(self.worker_devices[0])
        return first.replace(device_type="CPU", device_index=0).to_string()

    def update_config_proto(self, config_proto: Any) -> Any:
        """A copy of a session's configuration, with the settings that the strategy requires."""
        found = type(config_proto)()
        found.CopyFrom(config_proto)
        found.isolate_session_state = True
        return found


class DefaultStrategy(Strategy):
    """The strategy outside of all scopes: a single replica without a device, in which nothing changes."""

    @contextmanager
    def scope(self) -> Iterator[Strategy]:
        """Context that changes nothing.  Raises RuntimeError under another strategy."""
        if current_mode() is not None:
            raise RuntimeError("Must not nest tf.distribute.Strategy scopes.")
        yield self

    def colocate_vars_with(self, colocate_with_variable: Variable) -> AbstractContextManager[None]:
        found: AbstractContextManager[None] = tf.colocate_with(colocate_with_variable)
        return found

    def variable_created_in_scope(self, v: Variable) -> bool:
        return getattr(v, "distribute_strategy", None) is None

    def _run(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return fn(*args, **kwargs)

    def _components(self, var: Variable) -> list[_Place]:
        return [("", (var,))]

    def non_slot_devices(self, var_list: Iterable[Variable]) -> Any:
        return min(var_list, key=lambda variable: str(variable.name))

    def experimental_distribute_dataset(self, dataset: Any, options: object = None) -> Any:
        return dataset

    def make_input_fn_iterator(self, input_fn: Callable[[Any], Any], replication_mode: object = None) -> Any:
        from placesim.tf1.distribute.inputs import InputContext

        return input_fn(InputContext()).make_initializable_iterator()


_DEFAULT = DefaultStrategy()


class OneDeviceStrategy(Strategy):
    """All variables and ops on one device."""

    def __init__(self, device: str) -> None:
        self.worker_devices = (full_device(device),)

    def _create_variable(self, next_creator: Callable[..., Any], beside: object, arguments: dict[str, Any]) -> Any:
        with tf.device(self.worker_devices[0]) if beside is None else tf.colocate_with(beside):
            made = next_creator(**arguments)
        made.distribute_strategy = self
        return made

    def _run(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        with tf.device(self.worker_devices[0]):
            return super()._run(fn, args, kwargs)


class MirroredStrategy(Strategy):
    """A replica on each device, by default on each GPU, with copies of the variables that are kept equal."""

    def __init__(self, devices: Sequence[str] | None = None, cross_device_ops: CrossDeviceOps | None = None) -> None:
        """Raise AssertionError for a device that is given twice."""
        found = tuple(map(full_device, devices or _local_devices()))
        assert len(set(found)) == len(found), f"No duplicates allowed in `devices` argument: {found}"
        self.worker_devices = found
        host = DeviceSpec.from_string(found[0])
        if host.job not in (None, "localhost"):
            self._default_device = host.replace(device_type=None, device_index=None).to_string()
        self._cross_device_ops = cross_device_ops or self._best_cross_device_ops()

    def _best_cross_device_ops(self) -> CrossDeviceOps:
        if any("GPU" not in device for device in self.worker_devices):
            return ReductionToOneDevice()
        return CollectiveAllReduce(self.worker_devices)

    @property
    def num_replicas_in_sync(self) -> int:
        return len(self.worker_devices)

    def _run(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return run_replicas(self, fn, args, kwargs)

    def experimental_local_results(self, value: object) -> tuple[Any, ...]:
        return local_results(value, len(self.worker_devices))

    # --- variables ---

    def _create_variable(self, next_creator: Callable[..., Any], beside: Any, arguments: dict[str, Any]) -> Any:
        """Make a component on each device, and the distributed variable, which replaces the components in collections."""
        collections = list(arguments.pop("collections", None) or ["variables"])
        synchronization = _synchronization(arguments)
        aggregation = arguments.get("aggregation") or VariableAggregation.NONE
        arguments |= {"collections": [], "caching_device": None, "synchronization": synchronization}
        components: list[Any] = []
        for number, device in enumerate(self.worker_devices if beside is None else beside.devices):
            with tf.device(device):
                if components:
                    first = components[0]
                    arguments["initial_value"] = partial(_copy_initial_value, first, device)
                    # a slash at the end makes the name absolute
                    arguments["name"] = f"{first.name.partition(':')[0]}/replica_{number}/"
                components.append(next_creator(**arguments))
        kind = SyncOnReadVariable if synchronization is VariableSynchronization.ON_READ else MirroredVariable
        made = kind(self, components, aggregation)
        # where `trainable` is None the components stay in the collection
        if arguments.get("trainable", True):
            collections.append("trainable_variables")
            trainable = tf.get_collection_ref("trainable_variables")
            for component in components:
                if any(component is item for item in trainable):
                    trainable.remove(component)
        tf.add_to_collections(collections, made)
        return made

    def _components(self, var: Variable) -> list[_Place]:
        assert isinstance(var, DistributedVariable)
        return [(component.device, (component,)) for component in var.values]

    # --- between replicas ---

    def _devices_of(self, destinations: Destinations) -> tuple[str, ...]:
        if isinstance(destinations, DistributedValues):
            return destinations.devices
        return (full_device(destinations if isinstance(destinations, str) else destinations.device),)

    def _ops_for(self, value: Any) -> CrossDeviceOps:
        values = value.values if isinstance(value, DistributedValues) else (value,)
        is_on_host = any(tf.as_dtype(part.dtype).base_dtype == tf.int32 for part in values)
        return ReductionToOneDevice() if is_on_host else self._cross_device_ops

    def reduce_to(self, reduce_op: ReduceOp | str, value: object, destinations: Destinations, options: object = None) -> Any:
        reduce_op = as_reduce_op(reduce_op)
        if isinstance(value, Mirrored) and reduce_op is ReduceOp.MEAN:
            return value

        def reduce(item: object) -> Any:
            if not isinstance(item, DistributedValues):
                return self._reduce_single(reduce_op, item, destinations)
            devices = self._devices_of(destinations)
            if set(devices) != set(item.devices) or any("CPU" in device for device in devices):
                return ReductionToOneDevice().reduce(reduce_op, item, devices)
            return self._ops_for(item).reduce(reduce_op, item, devices)

        return tf.nest.map_structure(reduce, value)

    def _reduce_single(self, reduce_op: ReduceOp, value: object, destinations: Destinations) -> Any:
        """Reduce a value that all replicas share.  Raises ValueError for a sum over several replicas."""
        if not isinstance(value, Tensor | tf.IndexedSlices | Variable) and value == 0:
            return 0
        if reduce_op is ReduceOp.MEAN:
            return value
        if self.num_replicas_in_sync != 1:
            wrong = f"cannot be reduced with the given reduce op {reduce_op}."
            raise ValueError(f"A non-DistributedValues value {value} {wrong}")
        return broadcast(value, self._devices_of(destinations))

    def batch_reduce_to(
        self, reduce_op: ReduceOp | str, value_destination_pairs: Iterable[tuple[object, Destinations]], options: object = None
    ) -> list[Any]:
        pairs = [(_as_values(value), self._devices_of(where)) for value, where in value_destination_pairs]
        ops = self._ops_for(pairs[0][0])
        if any(type(self._ops_for(value)) is not type(ops) for value, _ in pairs):
            raise ValueError("Inputs to batch_reduce_to must be either all on the host or all on the compute devices.")
        return ops.batch_reduce(as_reduce_op(reduce_op), pairs)

    def broadcast_to(self, tensor: object, destinations: Destinations | None = None) -> Any:
        # a number gets the type of the variable that it is assigned to
        if isinstance(tensor, int | float):
            return tensor
        return broadcast(tensor, self._devices_of(destinations) if destinations else self.worker_devices)

    def read_var(self, v: Any) -> Any:
        return tf.identity(v._get()) if isinstance(v, Mirrored) else v._between_replicas()

    def _update(
        self, places: Sequence[_Place], fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], group: bool
    ) -> Any:
        updates = []
        for number, (device, component) in enumerate(places):
            with tf.device(device), updating(number), tf.name_scope(f"update_{number}"):
                own_args, own_kwargs = select_replica(number, tuple(args)), select_replica(number, kwargs)
                updates.append(fn(*component, *own_args, **own_kwargs))
        if not group:
            return tf.nest.map_structure(self.experimental_local_results, regroup(updates, Mirrored))
        return regroup(updates, _grouped)


class ContribMirroredStrategy(MirroredStrategy):
    """`tf.contrib.distribute.MirroredStrategy`, which can be given a number of GPUs.  Each replica gets whole batches."""

    _splits_batches = False

    def __init__(
        self,
        devices: Sequence[str] | None = None,
        num_gpus: int | None = None,
        num_gpus_per_worker: int | None = None,
        cross_device_ops: CrossDeviceOps | None = None,
        auto_shard_dataset: bool = False,
        cross_tower_ops: CrossDeviceOps | None = None,
    ) -> None:
        """Raise ValueError for both devices and a number."""
        count = num_gpus if num_gpus_per_worker is None else num_gpus_per_worker
        if devices and count is not None:
            raise ValueError("Must only specify one of `devices` and `num_gpus`.")
        gpus = [f"/device:GPU:{number}" for number in range(count or 0)]
        super().__init__(devices or gpus, cross_device_ops or cross_tower_ops)


def _grouped(values: Sequence[Any]) -> Any:
    """One op for the updates of all components; for tensors, their values after all updates."""
    if len(values) == 1:
        return Mirrored(values)
    done = tf.group(*values)
    if not all(isinstance(value, Tensor | Variable) for value in values):
        return done
    with tf.control_dependencies([done]):
        return Mirrored([copy_to(value.device, value) for value in values])


def _as_values(value: object) -> Any:
    return value if isinstance(value, DistributedValues) else Mirrored((tf.convert_to_tensor(value),))


def _copy_initial_value(variable: Variable, device: str) -> Any:
    return copy_to(device, variable.initial_value)


def _synchronization(arguments: Mapping[str, Any]) -> VariableSynchronization:
    """Synchronization of a new variable. Raises ValueError for an unsupported one."""
    found = arguments.get("synchronization", VariableSynchronization.AUTO)
    if found is VariableSynchronization.NONE:
        raise ValueError(
            "`NONE` variable synchronization mode is not supported with tf.distribute strategy. Please change the "
            f"`synchronization` for variable: {arguments.get('name')}"
        )
    return VariableSynchronization.ON_WRITE if found is VariableSynchronization.AUTO else found


def _without_partitioner(getter: Callable[..., Any], *args: object, **kwargs: object) -> Any:
    """Custom getter of a strategy's scope, in which variables are not partitioned."""
    kwargs.pop("partitioner", None)
    return getter(*args, **kwargs)


def _sum_and_size(value: Tensor, axis: PerDimension) -> tuple[Any, Any]:
    """Sum of a replica's elements along axes, and their number."""
    total = tf.reduce_sum(value, axis=axis)
    if isinstance(axis, int):
        return total, _size(value, axis)
    return total, tf.reduce_prod([_size(value, one) for one in axis])


def _size(value: Tensor, axis: int) -> Any:
    rank = value.shape.ndims
    if rank is None:
        axis = axis if axis >= 0 else axis + tf.rank(value)
    elif not -rank <= axis < rank:
        raise ValueError(f"`axis` = {axis} out of range for `value` with rank {rank}")
    else:
        size = value.shape.as_list()[axis]
        if size is not None:
            return tf.identity(tf.constant(size, dtype=tf.int64))
    return tf.identity(tf.shape(value, out_type=tf.int64)[axis])


def _local_devices() -> list[str]:
    """The GPUs of the machine, or its CPU."""
    from placesim.tf1.session.devices import list_local_devices

    found = list_local_devices()
    gpus = [device.name for device in found if device.device_type == "GPU"]
    return gpus or [device.name for device in found if device.device_type == "CPU"]


# --- the strategy in force ---


def get_strategy() -> Strategy:
    """The strategy in force; outside of all scopes one with a single replica."""
    mode = current_mode()
    return _DEFAULT if mode is None else mode.strategy


def get_replica_context() -> ReplicaContext | None:
    """The replica that runs; None between replicas."""
    mode = current_mode()
    return ReplicaContext(_DEFAULT, 0) if mode is None else mode.replica


def get_loss_reduction() -> ReduceOp:
    """Reduction of the replicas' losses: optimizers sum their gradients."""
    return ReduceOp.SUM
