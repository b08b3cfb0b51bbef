"""`tf.Variable`: the common parts of reference and resource variables."""

from __future__ import annotations

import enum
import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.session.stacks import RunningSession
from placesim.tf1.sparse.values import IndexedSlices
from placesim.tf1.types.shapes import StaticShapeLike, TensorShape


class VariableSynchronization(enum.Enum):
    """Time at which copies of a variable are synchronized.  It is only stored, since one process has no copies."""

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class VariableAggregation(enum.Enum):
    """Aggregation of updates of a variable's copies.  It is only stored, since one process has no copies."""

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


@dataclass
class SaveSliceInfo:
    """A shard's part of a partitioned variable: name and shape of the whole, offset and shape of the part."""

    full_name: str | None = None
    full_shape: Sequence[int] = ()
    var_offset: Sequence[int] = ()
    var_shape: Sequence[int] = ()

    @property
    def spec(self) -> str:
        """The part in the form of `shape_and_slices`, `7 2 0,3:0,2`: sizes of the whole, then offset and size per axis."""
        sizes = " ".join(map(str, self.full_shape))
        return f"{sizes} {':'.join(f'{at},{size}' for at, size in zip(self.var_offset, self.var_shape, strict=True))}"


@dataclass
class VariableDef:
    """A variable in a collection of a MetaGraph, by the names of its nodes: the fields of TensorFlow's message."""

    variable_name: str
    initializer_name: str
    snapshot_name: str
    initial_value_name: str = ""
    is_resource: bool = False
    trainable: bool = True
    synchronization: int = 0
    aggregation: int = 0
    save_slice_info_def: SaveSliceInfo | None = field(default=None)


class VariableMetaclass(type):
    """Metaclass by which `tf.Variable(...)` makes a variable of the right kind, a subclass."""

    create: ClassVar[Callable[..., Any]]
    """`create_variable`, which its module sets here, because it imports both kinds."""

    def __call__(cls, *args: object, **kwargs: object) -> Any:
        if cls is Variable:
            return VariableMetaclass.create(*args, **kwargs)
        return super().__call__(*args, **kwargs)


class Variable(metaclass=VariableMetaclass):
    """A variable of the graph; subclasses define its nodes.

    Ops get its reference or handle if they take one, and else its value.
    """

    __array_priority__ = 100

    graph: Any
    initializer: Any
    initial_value: Any
    constraint: Any
    trainable: bool
    synchronization: VariableSynchronization
    aggregation: VariableAggregation
    _save_slice_info: SaveSliceInfo | None = None
    _caching_device: Any = None
    is_distributed_variable = False
    """Whether the variable has a component in each replica of a strategy."""
    assign: Any
    assign_add: Any
    assign_sub: Any

    # --- different in the two kinds ---

    @property
    def _tensor(self) -> Any:
        """The reference, or the resource handle."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Name of the reference or handle: `w:0`."""
        raise NotImplementedError

    @property
    def dtype(self) -> Any:
        raise NotImplementedError

    @property
    def shape(self) -> TensorShape:
        raise NotImplementedError

    def value(self) -> Any:
        """Tensor of the value, for expressions."""
        raise NotImplementedError

    def _operand(self) -> Any:
        """Tensor that takes the variable's place in an operator or an op."""
        return self.value()

    def read_value(self) -> Any:
        """A new read, in the current scope and under the current control dependencies."""
        raise NotImplementedError

    # --- shared ---

    @property
    def op(self) -> Any:
        return self._tensor.op

    @property
    def device(self) -> str:
        return str(self._tensor.device)

    def get_shape(self) -> TensorShape:
        return self.shape

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"

    def initialized_value(self) -> Any:
        """A `cond`: the value if the variable is initialized, else the initial value."""
        with tf.init_scope():
            return tf.cond(tf.is_variable_initialized(self), self.read_value, lambda: self.initial_value)

    def eval(self, session: object = None) -> Any:
        """Value in `session`, or in the default session."""
        return self.value().eval(session=session)

    def load(self, value: object, session: RunningSession | None = None) -> None:
        """Assign a numpy value in `session` at once.  Raises ValueError without a session."""
        where = session or tf.get_default_session()
        if where is None:
            raise ValueError("Either session argument should be provided or default session should be established")
        assign = self.initializer
        where.run(assign, feed_dict={assign.inputs[1]: value})

    def set_shape(self, shape: StaticShapeLike) -> None:
        """Refine the static shape."""
        raise NotImplementedError

    def ref(self) -> Any:
        """Key for dictionaries and sets."""
        return id(self)

    experimental_ref = ref

    def sparse_read(self, indices: TensorLike, name: str | None = None) -> Any:
        raise AttributeError

    def batch_scatter_update(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Any:
        return tf.batch_scatter_update(self, sparse_delta.indices, sparse_delta.values, use_locking=use_locking, name=name)

    def gather_nd(self, indices: TensorLike, name: str | None = None) -> Any:
        raise AttributeError

    def _get_save_slice_info(self) -> SaveSliceInfo | None:
        return self._save_slice_info

    def _set_save_slice_info(self, info: SaveSliceInfo) -> None:
        self._save_slice_info = info

    def to_proto(self, export_scope: str | None = None) -> VariableDef | None:
        """VariableDef with `export_scope` removed from its names; None for a variable outside that scope.

        Raises TypeError if `trainable` is no number: a script may have given a type in its place.
        """
        if export_scope is not None and not self._tensor.name.startswith(export_scope):
            return None
        strip = functools.partial(_strip, scope=export_scope)
        return VariableDef(
            variable_name=strip(self._tensor.name),
            initializer_name=strip(self.initializer.name),
            snapshot_name=strip(self._snapshot_name),
            initial_value_name=strip(self.initial_value.name) if self.initial_value is not None else "",
            is_resource=self._tensor.dtype.name == "resource",
            trainable=bool(operator.index(self.trainable)),
            synchronization=self.synchronization.value,
            aggregation=self.aggregation.value,
            save_slice_info_def=self._save_slice_info,
        )

    def collection_record(self) -> dict[str, Any] | None:
        """`to_proto` as a dict, for comparing collections; the class and the name where there is no message."""
        try:
            definition = self.to_proto()
        except TypeError:
            return {type(self).__name__: self.name}
        if definition is None:
            return None
        part = definition.save_slice_info_def
        record = {
            "variable": definition.variable_name,
            "initializer": definition.initializer_name,
            "snapshot": definition.snapshot_name,
            "initial_value": definition.initial_value_name,
            "is_resource": definition.is_resource,
            "trainable": definition.trainable,
        }
        if part is not None:
            record["slice"] = [part.full_name, list(part.full_shape), list(part.var_offset), list(part.var_shape)]
        return record

    @property
    def _snapshot_name(self) -> str:
        raise NotImplementedError

    def _as_graph_element(self) -> Any:
        return self._tensor

    def __getitem__(self, spec: object) -> Any:
        part = self.value()[spec]
        part.assign = functools.partial(self._assign_part, part)
        return part

    def _assign_part(self, part: Tensor, value: TensorLike, name: str | None = None) -> Any:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.read_value())


Variable.SaveSliceInfo = SaveSliceInfo  # type: ignore[attr-defined]


class MadeVariable(Variable):
    """A variable with nodes of its own, which it makes from an initial value, or finds after an import."""

    _WITHOUT_VALUE: ClassVar[str]
    """TensorFlow's error if there is no initial value."""

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        collections: Sequence[str] | None = None,
        validate_shape: bool = True,
        caching_device: object = None,
        name: str | None = None,
        variable_def: VariableDef | None = None,
        dtype: DTypeLike | None = None,
        expected_shape: object = None,
        import_scope: str | None = None,
        constraint: object = None,
        synchronization: object = None,
        aggregation: object = None,
        shape: StaticShapeLike | None = None,
    ) -> None:
        if variable_def is not None:
            self._find(variable_def, import_scope)
            return
        if initial_value is None:
            raise ValueError(self._WITHOUT_VALUE)
        collections = check_collections(collections)
        set_roles(self, name, trainable, synchronization, aggregation, constraint)
        self._caching_device = caching_device
        given = [] if callable(initial_value) else [initial_value]
        with tf.init_scope():
            self.graph = tf.get_default_graph()
            with tf.name_scope(name, "Variable", given) as scope:
                self._make(scope, initial_value, dtype, None if shape is None else TensorShape(shape), validate_shape)
            add_to_collections(self, collections)

    def _make(
        self, scope: str, value: TensorLike, dtype: DTypeLike | None, shape: TensorShape | None, validate_shape: bool
    ) -> None:
        raise NotImplementedError

    def _find(self, definition: VariableDef, import_scope: str | None) -> None:
        raise NotImplementedError


def find_imported(variable: Any, definition: VariableDef, import_scope: str | None) -> tuple[Any, Any]:
    """Set the nodes and properties of a variable that was imported under a scope.

    Return its reference or handle, and its snapshot: the read that was made with the variable.
    """
    graph = variable.graph = tf.get_default_graph()
    prefix = f"{import_scope.rstrip('/')}/" if import_scope else ""
    found = graph.as_graph_element(prefix + definition.variable_name)
    initial = definition.initial_value_name
    variable.initializer = graph.as_graph_element(prefix + definition.initializer_name)
    variable.initial_value = graph.as_graph_element(prefix + initial) if initial else None
    snapshot = graph.as_graph_element(prefix + definition.snapshot_name)
    variable._save_slice_info = definition.save_slice_info_def
    set_roles(variable, definition.variable_name, definition.trainable, None, None, None)
    return found, snapshot


def part_masks(part: Tensor) -> dict[str, Any]:
    """Bounds and masks of a StridedSlice, as arguments of the op that assigns to the same part."""
    begin, end, strides = part.op.inputs[1:4]
    masks = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    return {"begin": begin, "end": end, "strides": strides} | {mask: part.op.get_attr(mask) for mask in masks}


def _strip(name: str, scope: str | None) -> str:
    return name.removeprefix(scope.rstrip("/") + "/") if scope else name


_OPERATORS = (
    *("add", "radd", "sub", "rsub", "mul", "rmul", "div", "rdiv", "truediv", "rtruediv", "floordiv", "rfloordiv"),
    *("mod", "rmod", "pow", "rpow", "matmul", "rmatmul", "and", "rand", "or", "ror", "xor", "rxor"),
    *("lt", "le", "gt", "ge", "neg", "abs", "invert"),
)
"""Operators that a variable applies to its value; `==` is identity."""


def _on_value(operator: str) -> Callable[..., Any]:
    def apply(self: Variable, *args: object) -> Any:
        value = self._operand()
        return getattr(type(value), operator)(value, *args)

    apply.__name__ = operator
    return apply


for _name in _OPERATORS:
    setattr(Variable, f"__{_name}__", _on_value(f"__{_name}__"))


# --- for the constructors of both kinds -----------------------------------------------------------------------------


def check_collections(collections: object) -> list[str]:
    """Collections of a new variable, by default the global variables.  Raises ValueError."""
    if collections is None:
        return ["variables"]
    if not isinstance(collections, (list, tuple, set)):
        got = f"Got {collections} of type {type(collections)}"
        raise ValueError(f"collections argument to Variable constructor must be a list, tuple, or set. {got}")
    return list(collections)


def set_roles(
    variable: Variable, name: str | None, trainable: bool | None, synchronization: Any, aggregation: Any, constraint: object
) -> None:
    """Check and store a variable's Python-only properties.  Raises ValueError."""
    if constraint is not None and not callable(constraint):
        raise ValueError("The `constraint` argument must be a callable.")
    variable.aggregation = VariableAggregation.NONE if aggregation is None else aggregation
    if not isinstance(variable.aggregation, VariableAggregation):
        raise ValueError(f"Invalid variable aggregation mode: {aggregation} for variable: {name}")
    variable.synchronization = VariableSynchronization.AUTO if synchronization is None else synchronization
    if not isinstance(variable.synchronization, VariableSynchronization):
        raise ValueError(f"Invalid variable synchronization mode: {synchronization} for variable: {name}")
    on_read = variable.synchronization is VariableSynchronization.ON_READ
    variable.trainable = not on_read if trainable is None else trainable
    variable.constraint = constraint


def add_to_collections(variable: Variable, collections: list[str]) -> None:
    """Add a new variable to its collections, and to the trainable variables if it is trainable."""
    if variable.trainable and "trainable_variables" not in collections:
        collections = [*collections, "trainable_variables"]
    tf.add_to_collections(collections, variable)


class _Version2Metaclass(type):
    """Metaclass of `VariableV2`, whose call makes a resource variable; all variables count as its instances."""

    def __call__(cls, initial_value: object = None, trainable: bool | None = None, **options: object) -> Any:
        return VariableMetaclass.create(initial_value, trainable, use_resource=True, **options)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Variable)


class VariableV2(metaclass=_Version2Metaclass):
    """`tf.compat.v2.Variable`."""
