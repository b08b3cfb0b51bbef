"""Variables of a strategy: a component on each device, under the name of the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import placesim.tf1 as tf
from placesim.tf1.distribute.contexts import (
    Mode,
    current_mode,
    current_replica,
    entered,
    in_cross_replica_context,
    updated_replica,
)
from placesim.tf1.distribute.values import DistributedValues, Mirrored, PerReplica, note_container
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.variables.reference import SCATTERS
from placesim.tf1.variables.resource import HandledVariable
from placesim.tf1.variables.variable import SaveSliceInfo, Variable, VariableAggregation, VariableDef


class CommonOp(NamedTuple):
    """Stand-in for the op of a distributed variable between replicas: the name that its components share."""

    name: str
    graph: Any
    type: str


class DistributedVariable(DistributedValues, HandledVariable):
    """Base class of the two kinds; `aggregation` combines the values that replicas assign."""

    is_distributed_variable = True
    _between_replicas: Callable[[], Any]

    def __init__(self, strategy: Any, values: list[Any], aggregation: VariableAggregation) -> None:
        first = values[0]
        if aggregation is VariableAggregation.MEAN and not first.dtype.is_floating:
            raise ValueError(
                "creating distributed tf.Variable with aggregation=MEAN and a non-floating dtype is not supported, please use "
                "a different aggregation or dtype"
            )
        super().__init__(values)
        self.distribute_strategy, self.aggregation = strategy, aggregation
        self.graph, self.trainable, self.constraint = first.graph, first.trainable, first.constraint
        self.synchronization, self._dtype, self._shape = first.synchronization, first.dtype, first.shape
        for value in values:
            note_container(value, self)

    # --- components ---

    def component(self) -> Any:
        """The component of the current replica or device; the first component if there is none."""
        replica = current_replica()
        if replica is None:
            here = self.distribute_strategy.current_device()
            replica = self.devices.index(here) if here in self.devices else 0
        return self._values[replica]

    def _get(self) -> Any:
        """The component of the current replica; between replicas, their common value."""
        replica = current_replica()
        return self._between_replicas() if replica is None else self._values[replica]

    @property
    def handle(self) -> Any:  # type: ignore[override]
        """The handle of the current replica's component.  Raises ValueError between replicas."""
        replica = current_replica()
        if replica is None:
            raise ValueError(
                "DistributedVariable.handle is not available outside the replica context or a "
                "`tf.distribute.Strategy.update()` call."
            )
        return self._values[replica].handle

    @property
    def op(self) -> Any:
        if not in_cross_replica_context():
            return self._get().op
        first = self._values[0].op
        return CommonOp(first.name, first.graph, first.type)

    @property
    def name(self) -> str:
        return str(self._values[0].name)

    @property
    def device(self) -> str:
        return str(self.component().device)

    @property
    def initializer(self) -> Any:
        """A new op that initializes all components."""
        return tf.group(tuple(value.initializer for value in self._values))

    @property
    def initial_value(self) -> Any:
        return self.component().initial_value

    def is_initialized(self, name: str | None = None) -> Any:
        found = self._values[0].is_initialized()
        for number, value in enumerate(self._values[1:], 2):
            found = tf.logical_and(found, value.is_initialized(), name=name if number == len(self._values) else None)
        return found

    def initialized_value(self) -> Any:
        return self.component().initialized_value()

    def eval(self, session: object = None) -> Any:
        return self.component().eval(session)

    def _get_save_slice_info(self) -> SaveSliceInfo | None:
        found: SaveSliceInfo | None = self._values[0]._get_save_slice_info()
        return found

    def to_proto(self, export_scope: str | None = None) -> VariableDef | None:
        found: VariableDef | None = self._values[0].to_proto(export_scope)
        return found

    # --- values ---

    def value(self) -> Any:
        return self.component().value()

    def _operand(self) -> Any:
        return tf.convert_to_tensor(self._get())

    def read_value(self) -> Any:
        return tf.identity(self._get())

    # rows are gathered from the value
    sparse_read = Variable.sparse_read
    gather_nd = Variable.gather_nd

    # --- updates ---

    def assign(self, value: Any, use_locking: object = None, name: str | None = None, read_value: bool = True) -> Any:
        return self._update("assign", value, name=name, read_value=read_value)

    def assign_add(
        self, delta: TensorLike, use_locking: object = None, name: str | None = None, read_value: bool = True
    ) -> Any:
        return self._update("assign_add", delta, name=name, read_value=read_value)

    def assign_sub(
        self, delta: TensorLike, use_locking: object = None, name: str | None = None, read_value: bool = True
    ) -> Any:
        return self._update("assign_sub", delta, name=name, read_value=read_value)

    def _update(self, method: str, value: Any, **options: Any) -> Any:
        """Update the components: the replica's or, between replicas, all."""

        mode = current_mode()
        if mode is None:
            with entered(Mode(self.distribute_strategy)):
                return self._update(method, value, **options)
        if mode.replica is not None:
            return self._update_in_replica(method, value, **options)
        replica = updated_replica()
        if replica is not None:
            return getattr(self._values[replica], method)(value, **options)
        return self._update_all(method, value, **options)

    def _update_in_replica(self, method: str, value: Any, **options: Any) -> Any:
        return getattr(self.component(), method)(value, **options)

    def _update_all(self, method: str, value: Any, **options: Any) -> Any:
        def update(component: Any, value: Any, **options: Any) -> Any:
            return getattr(component, method)(value, **options)

        return self.distribute_strategy.update(self, update, args=(value,), kwargs=options)

    def assign_components(self, method: str, value: Any, **options: Any) -> Any:
        """Op that updates each component on its device."""
        made = []
        for component in self._values:
            with tf.device(component.device):
                made.append(getattr(component, method)(value, **options))
        return tf.group(*made)


def _scatter(name: str) -> Callable[..., Any]:
    def scatter(self: DistributedVariable, sparse_delta: object, use_locking: bool = False, name: str | None = None) -> Any:
        return self._update(scatter.__name__, sparse_delta, name=name)

    scatter.__name__ = name
    return scatter


for _kind in SCATTERS:
    setattr(DistributedVariable, "scatter_" + _kind, _scatter("scatter_" + _kind))


class MirroredVariable(DistributedVariable, Mirrored):
    """A variable whose components are kept equal: updates reach all of them."""

    def _between_replicas(self) -> Any:
        return tf.identity(self.component())

    def _as_graph_element(self) -> Any:
        return self.component()._as_graph_element()

    def _update_in_replica(self, method: str, value: Any, **options: Any) -> Any:
        """Combine the replicas' values, and assign the result to all components.

        Without an aggregation, assign only this component.
        """
        if self.aggregation is VariableAggregation.NONE:
            return super()._update_in_replica(method, value, **options)

        def merge(strategy: Any, value: Any, **options: Any) -> Any:
            is_mean = self.aggregation is VariableAggregation.MEAN
            if is_mean and not self.dtype.is_floating and isinstance(value, PerReplica):
                raise ValueError(
                    "Cannot update non-float variables with tf.VariableAggregation.MEAN aggregation in replica context. Either "
                    "change the variable dtype to float or update it in cross-replica context."
                )
            if self.aggregation is VariableAggregation.ONLY_FIRST_REPLICA:
                combined = strategy.broadcast_to(strategy.experimental_local_results(value)[0], self)
            else:
                combined = strategy.reduce_to(self.aggregation.name, value, self)
            return self._update_all(method, combined, **options)

        return _replica_of(self).merge_call(merge, args=(value,), kwargs=options)


class SyncOnReadVariable(DistributedVariable):
    """A variable whose components differ; a read between replicas combines them."""

    def _between_replicas(self) -> Any:
        if self.aggregation is VariableAggregation.ONLY_FIRST_REPLICA:
            return self._values[0]
        return self.distribute_strategy.reduce(self.aggregation.name, self, axis=None)

    def value(self) -> Any:
        found = self._between_replicas() if in_cross_replica_context() and updated_replica() is None else self.component()
        return found if isinstance(found, Tensor) else found.value()

    def _as_graph_element(self) -> Any:
        if in_cross_replica_context():
            return tf.convert_to_tensor(self._between_replicas())
        with entered(Mode(self.distribute_strategy)):
            return tf.convert_to_tensor(self._between_replicas())

    def _update_all(self, method: str, value: Any, read_value: bool = True, **options: Any) -> Any:
        """Update each component.  Raises ValueError for an addition to a sum."""
        if method != "assign" and self.aggregation is VariableAggregation.SUM:
            raise ValueError(
                f"SyncOnReadVariable does not support `{method}` in cross-replica context when aggregation is set to "
                "`tf.VariableAggregation.SUM`."
            )
        done = self.assign_components(method, value)
        if not read_value:
            return done
        with tf.control_dependencies([done]):
            return self.read_value()

    def assign_components(self, method: str, value: Any, **options: Any) -> Any:
        if self.aggregation is VariableAggregation.SUM:
            # the components' sum is the value
            value = tf.cast(value / self.distribute_strategy.num_replicas_in_sync, self.dtype)
        return super().assign_components(method, value, **options)


def _replica_of(variable: DistributedVariable) -> Any:
    mode = current_mode()
    if mode is None or mode.strategy is not variable.distribute_strategy:
        raise RuntimeError("Replica-local variables may only be assigned in a replica context.")
    return mode.replica
