"""Variable scopes: names and settings for the variables that `get_variable` makes or reuses."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor_likes import DTypeLike, InitializerLike
from placesim.tf1.variables.store import VariableStore
from placesim.tf1.variables.variable import VariableAggregation, VariableSynchronization


class _ReuseMode(enum.Enum):
    AUTO_REUSE = 1


AUTO_REUSE = _ReuseMode.AUTO_REUSE
"""`reuse=AUTO_REUSE`: use an existing variable, else make one."""
_INHERITED = ("initializer", "regularizer", "caching_device", "partitioner", "dtype", "use_resource")
"""Settings that a scope inherits from the outer scope, or from the scope object that it opens again."""

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


class VariableScope:
    """A scope's name and settings; `original_name_scope` is the name scope that it opened first."""

    def __init__(
        self,
        reuse: object,
        name: str = "",
        initializer: InitializerLike | None = None,
        regularizer: Callable[[Any], Any] | None = None,
        caching_device: object = None,
        partitioner: object = None,
        custom_getter: Callable[..., Any] | None = None,
        name_scope: str = "",
        dtype: DTypeLike | None = None,
        use_resource: bool | None = None,
        constraint: object = None,
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
        """From now on, only reuse variables and make no new ones."""
        self.reuse = True

    def set_initializer(self, initializer: InitializerLike | None) -> None:
        self.initializer = initializer

    def set_regularizer(self, regularizer: Callable[[Any], Any] | None) -> None:
        self.regularizer = regularizer

    def set_caching_device(self, caching_device: object) -> None:
        self.caching_device = caching_device

    def set_partitioner(self, partitioner: object) -> None:
        self.partitioner = partitioner

    def set_dtype(self, dtype: DTypeLike) -> None:
        self.dtype = dtype

    def set_use_resource(self, use_resource: bool | None) -> None:
        self.use_resource = use_resource

    def set_custom_getter(self, custom_getter: Callable[..., Any] | None) -> None:
        self.custom_getter = custom_getter

    def get_collection(self, name: str) -> list[Any]:
        """Items of a collection with names in this scope."""
        return tf.get_collection(name, self.name + "/" if self.name else "")  # type: ignore[no-any-return]

    def trainable_variables(self) -> list[Any]:
        return self.get_collection("trainable_variables")

    def global_variables(self) -> list[Any]:
        return self.get_collection("variables")

    def local_variables(self) -> list[Any]:
        return self.get_collection("local_variables")

    def get_variable(self, var_store: VariableStore, name: str, **arguments: object) -> Any:
        """`tf.get_variable` in this scope, with another store."""
        return var_store.get(self, name, {**_DEFAULTS, **arguments})

    def _reopened(self, name: str, name_scope: str, reuse: object, settings: dict[str, Any]) -> VariableScope:
        """New scope with these settings; those that are None are taken from this scope."""
        kept = {key: getattr(self, key) if settings[key] is None else settings[key] for key in _INHERITED}
        getter = settings["custom_getter"]
        if getter is None:
            getter = self.custom_getter
        elif self.custom_getter is not None:
            getter = _chain(getter, self.custom_getter)
        constraint = settings["constraint"]
        return VariableScope(reuse, name, custom_getter=getter, name_scope=name_scope, constraint=constraint, **kept)


def _chain(inner: Callable[..., Any], outer: Callable[..., Any]) -> Callable[..., Any]:
    """Custom getter that calls `inner`, with `outer` as its getter."""

    def getter(getter: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        return inner(functools.partial(outer, getter), *args, **kwargs)

    return getter


class _Scopes:
    """Current scope and variables of a graph, and how often a scope of each name was opened."""

    def __init__(self) -> None:
        self.current = VariableScope(False)
        self.store = VariableStore()
        self.opened: dict[str, int] = {}

    @property
    def state(self) -> tuple[VariableScope, dict[str, int]]:
        """The current scope and the counts, which each thread has for itself."""
        return self.current, self.opened

    @state.setter
    def state(self, state: tuple[VariableScope, dict[str, int]] | None) -> None:
        self.current, self.opened = state or (VariableScope(False), {})

    def open(self, name: str) -> None:
        self.opened[name] = self.opened.get(name, 0) + 1

    def forget_inside(self, name: str) -> None:
        """Reset the counts of scope names inside a scope that is left."""
        for inner in self.opened:
            if inner.startswith(name + "/"):
                self.opened[inner] = 0

    def unique(self, word: str) -> str:
        """Default name, with a number appended if a scope of this name was opened before."""
        prefix = self.current.name + "/" if self.current.name else ""
        found, count = word, 0
        while self.opened.get(prefix + found):
            count += 1
            found = f"{word}_{count}"
        return found


def scopes_of_graph() -> _Scopes:
    """The variable scopes of the default graph, and the store of its variables."""
    graph = get_default_graph()
    found = getattr(graph, "variable_scopes", None)
    if found is None:
        found = graph.variable_scopes = _Scopes()  # type: ignore[attr-defined]
    return found


def current_store() -> VariableStore:
    """Store of the default graph's variables from `get_variable`."""
    return scopes_of_graph().store


def get_variable_scope() -> VariableScope:
    """The current variable scope."""
    return scopes_of_graph().current


class variable_scope:  # noqa: N801 -- TensorFlow's name
    """`tf.variable_scope`: a scope for `get_variable`, and a name scope unless `auxiliary_name_scope` is False."""

    def __init__(
        self,
        name_or_scope: Any,
        default_name: str | None = None,
        values: Sequence[object] | None = None,
        initializer: InitializerLike | None = None,
        regularizer: Callable[[Any], Any] | None = None,
        caching_device: object = None,
        partitioner: object = None,
        custom_getter: Callable[..., Any] | None = None,
        reuse: object = None,
        dtype: DTypeLike | None = None,
        use_resource: bool | None = None,
        constraint: object = None,
        auxiliary_name_scope: bool = True,
    ) -> None:
        if default_name is None and name_or_scope is None:
            raise TypeError("If default_name is None then name_or_scope is required")
        if reuse not in (True, False, None, AUTO_REUSE):
            raise ValueError("The reuse parameter must be True or False or None.")
        if not isinstance(auxiliary_name_scope, bool):
            raise TypeError(f"The auxiliary_name_scope must be `True` or `False`, while get {auxiliary_name_scope}")
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
        scopes = scopes_of_graph()
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
def _current(scopes: _Scopes, given: Any, name_scope: str, reuse: object, settings: dict[str, Any]) -> Iterator[VariableScope]:
    """Make a scope the current one in this block.  At its end, restore the counts of scope names."""
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


def _graph_of(values: Sequence[object] | None) -> Any:
    graphs = (getattr(value, "graph", None) for value in values or ())
    return next((graph for graph in graphs if graph is not None), None)


def variable_op_scope(
    values: Sequence[object],
    name_or_scope: object,
    default_name: str | None = None,
    initializer: InitializerLike | None = None,
    regularizer: Callable[[Any], Any] | None = None,
    caching_device: object = None,
    partitioner: object = None,
    custom_getter: Callable[..., Any] | None = None,
    reuse: object = None,
    dtype: DTypeLike | None = None,
    use_resource: bool | None = None,
    constraint: object = None,
) -> variable_scope:
    """`tf.variable_scope` with its arguments in an older order."""
    settings = (initializer, regularizer, caching_device, partitioner, custom_getter, reuse, dtype, use_resource, constraint)
    return variable_scope(name_or_scope, default_name, values, *settings)
