"""The scopes of a graph: names, devices, colocation, control dependencies, and attrs of the ops inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar

from placesim.core.errors import GraphBuildError
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.graph import DeviceScope, Node
from placesim.machine.device_names import DeviceName as ParsedDevice
from placesim.machine.device_names import enclose, format_spec, parse_python_spec
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.types import device_spec

_PYTHON_ERRORS: dict[str, type[Exception]] = {"TypeError": TypeError, "ValueError": ValueError}


class Scopes:
    """The methods of a Graph that return contexts."""

    builder: ScopedGraphBuilder
    _control_flow_context: Any
    _default_depths: list[int]
    _extra_attrs: tuple[tuple[str, Callable[[Node], Any]], ...]
    _container: str
    variable_creators: list[Any]
    operation: Callable[[Node | int], Operation]
    as_graph_element: Callable[..., Any]
    as_default: Callable[[], AbstractContextManager[object]]
    entering_line: Callable[[], int]
    running_lines: Callable[[], tuple[int, ...]]
    records_scopes: ClassVar[bool] = False
    """Whether graphs record the lines that open name scopes, for a command that reads a script."""
    to_tensor: ClassVar[Callable[[Any], Tensor]]
    """`convert_to_tensor`, set by its module, which imports this one."""

    @contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """`tf.name_scope` on this graph.  Raises ValueError for an invalid scope name."""
        if name and not isinstance(name, str):
            raise TypeError(f"'name' for name_scope must be a string, got {name!r} of type {type(name)}.")
        builder = self.builder
        saved = builder.prefix
        try:
            builder.prefix = builder.open_scope(name)
        except GraphBuildError as error:
            raise python_error(error) from None
        if self.records_scopes and builder.prefix not in builder.graph.scope_lines:
            builder.graph.scope_lines[builder.prefix] = self.running_lines()
        try:
            yield builder.prefix
        finally:
            builder.prefix = saved

    def get_name_scope(self) -> str:
        """The current scope, without its slash."""
        return self.builder.prefix.rstrip("/")

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """The name that an op or scope would get here."""
        used = self.builder.names_in_use
        before = dict(used) if not mark_as_used else used
        found = self.builder.unique_name(name)
        self.builder.names_in_use = before
        return found

    _name_stack = property(get_name_scope)

    @contextmanager
    def device(self, device_name_or_function: object) -> Iterator[None]:
        """`tf.device` on this graph.  Raises ValueError for an invalid device."""
        spec, core = self._device_scope(device_name_or_function), self.builder.graph
        first, location = len(core), self.entering_line()
        try:
            with self.builder.device(spec):
                yield
        finally:
            if location and (spec is None or isinstance(spec, ParsedDevice)):  # a function has no text
                written = None if spec is None else format_spec(spec)
                text = device_name_or_function if isinstance(device_name_or_function, str) else written
                core.device_scopes.append(DeviceScope(first, len(core), text, location))

    def _device_scope(self, device: Any) -> Any:
        if device is None:
            return None
        if hasattr(device, "spec") and isinstance(device.spec, ParsedDevice):
            return device.spec
        if isinstance(device, device_spec.DeviceSpec):
            return device.parsed
        if callable(device):
            return _DeviceFunction(self, device)
        return device_spec.parse(device)

    def _apply_device_functions(self, op: Any) -> None:
        """Give an operation, or a similar object, the device of the open device scopes. Libraries call this method."""
        # Keras' objects of this kind have no `_set_device_from_string` before version 2.3
        set_device = getattr(op, "_set_device_from_string", op._set_device)
        scope: Any
        for scope in self.builder.open_devices:
            is_merged = isinstance(scope, ParsedDevice)
            device = format_spec(enclose(parse_python_spec(op.device or ""), scope)) if is_merged else scope.of_operation(op)
            if device:
                set_device(device)

    def _colocation_op(self, target: Any) -> Operation:
        if isinstance(target, Operation):
            return target
        handle = getattr(target, "handle", None)
        found = handle.op if isinstance(handle, Tensor) else getattr(target, "op", None)
        return found if isinstance(found, Operation) else type(self).to_tensor(target).op

    @contextmanager
    def colocate_with(self, op: object, ignore_existing: bool = False) -> Iterator[None]:
        """`tf.colocate_with` on this graph."""
        if op is None and not ignore_existing:
            raise ValueError("Trying to reset colocation (op is None) but ignore_existing is not True")
        nodes = () if op is None else (self._colocation_op(op).node,)
        with self.builder.colocate_with(nodes, ignore_existing):
            yield

    _colocate_with_for_gradient = colocate_with

    @contextmanager
    def control_dependencies(self, control_inputs: Any) -> Iterator[None]:
        """`tf.control_dependencies` on this graph; None also leaves the control flow context."""
        if control_inputs is None:
            saved = self._control_flow_context
            self._control_flow_context = None
            try:
                with self.builder.control_dependencies(None):
                    yield
            finally:
                self._control_flow_context = saved
            return
        waited = {i for controller in self.builder._controllers for i in controller.inputs}
        ids = [i for i in dict.fromkeys(self._control_op(item).node.id for item in control_inputs) if i not in waited]
        self.builder.mark_awaited(ids)
        with self.builder.control_dependencies(ids):
            yield

    def current_control_inputs(self) -> list[Operation]:
        """The operations for which new operations wait because of open control scopes."""
        return [self.operation(i) for i in dict.fromkeys(i for one in self.builder._controllers for i in one.inputs)]

    def _control_op(self, item: Any) -> Operation:
        """Operation of a control input; of a resource variable's handle, or of the values of IndexedSlices."""
        if hasattr(item, "_handle") and hasattr(item, "op"):
            item = item.op
        element = self.as_graph_element(item.op if hasattr(item, "dense_shape") else item)
        return element.op if isinstance(element, Tensor) else element

    @contextmanager
    def init_scope(self) -> Iterator[None]:
        """`tf.init_scope`: ops inside have no control dependencies, and are outside of conditionals and loops.

        TensorFlow goes back to the device scopes that existed when the graph became the default. So device scopes around a
        `colocate_with` apply again, unless the graph is the thread's initial default graph, without `as_default`.
        """
        depth = self._default_depths[-1] if self._default_depths else self.builder.colocation_depth
        with self.as_default(), self.control_dependencies(None), self.builder.devices_at(depth):
            yield

    @contextmanager
    def _with_attrs(self, *added: tuple[str, Callable[[Node], Any]]) -> Iterator[None]:
        """Context whose ops get attrs; a function of the node returns the value, or None for no attr."""
        saved = self._extra_attrs
        self._extra_attrs = (*added, *saved)
        try:
            yield
        finally:
            self._extra_attrs = saved

    def _attr_scope(self, attrs: dict[str, Any]) -> AbstractContextManager[None]:
        return self._with_attrs(*[(name, _always(value)) for name, value in attrs.items()])

    @contextmanager
    def gradient_override_map(self, op_type_map: dict[str, str]) -> Iterator[None]:
        """Context in which ops of these types use the gradients registered under the given names."""
        if not isinstance(op_type_map, dict):
            raise TypeError("op_type_map must be a dictionary mapping strings to strings")
        with self._with_attrs(("_gradient_op_type", lambda node: op_type_map.get(node.op))):
            yield

    def _kernel_label_map(self, op_to_kernel_label_map: dict[str, str]) -> AbstractContextManager[None]:
        return self._with_attrs(("_kernel", lambda node: op_to_kernel_label_map.get(node.op)))

    @property
    def thread_scopes(self) -> tuple[Any, ...]:
        """The open scopes, for threads that build the graph one at a time, each with its own scopes."""
        variables = getattr(self, "variable_scopes", None)
        opened = variables and variables.state
        return (
            self.builder.open_scopes,
            self._extra_attrs,
            self._container,
            self._default_depths,
            self.variable_creators,
            opened,
        )

    @thread_scopes.setter
    def thread_scopes(self, scopes: tuple[Any, ...]) -> None:
        own, self._extra_attrs, self._container, self._default_depths, self.variable_creators, opened = scopes
        self.builder.open_scopes = own
        variables = getattr(self, "variable_scopes", None)
        if variables is not None:
            variables.state = opened

    def scopes_of_new_thread(self) -> tuple[Any, ...]:
        """Scopes with which a new thread begins: devices, control dependencies and variable creators are this thread's."""
        (_, devices, controllers, _), attrs, container, _, creators, _ = self.thread_scopes
        return ("", devices, controllers, None), attrs, container, [], [*creators], None

    @contextmanager
    def container(self, container_name: str) -> Iterator[str]:
        """Context whose stateful ops have this container."""

        def find(node: Node) -> str | None:
            definition = node.signature.definition
            has_container = definition is not None and definition.is_stateful and "container" in definition.attrs
            return container_name if has_container else None

        saved, self._container = self._container, container_name
        try:
            with self._with_attrs(("container", find)):
                yield container_name
        finally:
            self._container = saved


def _always(value: TensorLike) -> Callable[[Node], Any]:
    return lambda node: value


def python_error(error: GraphBuildError) -> Exception:
    """The exception that TensorFlow's Python raises for a builder's error."""
    return _PYTHON_ERRORS.get(error.type_name, ValueError)(error.message)


def as_text(value: TensorLike) -> str:
    """Decode a string or bytes.  Raises TypeError for other values."""
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise TypeError(f"Expected binary or unicode string, got {value!r}")
    return value


class _DeviceFunction:
    """A script's device function for the nodes of one graph."""

    def __init__(self, graph: Scopes, device: Callable[[Operation], Any]) -> None:
        self._graph = graph
        self._device = device

    def __call__(self, node: Node) -> str:
        return self.of_operation(self._graph.operation(node))

    def of_operation(self, op: Operation) -> str:
        """The device for an operation, or for a similar object."""
        found = self._device(op)
        return found.to_string() if isinstance(found, device_spec.DeviceSpec) else as_text(found)

    def of(self, graph: Scopes) -> _DeviceFunction:
        """The same function for another graph's nodes."""
        return _DeviceFunction(graph, self._device)
