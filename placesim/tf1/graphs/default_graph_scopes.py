"""The scopes of the default graph: names, devices, colocation, control dependencies, collections."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import Any

from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.op_arguments import graph_of


class name_scope_v1:  # noqa: N801
    """`tf.name_scope(name, default_name, values)`: context manager that yields the scope with its slash."""

    def __init__(self, name: Any, default_name: Any = None, values: Any = None) -> None:
        if not (default_name is None or isinstance(default_name, str)):
            raise TypeError(
                f"`default_name` type ({type(default_name)}) is not a string type. You likely meant to pass this into the "
                "`values` kwarg."
            )
        self._given = name
        self._name = default_name if name is None else name
        self._default_name = default_name
        self._values = values
        self._stack: ExitStack | None = None

    @property
    def name(self) -> Any:
        return self._name

    def __enter__(self) -> str:
        if self._given is None and self._default_name is None and self._values is not None:
            raise ValueError(f"At least one of name ({self._given}) and default_name ({self._default_name}) must be provided.")
        with ExitStack() as stack:
            graph = get_default_graph()
            if self._values:
                found = graph_of(self._values)
                if found is not graph:
                    graph = stack.enter_context(found.as_default())
            scope = stack.enter_context(graph.name_scope(self._name))
            self._stack = stack.pop_all()
        return scope

    def __exit__(self, *error: object) -> None:
        assert self._stack is not None
        self._stack.__exit__(*error)  # type: ignore[arg-type]


name_scope = name_scope_v1


class op_scope(name_scope_v1):  # noqa: N801
    """`tf.op_scope(values, name, default_name)`: the old order of the arguments."""

    def __init__(self, values: Any, name: Any, default_name: Any = None) -> None:
        super().__init__(name, default_name, values)


def device(device_name_or_function: object) -> AbstractContextManager[None]:
    """`tf.device`."""
    return get_default_graph().device(device_name_or_function)


def colocate_with(op: object, ignore_existing: bool = False) -> AbstractContextManager[None]:
    """`tf.colocate_with`."""
    return get_default_graph().colocate_with(op, ignore_existing)


def control_dependencies(control_inputs: object) -> AbstractContextManager[None]:
    """`tf.control_dependencies`."""
    return get_default_graph().control_dependencies(control_inputs)


def init_scope() -> AbstractContextManager[None]:
    """`tf.init_scope`."""
    return get_default_graph().init_scope()


def container(container_name: str) -> AbstractContextManager[str]:
    """`tf.container`."""
    return get_default_graph().container(container_name)


def add_to_collection(name: str, value: object) -> None:
    """`tf.add_to_collection`."""
    get_default_graph().add_to_collection(name, value)


def add_to_collections(names: object, value: TensorLike) -> None:
    """`tf.add_to_collections`."""
    get_default_graph().add_to_collections(names, value)


def get_collection(key: str, scope: str | None = None) -> list[Any]:
    """`tf.get_collection`."""
    return get_default_graph().get_collection(key, scope)


def get_collection_ref(key: str) -> list[Any]:
    """`tf.get_collection_ref`."""
    return get_default_graph().get_collection_ref(key)
