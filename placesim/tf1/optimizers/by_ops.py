"""Updates of variables by a single op each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.optimizers.updates import Hyperparameter, Updates
from placesim.tf1.sparse.values import IndexedSlices
from placesim.tf1.variables.resource import HandledVariable
from placesim.tf1.variables.variable import Variable


class OpUpdates(Updates):
    """Updates by ops: `ApplyX`, `SparseApplyX`, `ResourceApplyX`, `ResourceSparseApplyX`.

    `update` is X.  `hyperparameters` names the constants in the order of their creation.  `inputs` lists the op's inputs after
    the variable: `slot:NAME`, a hyperparameter, or `grad`, after which a sparse op has the indices.
    """

    update = ""
    hyperparameters: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    casts = True
    """Whether all ops get hyperparameters cast to the variable's type, or only `ResourceSparseApplyX`."""

    def __init__(self, use_locking: bool, name: str, **values: Hyperparameter) -> None:
        super().__init__(use_locking, name)
        self._values = values
        self._tensors: dict[str, Any] = {}

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for variable in var_list:
            for item in self.inputs:
                if item.startswith("slot:"):
                    self._zeros_slot(variable, item.removeprefix("slot:"), self._name)

    def _prepare(self) -> None:
        for name in self.hyperparameters:
            value = self._call_if_callable(self._values[name])
            self._tensors[name] = tf.convert_to_tensor(value, name=name)

    def _kernel(self) -> str:
        return self.update

    def _attrs(self, is_sparse: bool) -> dict[str, Any]:
        """Attrs of the op other than `use_locking`."""
        return {}

    def _apply(self, prefix: str, variable: object, held: object, gradient: tuple[Any, ...], dtype: DTypeLike) -> Any:
        given: list[Any] = [held]
        for item in self.inputs:
            if item == "grad":
                given += gradient
            elif item.startswith("slot:"):
                slot = self.get_slot(variable, item.removeprefix("slot:"))
                given.append(slot.handle if prefix.startswith("Resource") else slot)
            else:
                is_cast = self.casts or prefix == "ResourceSparseApply"
                given.append(self._input(item, dtype) if is_cast else self._tensors[item])
        attrs = {"use_locking": self._use_locking, **self._attrs("Sparse" in prefix)}
        made = gen(prefix + self._kernel())(*given, **attrs)
        return getattr(made, "op", made)

    def _input(self, name: str, dtype: DTypeLike) -> Any:
        return tf.cast(self._tensors[name], dtype)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Any:
        return self._apply("Apply", var, var, (grad,), var.dtype.base_dtype)

    def _resource_apply_dense(self, grad: Tensor, handle: HandledVariable) -> Any:
        return self._apply("ResourceApply", handle, handle.handle, (grad,), grad.dtype.base_dtype)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Any:
        return self._apply("SparseApply", var, var, (grad.values, grad.indices), var.dtype.base_dtype)

    def _resource_apply_sparse(self, grad: Tensor, handle: HandledVariable, indices: Tensor) -> Any:
        return self._apply("ResourceSparseApply", handle, handle.handle, (grad, indices), grad.dtype)


def refuse_negative(label: str, value: float, wanted: str) -> None:
    """Raise ValueError for a negative number."""
    if value < 0.0:
        raise ValueError(f"{label} {value:f} needs to {wanted}")
