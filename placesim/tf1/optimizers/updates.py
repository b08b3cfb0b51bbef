"""Slots of an optimizer, and the methods that update variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import placesim.tf1 as tf
from placesim.tf1.distribute.contexts import colocate_variables_with
from placesim.tf1.distribute.values import container_of
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.optimizers.slots import create_slot, create_slot_with_initializer, create_zeros_slot
from placesim.tf1.sparse.values import IndexedSlices
from placesim.tf1.variables.creating import create_variable
from placesim.tf1.variables.resource import HandledVariable
from placesim.tf1.variables.variable import Variable

Hyperparameter: TypeAlias = "TensorLike | Callable[[], TensorLike]"
"""A number or tensor, or a function that returns one when the update's nodes are made."""


class Updates:
    """Base class of `Optimizer` with its slots, and with default methods that subclasses override."""

    def __init__(self, use_locking: bool, name: str, use_own_namescope_for_non_slot_vars: bool = False) -> None:
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._use_locking = use_locking
        self._name = name
        self._slots: dict[str, dict[Any, Any]] = {}
        self._non_slot_dict: dict[Any, Any] = {}
        self._scopes_non_slots = use_own_namescope_for_non_slot_vars

    # --- slots and other variables ---

    def get_slot(self, var: object, name: str) -> Any:
        """Slot variable of a variable; for a component of a distributed variable, the slot's component.

        None if there is none.
        """
        slot = self._slots.get(name, {}).get(_key(var))
        return slot if slot is None or container_of(var) is var else slot.component()

    def get_slot_names(self) -> list[str]:
        return sorted(self._slots)

    def variables(self) -> list[Any]:
        """The optimizer's own variables in the current graph, by name."""
        graph = tf.get_default_graph()
        own = [variable for (_, of), variable in self._non_slot_dict.items() if of is graph]
        own += [slot for slots in self._slots.values() for slot in slots.values() if slot.graph is graph]
        return sorted(own, key=lambda variable: str(variable.name))

    def _slot_dict(self, slot_name: str) -> dict[Any, Any]:
        return self._slots.setdefault(slot_name, {})

    def _get_or_make_slot(self, var: Variable, val: TensorLike, slot_name: str, op_name: str) -> Any:
        return self._kept_slot(var, slot_name, lambda: create_slot(var, val, op_name))

    def _get_or_make_slot_with_initializer(
        self, var: object, initializer: object, shape: ShapeLike, dtype: DTypeLike, slot_name: str, op_name: str
    ) -> Any:
        return self._kept_slot(var, slot_name, lambda: create_slot_with_initializer(var, initializer, shape, dtype, op_name))

    def _zeros_slot(self, var: object, slot_name: str, op_name: str) -> Any:
        return self._kept_slot(var, slot_name, lambda: create_zeros_slot(var, op_name))

    def _kept_slot(self, var: object, slot_name: str, make: Callable[[], Any]) -> Any:
        slots = self._slot_dict(slot_name)
        key = _key(var)
        if key not in slots:
            slots[key] = make()
        return slots[key]

    def _create_non_slot_variable(self, initial_value: object, name: str, colocate_with: Any) -> Any:
        key = (name, colocate_with.graph)
        if key not in self._non_slot_dict:
            own = self._name if self._scopes_non_slots else ""
            with tf.name_scope(own) if own else tf.init_scope(), colocate_variables_with(colocate_with):
                is_resource = isinstance(colocate_with, HandledVariable)
                made = create_variable(initial_value, name=name, trainable=False, use_resource=is_resource)
            self._non_slot_dict[key] = made
        return self._non_slot_dict[key]

    def _get_non_slot_variable(self, name: str, graph: object = None) -> Any:
        return self._non_slot_dict.get((name, graph))

    # --- methods that optimizers override ---

    def _call_if_callable(self, param: object) -> Any:
        return param() if callable(param) and not isinstance(param, Tensor) else param

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        """Make the variables that the updates need; by default none."""

    def _prepare(self) -> None:
        """Make the tensors of the hyperparameters; by default none."""

    def _apply_dense(self, grad: Tensor, var: Variable) -> Any:
        raise NotImplementedError

    def _resource_apply_dense(self, grad: Tensor, handle: HandledVariable) -> Any:
        raise NotImplementedError

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Any:
        raise NotImplementedError

    def _resource_apply_sparse(self, grad: Tensor, handle: HandledVariable, indices: Tensor) -> Any:
        raise NotImplementedError

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Variable) -> Any:
        values, indices = summed_by_index(grad.values, grad.indices)
        return self._apply_sparse(tf.IndexedSlices(values, indices, grad.dense_shape), var)

    def _resource_apply_sparse_duplicate_indices(self, grad: Tensor, handle: HandledVariable, indices: Tensor) -> Any:
        values, indices = summed_by_index(grad, indices)
        return self._resource_apply_sparse(values, handle, indices)


def summed_by_index(values: TensorLike, indices: TensorLike) -> tuple[Any, Any]:
    """Add up slices with the same index.  Returns the sums and their indices."""
    unique, positions = tf.unique(indices)
    return tf.unsorted_segment_sum(values, positions, tf.shape(unique)[0]), unique


def _key(variable: Any) -> Any:
    variable = container_of(variable)
    return variable.graph, variable.name.partition(":")[0]
