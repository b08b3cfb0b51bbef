"""Variables of `get_variable`, by name: creation, reuse and partitioning."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Protocol

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, InitializerLike, ShapeLike
from placesim.tf1.types.dtypes import DType, as_dtype
from placesim.tf1.types.shapes import TensorShape
from placesim.tf1.variables.initializers import GlorotUniform, Zeros
from placesim.tf1.variables.partitioned import PartitionedVariable, PartitionInfo, partition, slices
from placesim.tf1.variables.regularization import RegularizationLoss
from placesim.tf1.variables.variable import (
    SaveSliceInfo,
    Variable,
    VariableAggregation,
    VariableSynchronization,
    check_collections,
)

_FORWARDED = ("validate_shape", "synchronization", "aggregation", "trainable", "collections", "constraint")


class ScopeSettings(Protocol):
    """Variable scope from which a variable takes its settings."""

    name: str


class VariableStore:
    """Variables of `get_variable`, by full name."""

    def __init__(self) -> None:
        self.variables: dict[str, Variable] = {}
        self.partitioned: dict[str, PartitionedVariable] = {}

    def get(self, scope: ScopeSettings, name: str | None, arguments: dict[str, Any]) -> Any:
        """Variable of a scope.  `arguments` are those of `get_variable`; settings of the scope replace None."""
        arguments = dict(arguments)
        for setting in ("regularizer", "caching_device", "partitioner", "custom_getter", "reuse", "use_resource"):
            if arguments[setting] is None:
                arguments[setting] = getattr(scope, setting)
        if name is not None and not isinstance(name, str | bytes):
            raise TypeError(f"expected string or bytes-like object, got '{type(name).__name__}'")
        full = scope.name if name is None else scope.name + "/" + name if scope.name else name
        with tf.name_scope(None):
            self._check_initial_value(arguments)
            for setting in ("initializer", "constraint", "dtype"):
                if arguments[setting] is None:
                    arguments[setting] = getattr(scope, setting)
            getter = arguments.pop("custom_getter")
            arguments["dtype"] = as_dtype(arguments["dtype"]).base_dtype
            _settle_roles(arguments)
            if getter is None:
                return self.find_or_make(full, **arguments)
            if not callable(getter):
                raise ValueError(f"Passed a custom_getter which is not callable: {getter}")
            if not _takes(getter, "constraint"):
                del arguments["constraint"]
            return getter(getter=self.find_or_make, name=full, **arguments)

    @staticmethod
    def _check_initial_value(arguments: dict[str, Any]) -> None:
        value, dtype = arguments["initializer"], arguments["dtype"]
        if value is None or callable(value) or dtype is None:
            return
        found = tf.convert_to_tensor(value).dtype.base_dtype
        if found != as_dtype(dtype):
            raise ValueError(f"Initializer type '{found}' and explicit dtype '{as_dtype(dtype)}' don't match.")

    def find_or_make(
        self,
        name: str,
        shape: ShapeLike | None = None,
        dtype: DType | None = None,
        initializer: InitializerLike | None = None,
        regularizer: object = None,
        reuse: object = None,
        trainable: bool | None = None,
        collections: object = None,
        caching_device: object = None,
        partitioner: Callable[..., Any] | None = None,
        validate_shape: bool = True,
        use_resource: bool | None = None,
        constraint: object = None,
        synchronization: object = VariableSynchronization.AUTO,
        aggregation: object = VariableAggregation.NONE,
    ) -> Any:
        """Getter passed to custom getters: the new or reused variable of a full name, partitioned or not."""
        dtype = tf.float32 if dtype is None else dtype
        rest = {
            "regularizer": regularizer,
            "reuse": reuse,
            "trainable": trainable,
            "collections": collections,
            "caching_device": caching_device,
            "validate_shape": validate_shape,
            "use_resource": use_resource,
            "constraint": constraint,
            "synchronization": synchronization,
            "aggregation": aggregation,
        }
        is_scalar = isinstance(shape, (list, tuple)) and not shape
        if partitioner is not None and not is_scalar:
            if not callable(partitioner):
                raise ValueError(f"Partitioner must be callable, but received: {partitioner}")
            with tf.name_scope(None):
                return self._partitioned(name, shape, dtype, initializer, partitioner, rest)
        if reuse is True and partitioner is None and name in self.partitioned:
            return self._partitioned(name, shape, dtype, initializer, None, rest)
        if f"{name}/part_0" in self.variables:
            raise ValueError(
                "No partitioner was provided, but a partitioned version of the variable was found: "
                f"{name}/part_0. Perhaps a variable of the same name was already created with partitioning?"
            )
        return self._single(name, shape, dtype, initializer, None, rest)

    # --- unpartitioned variables ---

    def _single(
        self,
        name: str,
        shape: ShapeLike | None,
        dtype: DType,
        initializer: InitializerLike | None,
        part: object,
        rest: dict[str, Any],
    ) -> Any:
        reuse, regularizer = rest["reuse"], rest["regularizer"]
        shape = TensorShape(shape)
        is_value = initializer is not None and not callable(initializer)
        if is_value and shape.rank is not None and shape.num_elements() is not None:
            raise ValueError("If initializer is a constant, do not specify shape.")
        found = self.variables.get(name)
        if found is not None:
            return _check_found(name, found, shape, dtype, reuse)
        if reuse is True:
            raise ValueError(
                f"Variable {name} does not exist, or was not created with tf.get_variable(). "
                "Did you mean to set reuse=tf.AUTO_REUSE in VarScope?"
            )
        value = _initial_value(name, shape, dtype, initializer, part)
        forwarded = {key: rest[key] for key in (*_FORWARDED, "caching_device", "use_resource")}
        if forwarded["use_resource"] is None and tf.get_default_graph().building_function:
            forwarded["use_resource"] = True
        with tf.init_scope():
            made = tf.Variable(value, name=name, dtype=_value_dtype(initializer, dtype), **forwarded)
        self.variables[name] = made
        if regularizer:
            _regularize(made, name, regularizer)
        return made

    # --- partitioned variables ---

    def _partitioned(
        self,
        name: str,
        shape: Any,
        dtype: DType,
        initializer: InitializerLike | None,
        partitioner: Callable[..., Any] | None,
        rest: dict[str, Any],
    ) -> PartitionedVariable:
        reuse = rest["reuse"]
        if name in self.variables:
            raise ValueError(
                f"A partitioner was provided, but an unpartitioned version of the variable was found: {name}.  "
                "Perhaps a variable of the same name was already created without partitioning?"
            )
        shape = TensorShape(shape)
        if isinstance(initializer, Tensor):
            shape = shape.merge_with(initializer.shape)
        parts = partition(partitioner, shape, dtype) if partitioner is not None else None
        found = self.partitioned.get(name)
        if found is not None:
            return _check_parts(name, found, shape, dtype, parts, reuse)
        if reuse is True or parts is None:
            raise ValueError(
                f"PartitionedVariable {name} does not exist, or was not created with tf.get_variable(). "
                "Did you mean to set reuse=False or reuse=tf.AUTO_REUSE in VarScope?"
            )
        made = []
        whole = shape.as_list()
        for i, (offset, size) in enumerate(slices(whole, parts)):
            part_name = f"{name}/part_{i}"
            value, part_shape = self._shard(part_name, initializer, offset, size, dtype)
            part = PartitionInfo(whole, offset)
            with tf.name_scope(None):
                variable = self._single(part_name, part_shape, dtype, value, part, rest)
            variable._set_save_slice_info(SaveSliceInfo(name, whole, offset, size))
            made.append(variable)
        self.partitioned[name] = PartitionedVariable(name, shape, dtype, made, parts)
        return self.partitioned[name]

    @staticmethod
    def _shard(part_name: str, initializer: object, offset: list[int], size: list[int], dtype: DTypeLike) -> tuple[Any, Any]:
        """Initializer and shape of a shard: an initial value is sliced, an initializer is called for each shard."""
        with tf.name_scope(part_name + "/PartitionedInitializer"):
            if initializer is None or callable(initializer):
                return initializer, size
            value = initializer if isinstance(initializer, Tensor) else tf.convert_to_tensor(initializer, dtype=dtype)
            return tf.slice(value, offset, size), None


def _check_found(name: str, found: Any, shape: TensorShape, dtype: DType, reuse: object) -> Any:
    if not reuse:
        raise ValueError(
            f"Variable {name} already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in VarScope? "
            + _origin(found)
        )
    if not shape.is_compatible_with(found.get_shape()):
        shapes = f"specified shape {shape} and found shape {found.get_shape()}"
        raise ValueError(f"Trying to share variable {name}, but {shapes}.")
    if not dtype.is_compatible_with(found.dtype):
        raise ValueError(
            f"Trying to share variable {name}, but specified dtype {dtype.name} and found dtype {found.dtype.name}."
        )
    return found


def _origin(variable: Variable) -> str:
    """Origin of a variable, for the end of TensorFlow's message."""
    frames = variable.op.traceback
    if not frames:
        return ""
    import traceback

    return "Originally defined at:\n\n" + "".join(traceback.format_list(frames[-5:]))


def _check_parts(
    name: str, found: PartitionedVariable, shape: TensorShape, dtype: DType, parts: object, reuse: object
) -> PartitionedVariable:
    if reuse is False:
        hint = "Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in VarScope?"
        raise ValueError(f"Partitioned variable with name {name} already exists. {hint}")
    start = f"Trying to reuse partitioned variable {name}, but specified"
    if not shape.is_compatible_with(found.get_shape()):
        raise ValueError(f"{start} shape {shape} and found shape {found.get_shape()}.")
    if not dtype.is_compatible_with(found.dtype):
        raise ValueError(f"{start} dtype {dtype.name} and found dtype {found.dtype.name}.")
    if parts is not None and parts != found._get_partitions():
        raise ValueError(f"{start} partitions {parts} and found partitions {found._get_partitions()}.")
    return found


def _initial_value(name: str, shape: TensorShape, dtype: DType, initializer: Any, part: Any) -> Any:
    """Initial value for `tf.Variable`: a value, or a function without arguments that calls the initializer."""
    if initializer is None:
        if not (dtype.is_floating or dtype.is_integer or dtype.is_unsigned or dtype.is_bool or dtype == tf.string):
            raise ValueError(f"An initializer for variable {name} of {dtype.base_dtype} is required")
        if not shape.is_fully_defined() and shape.rank is None:
            raise ValueError(f"Variable {name} did not get an initializer, so its `shape` argument must be specified.")
        initializer = GlorotUniform() if dtype.is_floating else Zeros()
    elif not callable(initializer):
        return initializer
    elif isinstance(initializer, type):
        initializer = initializer()
    if shape.is_fully_defined():
        extra = {"partition_info": part} if part is not None and _takes(initializer, "partition_info") else {}
        return functools.partial(initializer, shape.as_list(), dtype=dtype, **extra)
    if _needs_nothing(initializer):
        return initializer
    raise ValueError(
        "The initializer passed is not valid. It should be a callable with no arguments and the shape should not be provided "
        "or an instance of `tf.keras.initializers.*' and `shape` should be fully defined."
    )


def _value_dtype(initializer: Any, dtype: DType) -> Any:
    """Type for `tf.Variable`, None if a given initial value determines it."""
    return None if initializer is not None and not callable(initializer) else dtype.base_dtype


def _takes(function: Callable[..., Any], argument: str) -> bool:
    parameters = inspect.signature(function).parameters
    return argument in parameters or any(item.kind is item.VAR_KEYWORD for item in parameters.values())


def _needs_nothing(function: Callable[..., Any]) -> bool:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return all(item.default is not item.empty for item in parameters if item.kind in positional)


def _settle_roles(arguments: dict[str, Any]) -> None:
    """Resolve `trainable` from itself and `synchronization`, before custom getters see it."""
    if arguments["trainable"] is None:
        arguments["trainable"] = arguments["synchronization"] is not VariableSynchronization.ON_READ
    if arguments["collections"] is not None:
        arguments["collections"] = check_collections(arguments["collections"])


def _regularize(variable: Variable, name: str, regularizer: Callable[[Any], Any]) -> None:
    """Add a variable's regularization loss to the collection, if a first call of the regularizer returns a loss."""

    def loss() -> Any:
        with tf.colocate_with(variable), tf.name_scope(name + "/Regularizer/"):
            return regularizer(variable)

    if regularizer(variable) is not None:
        tf.add_to_collection("regularization_losses", RegularizationLoss(loss))
