"""Resource variables: a handle, and ops that read and update its variable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.ops.conversion import register_tensor_conversion_function
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types.dtypes import DType
from placesim.tf1.types.read_only import read_only
from placesim.tf1.types.shapes import StaticShapeLike, TensorShape
from placesim.tf1.variables.guards import guarded
from placesim.tf1.variables.reference import ND_SCATTERS, SCATTERS, refuse_control_flow
from placesim.tf1.variables.variable import (
    MadeVariable,
    Variable,
    VariableDef,
    find_imported,
    part_masks,
)


class HandledVariable(Variable):
    """Object with a resource handle: a variable, or its state after an op that changed it."""

    handle: Tensor
    _dtype: Any
    _shape: TensorShape
    _cached: Tensor | None = None
    _caching_device: Any = None

    _tensor = read_only("handle")

    _handle = _tensor
    """Control dependencies recognise a variable by this attribute, and wait for its `op`."""

    @property
    def name(self) -> str:
        return str(self.handle.name)

    dtype = read_only("_dtype")
    shape: TensorShape = read_only("_shape")

    def value(self) -> Any:
        """The cached read, or else a new read outside the current device and colocation."""
        if self._cached is not None:
            return self._cached
        with tf.colocate_with(None, ignore_existing=True):
            return self._read()

    def read_value(self) -> Any:
        with tf.name_scope("Read"):
            value = self._read()
        return tf.identity(value)

    def _read(self) -> Any:
        if self._caching_device is None:
            return self._read_plainly()
        with tf.colocate_with(None, ignore_existing=True), tf.device(self._caching_device):
            return self._read_plainly()

    def _read_plainly(self) -> Any:
        """A read in the current device scope, even if there is a caching device."""
        value = gen("ReadVariableOp")(self.handle, self._dtype)
        value.set_shape(self._shape)
        return value

    def is_initialized(self, name: str | None = None) -> Any:
        return gen("VarIsInitializedOp")(self.handle, name=name)

    def initialized_value(self) -> Any:
        raise NotImplementedError

    def set_shape(self, shape: StaticShapeLike) -> None:
        self._shape = self._shape.merge_with(shape)

    def assign(self, value: Any, use_locking: object = None, name: str | None = None, read_value: bool = True) -> Any:
        """Assign a value.  Return the variable after the assignment, or the op if `read_value` is false."""
        with self._order():
            value = tf.convert_to_tensor(value, dtype=self._dtype)
            if not self._shape.is_compatible_with(value.shape):
                shapes = f"The variable shape {self._shape}, and the assigned value shape {value.shape} are incompatible."
                raise ValueError(f"Cannot assign value to variable ' {self.name}': Shape mismatch.{shapes}")
            validate = self._shape.is_fully_defined()
            op = gen("AssignVariableOp")(self.handle, value, validate_shape=validate, name=name)
        return self._after(op) if read_value else op

    def assign_add(
        self, delta: TensorLike, use_locking: object = None, name: str | None = None, read_value: bool = True
    ) -> Any:
        return self._change("AssignAddVariableOp", delta, name, read_value)

    def assign_sub(
        self, delta: TensorLike, use_locking: object = None, name: str | None = None, read_value: bool = True
    ) -> Any:
        return self._change("AssignSubVariableOp", delta, name, read_value)

    def _change(self, op: str, delta: TensorLike, name: str | None, read_value: bool) -> Any:
        with self._order():
            made = gen(op)(self.handle, tf.convert_to_tensor(delta, dtype=self._dtype), name=name)
            return self._after(made) if read_value else made

    def _order(self) -> Any:
        """Control dependencies of ops that change the variable."""
        return tf.control_dependencies([])

    def _after(self, op: Operation) -> ChangedVariable:
        return ChangedVariable(self, op)

    def sparse_read(self, indices: TensorLike, name: str | None = None) -> Any:
        """Gather rows, by an op `ResourceGather` named `Gather`."""
        with tf.name_scope("Gather" if name is None else name) as scope:
            return gen("ResourceGather")(self.handle, indices, dtype=self._dtype, name=scope)

    def gather_nd(self, indices: TensorLike, name: str | None = None) -> Any:
        with tf.name_scope("GatherNd" if name is None else name) as scope:
            value = gen("ResourceGatherNd")(self.handle, indices, dtype=self._dtype, name=scope)
        return tf.identity(value)

    def count_up_to(self, limit: int) -> Any:
        return gen("ResourceCountUpTo")(self.handle, limit=limit, T=self._dtype)

    def _assign_part(self, part: Tensor, value: TensorLike, name: str | None = None) -> Any:
        name = part.op.name + "/_assign" if name is None else name
        value = tf.convert_to_tensor(value, dtype=self._dtype)
        with tf.name_scope(None):
            op = gen("ResourceStridedSliceAssign")(self.handle, value=value, name=name, **part_masks(part))
        return self._after(op)


class ResourceVariable(MadeVariable, HandledVariable):
    """A variable behind a handle, read at each use."""

    _WITHOUT_VALUE = (
        "The `initial_value` arg to `tf.Variable` must be specified except when you are not providing a `variable_def`. "
        "You provided neither."
    )

    def _make(
        self, scope: str, value: TensorLike, dtype: DTypeLike | None, shape: TensorShape | None, validate_shape: bool
    ) -> None:
        own = scope[:-1]
        with self.graph.builder.class_attr(own):
            with tf.name_scope("Initializer"), tf.device(None):
                value = value() if callable(value) else value
                self.initial_value = tf.convert_to_tensor(value, dtype=dtype, name="initial_value")
                refuse_control_flow(self.initial_value, scope)
            self._dtype = self.initial_value.dtype.base_dtype
            self._shape = self.initial_value.shape if shape is None else shape
            handle = gen("VarHandleOp")
            self.handle = handle(dtype=self._dtype, shape=self._shape, shared_name=own, debug_name=scope, name=scope)
        with tf.name_scope("IsInitialized"):
            self.is_initialized()
        with tf.name_scope("Assign") as assign, tf.colocate_with(None, ignore_existing=True), tf.device(self.device):
            start = guarded(self.initial_value, scope)
            self.initializer = gen("AssignVariableOp")(self.handle, start, name=assign)
        with tf.name_scope("Read"):
            with tf.device(self.device):
                self._snapshot = self._read_plainly()
            if self._caching_device is not None:
                with tf.colocate_with(None, ignore_existing=True), tf.device(self._caching_device):
                    self._snapshot = self._cached = tf.identity(self._snapshot)

    def _find(self, definition: VariableDef, import_scope: str | None) -> None:
        self.handle, self._snapshot = find_imported(self, definition, import_scope)
        self._dtype = tf.as_dtype(self.handle.op.get_attr("dtype"))
        self._shape = TensorShape(self.handle.op.get_attr("shape"))
        if self._snapshot.op.type != "ReadVariableOp":
            self._cached = self._snapshot

    @property
    def _snapshot_name(self) -> str:
        return str(self._snapshot.name)

    def _as_graph_element(self) -> Any:
        """Tensor to fetch: the read that was made with the variable."""
        return self._snapshot

    create = read_only("initializer", "Op that initializes the variable.")


class ChangedVariable(HandledVariable):
    """A variable after an op that changed it: reads wait for the op, and running the variable runs the op."""

    def __init__(self, variable: HandledVariable, op: Operation) -> None:
        self.handle, self._dtype, self._shape = variable.handle, variable._dtype, variable._shape
        self.graph, self.initializer, self.initial_value = variable.graph, op, None
        self.trainable, self.constraint = variable.trainable, variable.constraint
        self.synchronization, self.aggregation = variable.synchronization, variable.aggregation
        self._save_slice_info = variable._save_slice_info
        self._op = op
        # Nothing fetches it in a function.
        self._snapshot = None if get_default_graph().building_function else self._read()

    op = read_only("_op")

    @property
    def name(self) -> str:
        return str(self._op.name)

    def value(self) -> Any:
        return self._read()

    read_value = value

    def _read(self) -> Any:
        with tf.control_dependencies([self._op]):
            return super()._read()

    def _order(self) -> Any:
        return tf.control_dependencies([self._op])

    def _as_graph_element(self) -> Any:
        return self._snapshot


def _scatter(op: str) -> Callable[..., Any]:
    def scatter(self: HandledVariable, sparse_delta: object, use_locking: bool = False, name: str | None = None) -> Any:
        if not isinstance(sparse_delta, tf.IndexedSlices):
            raise TypeError(f"Argument `sparse_delta` must be a `tf.IndexedSlices`. Received arg: {sparse_delta}")
        return self._after(scatter_rows(op, self, sparse_delta.indices, sparse_delta.values, name))

    return scatter


def _scatter_nd(op: str) -> Callable[..., Any]:
    def scatter(self: HandledVariable, indices: TensorLike, updates: TensorLike, name: str | None = None) -> Any:
        return self._after(scatter_rows(op, self, indices, updates, name))

    return scatter


def scatter_rows(op: str, variable: HandledVariable, indices: TensorLike, updates: TensorLike, name: str | None) -> Any:
    """A `ResourceScatter...` op.  The updates are converted outside the name scope of the op."""
    updates = tf.convert_to_tensor(updates, dtype=variable.dtype)
    return gen(op)(variable.handle, indices, updates, name=name)


for _kind in SCATTERS:
    setattr(HandledVariable, "scatter_" + _kind, _scatter("ResourceScatter" + _kind.capitalize()))
for _kind in ND_SCATTERS:
    setattr(HandledVariable, "scatter_nd_" + _kind, _scatter_nd("ResourceScatterNd" + _kind.capitalize()))


def _convert(variable: HandledVariable, dtype: DType | None = None, name: str | None = None, as_ref: bool = False) -> Any:
    if dtype is not None and not dtype.is_compatible_with(variable.dtype):
        found = f"`tf.Variable of type {variable.dtype.name}. (Variable: {variable})"
        raise ValueError(f"Incompatible type conversion requested to type {dtype.name} for {found}")
    return variable.handle if as_ref else variable._operand()


register_tensor_conversion_function(HandledVariable, _convert)
