"""Variable scopes and `get_variable`: variables by name, found again or made with the scope's settings (section 4)."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.dtypes import as_dtype
from placesim.tf1.graph import get_default_graph
from placesim.tf1.shapes import TensorShape
from placesim.tf1.tensor import Tensor
from placesim.tf1.variables.initializers import GlorotUniform, Zeros
from placesim.tf1.variables.partitioned import PartitionedVariable, PartitionInfo, partition, slices
from placesim.tf1.variables.regularization import RegularizationLoss
from placesim.tf1.variables.variable import (
    SaveSliceInfo,
    Variable,
    VariableAggregation,
    VariableSynchronization,
    check_collections,
    create_variable,
)


class _ReuseMode(enum.Enum):
    AUTO_REUSE = 1


AUTO_REUSE = _ReuseMode.AUTO_REUSE
"""`reuse=AUTO_REUSE`: a variable that is there is taken, one that is not is made."""
_INHERITED = ("initializer", "regularizer", "caching_device", "partitioner", "dtype", "use_resource")
"""The settings that a scope takes from the one around it, or from the scope object that it reopens."""
_FORWARDED = ("validate_shape", "synchronization", "aggregation", "trainable", "collections", "constraint")


class VariableScope:
    """A scope's name and settings; `original_name_scope` is the name scope that it opened first."""

    def __init__(
        self,
        reuse: Any,
        name: str = "",
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        name_scope: str = "",
        dtype: Any = None,
        use_resource: bool | None = None,
        constraint: Any = None,
    ) -> None:
        self.reuse = reuse
        self.name = name
        self.initializer = initializer
        self.regularizer = regularizer
        self.caching_device = caching_device
        self.partitioner = partitioner
        self.custom_getter = custom_getter
        self.original_name_scope = name_scope
        self.dtype = tf.float32 if dtype is None else dtype
        self.use_resource = use_resource
        self.constraint = constraint

    def reuse_variables(self) -> None:
        """From here on variables are only found, never made."""
        self.reuse = True

    def set_initializer(self, initializer: Any) -> None:
        self.initializer = initializer

    def set_regularizer(self, regularizer: Any) -> None:
        self.regularizer = regularizer

    def set_caching_device(self, caching_device: Any) -> None:
        self.caching_device = caching_device

    def set_partitioner(self, partitioner: Any) -> None:
        self.partitioner = partitioner

    def set_dtype(self, dtype: Any) -> None:
        self.dtype = dtype

    def set_use_resource(self, use_resource: Any) -> None:
        self.use_resource = use_resource

    def set_custom_getter(self, custom_getter: Any) -> None:
        self.custom_getter = custom_getter

    def get_collection(self, name: str) -> list[Any]:
        """A collection's values whose names are in this scope."""
        return tf.get_collection(name, self.name + "/" if self.name else "")  # type: ignore[no-any-return]

    def trainable_variables(self) -> list[Any]:
        return self.get_collection("trainable_variables")

    def global_variables(self) -> list[Any]:
        return self.get_collection("variables")

    def local_variables(self) -> list[Any]:
        return self.get_collection("local_variables")

    def get_variable(self, var_store: VariableStore, name: str, **arguments: Any) -> Any:
        """`tf.get_variable` in this scope, in a store of one's own."""
        return var_store.get(self, name, {**_DEFAULTS, **arguments})

    def _reopened(self, name: str, name_scope: str, reuse: Any, settings: dict[str, Any]) -> VariableScope:
        """A scope with these settings where they are not None, else this one's."""
        kept = {key: getattr(self, key) if settings[key] is None else settings[key] for key in _INHERITED}
        getter = settings["custom_getter"]
        if getter is None:
            getter = self.custom_getter
        elif self.custom_getter is not None:
            getter = _chain(getter, self.custom_getter)
        constraint = settings["constraint"]
        return VariableScope(reuse, name, custom_getter=getter, name_scope=name_scope, constraint=constraint, **kept)


def _chain(inner: Callable[..., Any], outer: Callable[..., Any]) -> Callable[..., Any]:
    """A custom getter inside another scope's: called first, with the outer one as its getter."""

    def getter(getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return inner(functools.partial(outer, getter), *args, **kwargs)

    return getter


class _Scopes:
    """A graph's current scope, its variables, and how often each scope's name was opened."""

    def __init__(self) -> None:
        self.current = VariableScope(False)
        self.store = VariableStore()
        self.opened: dict[str, int] = {}

    def open(self, name: str) -> None:
        self.opened[name] = self.opened.get(name, 0) + 1

    def forget_inside(self, name: str) -> None:
        """Default names inside a scope that is left count from the start again."""
        for inner in self.opened:
            if inner.startswith(name + "/"):
                self.opened[inner] = 0

    def unique(self, word: str) -> str:
        """A default name that no scope here was opened with."""
        prefix = self.current.name + "/" if self.current.name else ""
        found, count = word, 0
        while self.opened.get(prefix + found):
            count += 1
            found = f"{word}_{count}"
        return found


def _scopes() -> _Scopes:
    graph = get_default_graph()
    found = getattr(graph, "variable_scopes", None)
    if found is None:
        found = graph.variable_scopes = _Scopes()  # type: ignore[attr-defined]
    return found


def get_variable_scope() -> VariableScope:
    """The current variable scope."""
    return _scopes().current


class variable_scope:  # noqa: N801 -- TensorFlow's name
    """`tf.variable_scope`: a scope for `get_variable`, and with it (but for `auxiliary_name_scope=False`) a name scope."""

    def __init__(
        self,
        name_or_scope: Any,
        default_name: str | None = None,
        values: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        reuse: Any = None,
        dtype: Any = None,
        use_resource: bool | None = None,
        constraint: Any = None,
        auxiliary_name_scope: bool = True,
    ) -> None:
        if default_name is None and name_or_scope is None:
            raise TypeError("If default_name is None then name_or_scope is required")
        if reuse not in (True, False, None, AUTO_REUSE):
            raise ValueError("The reuse parameter must be True or False or None.")
        if not isinstance(auxiliary_name_scope, bool):
            wanted = f"The auxiliary_name_scope must be `True` or `False`, while get {auxiliary_name_scope}"
            raise TypeError(wanted)
        self._name_or_scope, self._default_name, self._values = name_or_scope, default_name, values
        self._reuse = None if reuse is False else reuse
        self._has_name_scope = auxiliary_name_scope
        self._settings = {
            "initializer": initializer,
            "regularizer": regularizer,
            "caching_device": caching_device,
            "partitioner": partitioner,
            "dtype": dtype,
            "use_resource": use_resource,
            "custom_getter": custom_getter,
            "constraint": constraint,
        }
        self._entered: list[ExitStack] = []

    def __enter__(self) -> VariableScope:
        with ExitStack() as stack:
            graph = _graph_of(self._values)
            if graph is not None and graph is not get_default_graph():
                stack.enter_context(graph.as_default())
            scope = stack.enter_context(self._open())
            self._entered.append(stack.pop_all())
        return scope

    def __exit__(self, *error: Any) -> Any:
        return self._entered.pop().__exit__(*error)

    @contextmanager
    def _open(self) -> Iterator[VariableScope]:
        scopes = _scopes()
        given = self._name_or_scope
        if given is None:
            if self._reuse:
                raise ValueError("reuse=True cannot be used without a name_or_scope")
            word = self._default_name
        elif isinstance(given, VariableScope):
            word = given.name.split("/")[-1]
        elif isinstance(given, str):
            word = given
        else:
            raise TypeError("VariableScope: name_or_scope must be a string or VariableScope.")
        with self._name_scope(word) as name_scope:
            name = scopes.unique(str(word)) if given is None else given
            with _current(scopes, name, name_scope, self._reuse, self._settings) as scope:
                yield scope

    @contextmanager
    def _name_scope(self, word: str | None) -> Iterator[str]:
        if not self._has_name_scope:
            inside = get_default_graph().get_name_scope()
            yield inside + "/" if inside else ""
        elif word:
            with tf.name_scope(word) as opened:
                yield opened
        else:
            yield ""


@contextmanager
def _current(scopes: _Scopes, given: Any, name_scope: str, reuse: Any, settings: dict[str, Any]) -> Iterator[VariableScope]:
    """Makes a scope the current one; leaving it puts the counts of default names back."""
    outer = scopes.current
    if isinstance(given, VariableScope):
        scope = given._reopened(given.name, given.original_name_scope, reuse or given.reuse, settings)
        scopes.open(scope.name)
        kept = dict(scopes.opened)
    else:
        name = f"{outer.name}/{given}" if outer.name else given
        scope = outer._reopened(name, name_scope, reuse or outer.reuse, settings)
        scopes.open(name)
        kept = None
    scopes.current = scope
    try:
        yield scope
    finally:
        if scopes.current is not scope:
            raise RuntimeError("Improper nesting of variable_scope.")
        if kept is None:
            scopes.forget_inside(scope.name)
        else:
            scopes.opened = kept
        scopes.current = outer


def _graph_of(values: Any) -> Any:
    for value in values or ():
        graph = getattr(value, "graph", None)
        if graph is not None:
            return graph
    return None


def variable_op_scope(
    values: Any,
    name_or_scope: Any,
    default_name: str | None = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: bool | None = None,
    constraint: Any = None,
) -> variable_scope:
    """`tf.variable_scope` with its arguments in an older order."""
    settings = (initializer, regularizer, caching_device, partitioner, custom_getter, reuse, dtype, use_resource, constraint)
    return variable_scope(name_or_scope, default_name, values, *settings)


# --- get_variable ---------------------------------------------------------------------------------------------------

_DEFAULTS: dict[str, Any] = {
    "shape": None,
    "dtype": None,
    "initializer": None,
    "regularizer": None,
    "reuse": None,
    "trainable": None,
    "collections": None,
    "caching_device": None,
    "partitioner": None,
    "validate_shape": True,
    "use_resource": None,
    "custom_getter": None,
    "constraint": None,
    "synchronization": VariableSynchronization.AUTO,
    "aggregation": VariableAggregation.NONE,
}


def get_variable(
    name: str | None,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Any = None,
    constraint: Any = None,
    synchronization: Any = VariableSynchronization.AUTO,
    aggregation: Any = VariableAggregation.NONE,
) -> Any:
    """The variable of this name in the current variable scope: a new one, or where variables are reused the one there is.

    Raises ValueError where it must not be there and is, must be there and is not, or has another shape or type.
    """
    scopes = _scopes()
    arguments = {
        "shape": shape,
        "dtype": dtype,
        "initializer": initializer,
        "regularizer": regularizer,
        "reuse": None,
        "trainable": trainable,
        "collections": collections,
        "caching_device": caching_device,
        "partitioner": partitioner,
        "validate_shape": validate_shape,
        "use_resource": use_resource,
        "custom_getter": custom_getter,
        "constraint": constraint,
        "synchronization": synchronization,
        "aggregation": aggregation,
    }
    return scopes.store.get(scopes.current, name, arguments)


def get_local_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = False,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Any = None,
    constraint: Any = None,
    synchronization: Any = VariableSynchronization.AUTO,
    aggregation: Any = VariableAggregation.NONE,
) -> Any:
    """`get_variable` of a local variable, which is not trainable."""
    return get_variable(
        name,
        shape,
        dtype,
        initializer,
        regularizer,
        False,
        [*(collections or ()), "local_variables"],
        caching_device,
        partitioner,
        validate_shape,
        use_resource,
        custom_getter,
        constraint,
        synchronization,
        aggregation,
    )


class VariableStore:
    """The variables that `get_variable` made, by full name."""

    def __init__(self) -> None:
        self.variables: dict[str, Variable] = {}
        self.partitioned: dict[str, PartitionedVariable] = {}

    def get(self, scope: VariableScope, name: str | None, arguments: dict[str, Any]) -> Any:
        """A variable of a scope, or named as it; `arguments` as `get_variable`'s, settings that are None being the scope's."""
        arguments = dict(arguments)
        for setting in ("regularizer", "caching_device", "partitioner", "custom_getter", "reuse", "use_resource"):
            if arguments[setting] is None:
                arguments[setting] = getattr(scope, setting)
        full = scope.name if name is None else scope.name + "/" + name if scope.name else name
        with tf.name_scope(None):
            self._check_initial_value(arguments)
            for setting in ("initializer", "constraint", "dtype"):
                if arguments[setting] is None:
                    arguments[setting] = getattr(scope, setting)
            getter = arguments.pop("custom_getter")
            arguments["dtype"] = as_dtype(arguments["dtype"]).base_dtype
            _settle_roles(full, arguments)
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
            raise ValueError(f"Initializer type '{found!r}' and explicit dtype '{as_dtype(dtype)!r}' don't match.")

    def find_or_make(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        reuse: Any = None,
        trainable: bool | None = None,
        collections: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        validate_shape: bool = True,
        use_resource: bool | None = None,
        constraint: Any = None,
        synchronization: Any = VariableSynchronization.AUTO,
        aggregation: Any = VariableAggregation.NONE,
    ) -> Any:
        """What a custom getter gets as its getter: the variable of a full name, whole or in parts."""
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

    # --- one variable ---

    def _single(self, name: str, shape: Any, dtype: Any, initializer: Any, part: Any, rest: dict[str, Any]) -> Any:
        reuse, regularizer = rest["reuse"], rest["regularizer"]
        shape = TensorShape(shape)
        is_value = initializer is not None and not callable(initializer)
        if is_value and shape.rank is not None and shape.num_elements() is not None:
            raise ValueError("If initializer is a constant, do not specify shape.")
        found = self.variables.get(name)
        if found is not None:
            return _check_found(name, found, shape, dtype, reuse)
        if reuse is True:
            _refuse_missing(name)
        value = _initial_value(name, shape, dtype, initializer, part, rest["validate_shape"])
        forwarded = {key: rest[key] for key in (*_FORWARDED, "caching_device", "use_resource")}
        with tf.init_scope():
            made = create_variable(value, name=name, dtype=_value_dtype(initializer, dtype), **forwarded)
        self.variables[name] = made
        if regularizer:
            _regularize(made, name, regularizer)
        return made

    # --- a partitioned one ---

    def _partitioned(
        self, name: str, shape: Any, dtype: Any, initializer: Any, partitioner: Any, rest: dict[str, Any]
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
    def _shard(part_name: str, initializer: Any, offset: list[int], size: list[int], dtype: Any) -> tuple[Any, Any]:
        """A shard's initializer and shape: an initial value is cut, an initializer called for each shard."""
        with tf.name_scope(part_name + "/PartitionedInitializer"):
            if initializer is None or callable(initializer):
                return initializer, size
            value = initializer if isinstance(initializer, Tensor) else tf.convert_to_tensor(initializer, dtype=dtype)
            return tf.slice(value, offset, size), None


def _check_found(name: str, found: Any, shape: TensorShape, dtype: Any, reuse: Any) -> Any:
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


def _origin(variable: Any) -> str:
    """Where a variable was made, as the end of TensorFlow's message says it."""
    frames = variable.op.traceback
    if not frames:
        return ""
    import traceback

    return "Originally defined at:\n\n" + "".join(traceback.format_list(frames[-5:]))


def _refuse_missing(name: str) -> None:
    hint = "Did you mean to set reuse=tf.AUTO_REUSE in VarScope?"
    raise ValueError(f"Variable {name} does not exist, or was not created with tf.get_variable(). {hint}")


def _check_parts(
    name: str, found: PartitionedVariable, shape: TensorShape, dtype: Any, parts: Any, reuse: Any
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


def _initial_value(name: str, shape: TensorShape, dtype: Any, initializer: Any, part: Any, validate_shape: bool) -> Any:
    """What `tf.Variable` gets as initial value: a value, or a function that calls the initializer."""
    if initializer is None:
        if not (dtype.is_floating or dtype.is_integer or dtype.is_unsigned or dtype.is_bool or dtype == tf.string):
            raise ValueError(f"An initializer for variable {name} of {dtype.base_dtype!r} is required")
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


def _value_dtype(initializer: Any, dtype: Any) -> Any:
    """An initial value that is given has its own type."""
    return None if initializer is not None and not callable(initializer) else dtype.base_dtype


def _takes(function: Callable[..., Any], argument: str) -> bool:
    parameters = inspect.signature(function).parameters
    return argument in parameters or any(item.kind is item.VAR_KEYWORD for item in parameters.values())


def _needs_nothing(function: Callable[..., Any]) -> bool:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return all(item.default is not item.empty for item in parameters if item.kind in positional)


def _settle_roles(name: str, arguments: dict[str, Any]) -> None:
    """`trainable` as it comes out of itself and `synchronization`; a custom getter sees it settled."""
    if arguments["trainable"] is None:
        arguments["trainable"] = arguments["synchronization"] is not VariableSynchronization.ON_READ
    if arguments["collections"] is not None:
        arguments["collections"] = check_collections(arguments["collections"])


def _regularize(variable: Variable, name: str, regularizer: Callable[[Any], Any]) -> None:
    """Calls the regularizer, once to see whether it gives something, and puts its loss into the collection."""

    def loss() -> Any:
        with tf.colocate_with(variable), tf.name_scope(name + "/Regularizer/"):
            return regularizer(variable)

    if regularizer(variable) is not None:
        tf.add_to_collection("regularization_losses", RegularizationLoss(loss))


def no_regularizer(_: Any) -> None:
    """A regularizer that gives no loss, for a variable in a scope that has one."""
