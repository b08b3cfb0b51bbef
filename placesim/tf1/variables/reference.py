"""Reference variables: VariableV2, Assign, and the Identity that reads the variable."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.ops.conversion import register_tensor_conversion_function
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types.dtypes import DType
from placesim.tf1.types.read_only import read_only
from placesim.tf1.types.shapes import StaticShapeLike, TensorShape
from placesim.tf1.variables.guards import guarded
from placesim.tf1.variables.variable import (
    MadeVariable,
    VariableDef,
    find_imported,
    part_masks,
)

SCATTERS = ("sub", "add", "max", "min", "mul", "div", "update")
ND_SCATTERS = ("sub", "add", "update", "max", "min")


class RefVariable(MadeVariable):
    """TensorFlow 1's variable: ops that change it take its reference."""

    _WITHOUT_VALUE = "initial_value must be specified."

    def _make(
        self, scope: str, value: TensorLike, dtype: DTypeLike | None, shape: TensorShape | None, validate_shape: bool
    ) -> None:
        with ExitStack() as labelled:
            if callable(value):
                labelled.enter_context(self.graph.builder.class_attr(scope[:-1]))
                with tf.name_scope("Initializer"), tf.device(None):
                    self.initial_value = tf.convert_to_tensor(value(), dtype=dtype, name="initial_value")
            else:
                self.initial_value = tf.convert_to_tensor(value, dtype=dtype, name="initial_value")
                refuse_control_flow(self.initial_value, scope)
            if shape is None:
                shape = self.initial_value.shape if validate_shape else TensorShape(None)
            base = self.initial_value.dtype.base_dtype
            self._reference = gen("VariableV2")(shape=shape, dtype=base, name=scope)
        if validate_shape and not self.initial_value.shape.is_fully_defined():
            raise ValueError(f"initial_value must have a shape specified: {self.initial_value}")
        start = guarded(self.initial_value, scope)
        self.initializer = tf.assign(self._reference, start, validate_shape=validate_shape).op
        with reading_device(self):
            self._snapshot = tf.identity(self._reference, name="read")

    def _find(self, definition: VariableDef, import_scope: str | None) -> None:
        self._reference, self._snapshot = find_imported(self, definition, import_scope)

    _tensor = read_only("_reference")

    @property
    def name(self) -> str:
        return str(self._reference.name)

    dtype = read_only("_reference.dtype")

    @property
    def shape(self) -> TensorShape:
        return TensorShape(self._reference.shape)

    @property
    def _snapshot_name(self) -> str:
        return str(self._snapshot.name)

    def _ref(self) -> Any:
        return self._reference

    def value(self) -> Any:
        return self._snapshot

    def read_value(self) -> Any:
        return tf.identity(self._reference, name="read")

    def eval(self, session: object = None) -> Any:
        return self._reference.eval(session=session)

    def set_shape(self, shape: StaticShapeLike) -> None:
        self._reference.set_shape(shape)
        self._snapshot.set_shape(shape)

    def assign(self, value: TensorLike, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """Assign a value.  Return the reference, or the op if `read_value` is false."""
        return self._change("Assign", value, use_locking, name, read_value)

    def assign_add(self, delta: TensorLike, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        return self._change("AssignAdd", delta, use_locking, name, read_value)

    def assign_sub(self, delta: TensorLike, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        return self._change("AssignSub", delta, use_locking, name, read_value)

    def _change(self, op: str, value: TensorLike, use_locking: bool, name: str | None, read_value: bool) -> Any:
        result = gen(op)(self._reference, value, use_locking=use_locking, name=name)
        return result if read_value else result.op

    def count_up_to(self, limit: int) -> Any:
        return tf.count_up_to(self._reference, limit=limit)

    def _assign_part(self, part: Tensor, value: TensorLike, name: str | None = None) -> Any:
        name = part.op.name + "/_assign" if name is None else name
        with tf.name_scope(None):
            return gen("StridedSliceAssign")(self._reference, value=value, name=name, **part_masks(part))


def refuse_control_flow(value: Tensor, scope: str) -> None:
    """Raise ValueError for an initial value from inside a loop or branch."""
    if value.op._get_control_flow_context() is not None:
        raise ValueError(
            f"Initializer for variable {scope} is from inside a control-flow construct, such as a loop or conditional. "
            "When creating a variable inside a loop or conditional, use a lambda as the initializer."
        )


def reading_device(variable: RefVariable) -> Any:
    """Scope of a read: on the caching device if there is one, else with the variable."""
    caching = variable._caching_device
    return tf.colocate_with(variable.op) if caching is None else tf.device(caching)


def _scatter(op: str) -> Any:
    def scatter(self: RefVariable, sparse_delta: object, use_locking: bool = False, name: str | None = None) -> Any:
        if not isinstance(sparse_delta, tf.IndexedSlices):
            raise TypeError(f"sparse_delta is not IndexedSlices: {sparse_delta}")
        return gen(op)(self._reference, sparse_delta.indices, sparse_delta.values, use_locking=use_locking, name=name)

    return scatter


def _scatter_nd(op: str) -> Any:
    def scatter(self: RefVariable, indices: TensorLike, updates: TensorLike, name: str | None = None) -> Any:
        return gen(op)(self._reference, indices, updates, use_locking=True, name=name)

    return scatter


for _kind in SCATTERS:
    setattr(RefVariable, "scatter_" + _kind, _scatter("Scatter" + _kind.capitalize()))
for _kind in ND_SCATTERS:
    setattr(RefVariable, "scatter_nd_" + _kind, _scatter_nd("ScatterNd" + _kind.capitalize()))


def _convert(variable: RefVariable, dtype: DType | None = None, name: str | None = None, as_ref: bool = False) -> Any:
    if dtype is not None and not dtype.is_compatible_with(variable.dtype):
        asked = f"requested to type '{dtype.name}' for variable of type '{variable.dtype.name}'"
        raise ValueError(f"Incompatible type conversion {asked}")
    return variable._reference if as_ref else variable._snapshot


register_tensor_conversion_function(RefVariable, _convert)
