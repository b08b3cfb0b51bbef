"""`tf.train.Optimizer`: computes gradients of a loss, and applies them to variables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.distribute.contexts import current_mode
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.optimizers.updates import Updates
from placesim.tf1.sparse.values import IndexedSlices
from placesim.tf1.types import nest
from placesim.tf1.variables.partitioned import PartitionedVariable
from placesim.tf1.variables.resource import HandledVariable
from placesim.tf1.variables.variable import Variable

_FLOATING = ("float32", "float64", "float16", "bfloat16")
"""Trainable types, in the order of TensorFlow's messages."""


class Optimizer(Updates):
    """Base class of optimizers; subclasses define `_create_slots`, `_prepare`, `_apply_dense` and the like."""

    GATE_NONE = 0
    GATE_OP = 1
    GATE_GRAPH = 2

    def get_name(self) -> str:
        return self._name

    # --- the two steps ---

    def minimize(
        self,
        loss: Any,
        global_step: TensorLike | None = None,
        var_list: object = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: object = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: object = None,
    ) -> Any:
        """Make an op that computes and applies the gradients of a loss.  Raises ValueError if no variable has a gradient."""
        pairs = self.compute_gradients(
            loss, var_list, gate_gradients, aggregation_method, colocate_gradients_with_ops, grad_loss
        )
        if all(gradient is None for gradient, _ in pairs):
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops that do not support gradients, between "
                f"variables {[str(variable) for _, variable in pairs]} and loss {loss}."
            )
        return self.apply_gradients(pairs, global_step=global_step, name=name)

    def compute_gradients(
        self,
        loss: TensorLike,
        var_list: object = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: object = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: object = None,
    ) -> list[tuple[Any, Any]]:
        """Pairs of gradient (or None) and variable.  Raises ValueError."""
        if callable(loss) and not isinstance(loss, Tensor):
            message = "`loss` as a function is for eager execution and gradient tapes. Give the loss as a tensor"
            raise NotImplementedError(f"tf.train.Optimizer.compute_gradients: {message}; `convert` takes any GraphDef.")
        mode = current_mode()
        if mode is not None and mode.strategy.averages_losses and mode.strategy.num_replicas_in_sync > 1:
            loss = loss * (1.0 / mode.strategy.num_replicas_in_sync)
        if gate_gradients not in (self.GATE_NONE, self.GATE_OP, self.GATE_GRAPH):
            kinds = "Optimizer.GATE_NONE, Optimizer.GATE_OP, Optimizer.GATE_GRAPH"
            raise ValueError(f"gate_gradients must be one of: {kinds}.  Not {gate_gradients}")
        self._assert_valid_dtypes([loss])
        if grad_loss is not None:
            self._assert_valid_dtypes([grad_loss])
        variables = _flattened(var_list) if var_list is not None else _trainable()
        if not variables:
            raise ValueError("No variables to optimize.")
        gradients = tf.gradients(
            loss,
            [_target(variable) for variable in variables],
            grad_ys=grad_loss,
            gate_gradients=gate_gradients == self.GATE_OP,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
        )
        if gate_gradients == self.GATE_GRAPH:
            gradients = tf.tuple(gradients)
        pairs = list(zip(gradients, variables, strict=True))
        self._assert_valid_dtypes(
            [variable for gradient, variable in pairs if gradient is not None and variable.dtype != tf.resource]
        )
        return pairs

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
        skip_gradients_aggregation: bool = False,
    ) -> Any:
        """Make an op that applies gradients, and then adds one to `global_step`.  Raises ValueError or TypeError.

        In a replica of a strategy, each gradient is the sum of this gradient in all replicas.
        """
        mode = current_mode()
        if mode is not None and not skip_gradients_aggregation:
            if mode.replica is None:
                raise RuntimeError("Use `_distributed_apply()` instead of `apply_gradients()` in a cross-replica context.")
            known = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
            return mode.replica.merge_call(self._distributed_apply, args=(known, global_step, name))
        pairs = tuple(grads_and_vars)
        if not pairs:
            raise ValueError("No variables provided.")
        pairs = tuple((_as_gradient(gradient), variable) for gradient, variable in pairs)
        variables = [variable for gradient, variable in pairs if gradient is not None]
        if not variables:
            raise ValueError(f"No gradients provided for any variable: {[str(variable) for _, variable in pairs]}.")
        for _, variable in pairs:
            variable.op  # noqa: B018 -- raises for other values than variables, before any node is made
        with tf.init_scope():
            self._create_slots(variables)
        updates = []
        with tf.name_scope(name, self._name) as scope:
            self._prepare()
            for gradient, variable in pairs:
                if gradient is None:
                    continue
                with tf.name_scope("update_" + variable.op.name), tf.colocate_with(variable):
                    updates.append(self._update(gradient, variable))
            done = self._step(updates, scope, global_step)
        return _collected(done)

    def _distributed_apply(self, strategy: Any, pairs: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Apply the sums of the replicas' gradients to all components of the variables."""
        sums = strategy.batch_reduce_to("SUM", pairs)
        variables = [variable for _, variable in pairs]
        with tf.init_scope():
            self._create_slots(variables)

        def update(variable: Any, gradient: Any) -> Any:
            with tf.name_scope("update_" + variable.op.name):
                return self._update(_as_gradient(gradient), variable)

        with tf.name_scope(name, self._name) as scope:
            self._prepare()
            updates = [
                op
                for total, variable in zip(sums, variables, strict=True)
                for op in strategy.update(variable, update, args=(total,), group=False)
            ]
            devices = strategy.non_slot_devices(variables)
            finished = strategy.update_non_slot(devices, self._finish, args=(updates, "update"), group=False)
            if global_step is None:
                done = strategy.group(finished, name=scope)
            else:
                with tf.control_dependencies(finished):
                    done = strategy.update(global_step, tf.assign_add, args=(1,), kwargs={"name": scope})
        return _collected(done)

    def _step(self, updates: list[Any], scope: str, global_step: Any) -> Any:
        if global_step is None:
            return self._finish(updates, scope)
        with tf.control_dependencies([self._finish(updates, "update")]), tf.colocate_with(global_step):
            if isinstance(global_step, HandledVariable):
                with tf.name_scope(scope):
                    one = tf.convert_to_tensor(1, dtype=global_step.dtype)
                return gen("AssignAddVariableOp")(global_step.handle, one, name=scope)
            return tf.assign_add(global_step, 1, name=scope)

    def _update(self, gradient: Tensor | IndexedSlices, variable: object) -> Any:
        """The op that applies one gradient to one variable."""
        if isinstance(variable, Tensor):
            raise NotImplementedError("Trying to update a Tensor ", variable)
        if not isinstance(variable, Variable):
            raise NotImplementedError(f"Trying to optimize unsupported type {variable}")
        if isinstance(gradient, IndexedSlices):
            if variable.constraint is not None:
                raise RuntimeError("Cannot use a constraint function on a sparse variable.")
            if isinstance(variable, HandledVariable):
                return self._resource_apply_sparse_duplicate_indices(gradient.values, variable, gradient.indices)
            return self._apply_sparse_duplicate_indices(gradient, variable)
        if isinstance(variable, HandledVariable):
            update = self._resource_apply_dense(gradient, variable)
        else:
            update = self._apply_dense(gradient, variable)
        if variable.constraint is None:
            return update
        with tf.control_dependencies([update]):
            return variable.assign(variable.constraint(variable))

    def _finish(self, update_ops: list[Any], name_scope: str) -> Any:
        """Make an op that waits for all updates."""
        return tf.group(*update_ops, name=name_scope)

    def _valid_dtypes(self) -> list[Any]:
        return [tf.as_dtype(name) for name in _FLOATING]

    def _assert_valid_dtypes(self, tensors: Iterable[Any]) -> None:
        valid = self._valid_dtypes()
        for tensor in tensors:
            dtype = tensor.dtype.base_dtype
            if dtype not in valid:
                raise ValueError(f"Invalid type {dtype!r} for {tensor.name}, expected: {list(valid)}.")


def _collected(done: Any) -> Any:
    """The op of an update, which is put into its collection."""
    done = done.op if isinstance(done, Tensor) else done
    trained = tf.get_collection_ref("train_op")
    if done not in trained:
        trained.append(done)
    return done


def _as_gradient(gradient: object) -> Any:
    if gradient is None or isinstance(gradient, (Tensor, tf.IndexedSlices)):
        return gradient
    try:
        return tf.convert_to_tensor_or_indexed_slices(gradient)
    except TypeError:
        wanted = f"Gradient must be convertible to a Tensor or IndexedSlices, or None: {gradient}"
        raise TypeError(wanted) from None


def _flattened(variables: object) -> list[Any]:
    """The variables of a structure; a partitioned variable is replaced by its parts."""
    leaves = nest.flatten(variables)
    return [item for leaf in leaves for item in (leaf if isinstance(leaf, PartitionedVariable) else [leaf])]


def _trainable() -> list[Any]:
    return _flattened(tf.trainable_variables() + tf.get_collection("trainable_resource_variables"))


def _target(variable: object) -> Any:
    """Tensor to differentiate by: the reference or the handle."""
    return variable._tensor if isinstance(variable, Variable) else variable
