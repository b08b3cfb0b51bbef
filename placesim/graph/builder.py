"""Builder of graphs like TensorFlow's Python: scopes, unique names, literals, inferred attrs, colocation (section 2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from placesim.core.dtypes import DataType
from placesim.core.errors import GraphBuildError
from placesim.graph.argument_binding import OpBinding, Operand, VariableNodes, bind
from placesim.graph.constants import make_constant
from placesim.graph.functions import result_types
from placesim.graph.graph import Graph, LibraryFunction, Node, Signature, TensorRef
from placesim.machine.device_names import ANY, DeviceName, enclose, format_spec, parse_python_spec
from placesim.ops.attributes import Attrs, TensorValue
from placesim.ops.definitions import OpDef
from placesim.ops.registry import Registry, describe_other_releases

_OP_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
is_op_name = _OP_NAME.fullmatch
"""Whether a name at the root is a valid name of an op (2.3.4)."""
_SCOPE_NAME = re.compile(r"[A-Za-z0-9_.\\/>-]*")
_OP_PATTERN = r"^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$"
_SCOPE_PATTERN = r"^[A-Za-z0-9_.\\/>-]*$"

DeviceFunction = Callable[[Node], str]
"""Function that receives a new node, with the device from inner scopes, and returns the node's device (2.1.4)."""

Input = TensorRef | Node | VariableNodes | Any
"""An input of `ScopedGraphBuilder.add`: a tensor, a node (its first output), a variable (its value), or a literal."""


AWAITED = "_has_manual_control_dependencies"
"""Name of the attr that marks a node for which other nodes wait because of a control scope."""


class _NamesOver(dict[str, int]):
    """Names in use: new names are stored here, and found together with the names of another mapping, which stays unchanged."""

    def __init__(self, names: dict[str, int]) -> None:
        self._names = names

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._names

    def get(self, name: str, default: Any = None) -> Any:
        found = super().get(name)
        return self._names.get(name, default) if found is None else found

    def setdefault(self, name: str, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self.get(name)


class _Controller(NamedTuple):
    """A control-dependency scope: its control inputs, and the ops made inside it."""

    inputs: tuple[int, ...]
    members: set[int]


class ScopedGraphBuilder:
    """A builder that adds nodes to `graph` in scopes.

    Every method that adds a node raises GraphBuildError if TensorFlow's Python would refuse, and then adds nothing. `on_node`
    is called with each new node before the device functions; it may remove the node and raise. With `leaves_marks`, nodes get
    attrs that only TensorFlow's Python reads: the mark of awaited nodes (`mark_awaited`), and the `debug_name` of a variable's
    handle.
    """

    def __init__(self, registry: Registry, functions: Mapping[str, LibraryFunction] | None = None, file: str = "") -> None:
        self.graph = Graph(registry, functions, file)
        self.registry = registry
        self.variables: dict[int, VariableNodes] = {}
        self.prefix = ""
        self.names_in_use: dict[str, int] = {}
        """Lower-case full names of nodes and scopes, with the number of requests for each, except those of `use_names_from`."""
        self._is_in_use = bytearray()
        """By node id, whether `use_names_from` has marked the node's name as used: a byte in place of an entry of a dict."""
        self._device = ANY
        self._device_text = ""
        self._device_texts: dict[str | None, str] = {}
        self._device_functions: tuple[DeviceName | DeviceFunction, ...] = ()
        self._hidden_devices: tuple[tuple[Any, ...], ...] = ()
        self._colocation: tuple[int, ...] = ()
        self._controllers: tuple[_Controller, ...] = ()
        self.control_orders: dict[int, tuple[int, ...]] = {}
        """Control inputs of nodes in the order in which they were added, if that is not the order of names."""
        self._class_attr: tuple[str, ...] | None = None
        self._location = 0
        self.on_node: Callable[[Node], None] | None = None
        self.leaves_marks = False
        self.is_of_function = False
        """Whether the graph is the body of a function in a graph file."""
        self.last_number = -1
        """Last number that was used in a name of a function of the graph file."""
        self.view: Any = None
        """TensorFlow's Python view of the graph, made on first use."""
        self._bindings: dict[tuple[Any, ...], tuple[Attrs, Signature, Attrs]] = {}
        self._interned: dict[tuple[Any, ...], Attrs] = {}
        self._empty_attrs: Attrs = {}

    # --- scopes -----------------------------------------------------------------------------------------------------

    @contextmanager
    def device(self, device: str | DeviceName | DeviceFunction | None) -> Iterator[None]:
        """Open a `tf.device` scope: its fields override those of the enclosing device; None clears the device (2.1).

        A device function is called for every node. It returns a device as a text, which replaces the device of inner scopes
        (2.1.4).
        """
        spec = parse_python_spec(device) if isinstance(device, str) else device
        saved = self._device_scopes
        if spec is None:
            # None ends the walk: outer scopes no longer count (2.1.2)
            self._set_device(ANY)
        elif not isinstance(spec, DeviceName):
            # from here on scopes must be walked for each node, since the function sees the inner device (2.1.2)
            outer = self._device_functions or ((self._device,) if self._device != ANY else ())
            self._set_device(ANY, (spec, *outer))
        elif self._device_functions:
            # a scope without fields is skipped (2.1.2)
            self._set_device(ANY, self._device_functions if spec == ANY else (spec, *self._device_functions))
        else:
            self._set_device(enclose(spec, self._device))
        try:
            yield
        finally:
            self._device_scopes = saved

    def _set_device(self, spec: DeviceName, functions: tuple[DeviceName | DeviceFunction, ...] = ()) -> None:
        self._device_scopes = (spec, format_spec(spec), {}, functions)

    @property
    def _device_scopes(self) -> tuple[Any, ...]:
        return self._device, self._device_text, self._device_texts, self._device_functions

    @_device_scopes.setter
    def _device_scopes(self, scopes: tuple[Any, ...]) -> None:
        self._device, self._device_text, self._device_texts, self._device_functions = scopes

    @contextmanager
    def colocate_with(self, nodes: Sequence[Node | int], ignore_existing: bool = False) -> Iterator[None]:
        """Open a `tf.colocate_with` scope for each node, the last one innermost. The device stack starts empty (2.2.1)."""
        saved = (self._device_scopes, self._hidden_devices, self._colocation)
        ids = tuple(node if isinstance(node, int) else node.id for node in nodes)
        self._colocation = ids[::-1] + (() if ignore_existing else self._colocation)
        if ids or ignore_existing:
            self._hidden_devices = (*self._hidden_devices, self._device_scopes)
            # a colocation scope starts with an empty device stack (2.2.1)
            self._set_device(ANY)
        try:
            yield
        finally:
            self._device_scopes, self._hidden_devices, self._colocation = saved

    @property
    def open_devices(self) -> tuple[DeviceName | DeviceFunction, ...]:
        """Return the devices and device functions of the open scopes, innermost first; nested devices are merged."""
        return self._device_functions or (self._device,)

    @property
    def colocation_depth(self) -> int:
        """Return the number of colocation scopes that hide the devices of enclosing scopes."""
        return len(self._hidden_devices)

    @contextmanager
    def devices_at(self, depth: int) -> Iterator[None]:
        """Restore the device scopes that are hidden by colocation scopes opened since `colocation_depth` was `depth`.

        Does nothing if a device scope is open inside these colocation scopes.
        """
        saved = self._device_scopes
        # a device scope inside the colocation scope still counts
        if depth < len(self._hidden_devices) and self._device == ANY and not self._device_functions:
            self._device_scopes = self._hidden_devices[depth]
        try:
            yield
        finally:
            self._device_scopes = saved

    @contextmanager
    def control_dependencies(self, nodes: Sequence[Node | int] | None) -> Iterator[None]:
        """Open a `tf.control_dependencies` scope; None clears the enclosing scopes."""
        saved = self._controllers
        if nodes is None:
            self._controllers = ()
        else:
            ids = tuple(dict.fromkeys(node if isinstance(node, int) else node.id for node in nodes))
            if self.leaves_marks:
                self.mark_awaited(ids)
            self._controllers = (*saved, _Controller(ids, set()))
        try:
            yield
        finally:
            self._controllers = saved

    def mark_awaited(self, nodes: Sequence[int]) -> None:
        """Mark nodes that other nodes wait for because of a control scope, as TensorFlow's Python does."""
        for node in map(self.graph.nodes.__getitem__, nodes):
            if AWAITED not in node.attrs:
                node.attrs = self.intern(node.op, {**node.attrs, AWAITED: True})

    @contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Open a `tf.name_scope` with a unique name, and yield the scope with its trailing slash (2.3.3).

        A name that ends in `/` enters exactly that scope, and an empty name enters the root.
        """
        prefix = self.open_scope(name)
        with self._at_prefix(prefix):
            yield prefix

    def open_scope(self, name: str | None) -> str:
        """Return the prefix that `name_scope` would give."""
        # the empty name and None lead to the root (2.3.3)
        if not name:
            return ""
        self.check_scope_name(name)
        # a trailing slash re-enters exactly this scope (2.3.3)
        return name if name[-1] == "/" else self.unique_name(name) + "/"

    @contextmanager
    def class_attr(self, name: str) -> Iterator[None]:
        """Label the nodes inside as colocated with `name`, which need not exist yet."""
        saved = self._class_attr
        self._class_attr = ("loc:@" + name,)
        try:
            yield
        finally:
            self._class_attr = saved

    @property
    def open_scopes(self) -> tuple[Any, ...]:
        """The open scopes, for a caller that builds in several threads, one at a time, each with its own scopes."""
        devices = (self._device_scopes, self._hidden_devices, self._colocation)
        return self.prefix, devices, self._controllers, self._class_attr

    @open_scopes.setter
    def open_scopes(self, scopes: tuple[Any, ...]) -> None:
        self.prefix, devices, self._controllers, self._class_attr = scopes
        self._device_scopes, self._hidden_devices, self._colocation = devices

    @property
    def is_bare(self) -> bool:
        """Whether no scope is open and no `on_node` is set, so that nothing changes a new node."""
        scopes = (self.prefix, self._device_text, self._device_functions, self._colocation, self._controllers, self._class_attr)
        return not any(scopes) and self.on_node is None

    # --- names ------------------------------------------------------------------------------------------------------

    def use_names_from(self, first: int) -> None:
        """Mark the names of the nodes from id `first` on that are in lower case as used, without storing them again."""
        used = self._is_in_use
        used.extend(bytes(first - len(used)) + b"\1" * (len(self.graph) - first))

    def _requests(self, key: str) -> int:
        """Return the number of requests for a lower-case name."""
        count = self.names_in_use.get(key, 0)
        if count or not self._is_in_use:
            return count
        node_id = self.graph.ids.get(key, len(self.graph))
        return self._is_in_use[node_id] if node_id < len(self._is_in_use) else 0

    def unique_name(self, name: str) -> str:
        """Return the full name that a node or scope of this name gets, and mark it as used (2.3.2)."""
        full = self.prefix + name
        key = _lowered(full)
        in_use = self.names_in_use
        count = self._requests(key)
        in_use[key] = count + 1
        if not count:
            return full
        # requests are counted by lower-case name, so c, c, C give c, c_1, C_2 (2.3.2)
        base = key
        while self._requests(key):
            key = f"{base}_{count}"
            count += 1
        # the numbered name counts as requested as well, so that c_1 asked for later becomes c_1_1 (2.3.2)
        in_use[key] = 1
        return f"{full}_{count - 1}"

    def check_scope_name(self, name: str) -> None:
        """Raise GraphBuildError with TensorFlow's message if a name is invalid for a scope, and therefore for an op (2.3.4)."""
        # inside a scope, a name may begin with an underscore (2.3.4)
        if self.prefix:
            if not _SCOPE_NAME.fullmatch(name):
                message = (
                    f"'{name}' is not a valid scope name. A scope name has to match the following pattern: {_SCOPE_PATTERN}"
                )
                raise GraphBuildError(message)
        elif not _OP_NAME.fullmatch(name):
            message = f"'{name}' is not a valid root scope name. A root scope name has to match the following pattern: "
            raise GraphBuildError(message + _OP_PATTERN)

    def check_node_name(self, op: str, name: str) -> None:
        """Raise GraphBuildError if a node's name is not valid.

        For a `Const`, the message differs, because `tf.constant` opens no name scope.
        """
        if op != "Const":
            self.check_scope_name(name)
        # TensorFlow checks the full name here, not its last part
        elif not _OP_NAME.fullmatch(self.prefix + name):
            accepted = f"Accepted names conform to Regex /re.compile({_OP_PATTERN!r})/"
            raise GraphBuildError(f"`{self.prefix + name}` is not a valid node name. {accepted}")

    def claim_name(self, op: str, name: str | None) -> str:
        """Return the unique full name of a new node: from `name`, or else the op's name.

        A name that ends in `/` is taken exactly.
        """
        if name is not None and not is_op_name(name):
            self.check_node_name(op, name)
        # an exact name is neither made unique nor marked as used, so that a later node may ask for it in vain (2.3.1)
        found = name[:-1] if name and name[-1] == "/" else self.unique_name(op if name is None else name)
        if found in self.graph.ids:
            raise GraphBuildError(f"Duplicate node name in graph: '{found}'")
        return found

    def note_name(self, full_name: str) -> None:
        """Mark a full name as used."""
        self.names_in_use.setdefault(_lowered(full_name), 1)

    # --- nodes ------------------------------------------------------------------------------------------------------

    def add(
        self,
        op: str,
        inputs: Sequence[Input] = (),
        *,
        name: str | None = None,
        attrs: Attrs | None = None,
        control_inputs: Sequence[Node | int] = (),
        location: int = 0,
    ) -> Node:
        """Add a node of a registered op, or a call of a library function.

        A literal input becomes a `Const` before it, named `NODE/ARG`. `attrs` holds AttrValues (see ops/attributes.py); type
        and count attrs that are missing are inferred.
        """
        full = self.claim_name(op, name)
        controls = tuple(node if isinstance(node, int) else node.id for node in control_inputs)
        return self.add_named(op, full, inputs, attrs or self._empty_attrs, controls, location)

    def constant(
        self,
        value: Any,
        dtype: DataType | None = None,
        shape: Sequence[int] | None = None,
        *,
        name: str | None = None,
        location: int = 0,
    ) -> Node:
        """Add a `Const`, as `tf.constant` does."""
        tensor = value if isinstance(value, TensorValue) else make_constant(value, dtype, shape)
        return self.add_constant(self.claim_name("Const", name), tensor, self._empty_attrs, (), location or self._location)

    def add_constant(
        self,
        full_name: str,
        tensor: TensorValue,
        attrs: Attrs,
        controls: tuple[int, ...],
        location: int,
        device: str | None = "",
    ) -> Node:
        """Add a `Const` with a name that `claim_name` returned; `device` is the node's own request."""
        dtype = tensor[0]
        key: tuple[Any, ...] = ("Const", dtype)
        found = self._bindings.get(key)
        if found is None:
            shared = {"dtype": dtype}
            found = self._bindings[key] = (shared, self._signature("Const", shared), attrs)
        own = {"dtype": dtype, "value": tensor, **attrs} if attrs else {"dtype": dtype, "value": tensor}
        return self._append(full_name, own, found[1], (), (), controls, location, device)

    def add_named(
        self, op: str, full_name: str, inputs: Sequence[Input], attrs: Attrs, controls: tuple[int, ...], location: int
    ) -> Node:
        """Add a node like `add`, with a name that `claim_name` returned."""
        self._location = location
        operands = list(map(self._operand, inputs))
        if all(operand.__class__ is Operand for operand in operands):
            known = tuple(operand[0] for operand in operands), tuple(operand[1] for operand in operands)
            return self.add_resolved(op, full_name, *known, self.intern(op, attrs), controls, location)
        # a literal becomes a Const first, so its node precedes this one (2.3.5)
        binding = self._bind(op, full_name, operands, attrs)
        nodes = tuple(operand.node for operand in binding.operands)
        slots = tuple(operand.slot for operand in binding.operands)
        given = self.intern(op, binding.attrs)
        return self._append(full_name, given, self._signature(op, given), nodes, slots, controls, location)

    def add_resolved(
        self,
        op: str,
        full_name: str,
        nodes: tuple[int, ...],
        slots: tuple[int, ...],
        attrs: Attrs,
        controls: tuple[int, ...],
        location: int,
        device: str | None = "",
    ) -> Node:
        """Add a node like `add_named`, with inputs that are tensors of the graph.

        Inferred attrs are cached for similar nodes.
        """
        all_nodes = self.graph.nodes
        key = (op, id(attrs), slots, *[all_nodes[i].signature for i in nodes])
        found = self._bindings.get(key)
        if found is None:
            binding = self._bind(op, full_name, list(map(self.operand, nodes, slots)), attrs)
            given = self.intern(op, binding.attrs)
            found = self._bindings[key] = (given, self._signature(op, given), attrs)
        return self._append(full_name, found[0], found[1], nodes, slots, controls, location, device)

    def device_text(self, device: str | None) -> str:
        """Return the requested device of a node inside the current scopes. Raises GraphBuildError."""
        found = self._device_texts.get(device)
        if found is None:
            spec = ANY if device is None else enclose(parse_python_spec(device), self._device)
            found = self._device_texts[device] = format_spec(spec)
        return found

    def intern(self, op: str, attrs: Attrs) -> Attrs:
        """Return the shared mapping with this content; mappings with a tensor are not shared."""
        if not attrs:
            return self._empty_attrs
        try:
            key = (op, *[(name, _kind(value), value) for name, value in attrs.items()])
            return self._interned.setdefault(key, attrs)
        except TypeError:
            return attrs

    def _signature(self, op: str, attrs: Attrs) -> Signature:
        return self.graph.signatures.signature(op, attrs)

    def _operand(self, item: Input) -> Any:
        if isinstance(item, Node):
            return self.operand(item.id, 0)
        return self.operand(*item) if isinstance(item, TensorRef) else item

    def operand(self, node_id: int, slot: int) -> Operand:
        """Return a tensor of the graph with its type. Raises GraphBuildError if the node has no such output."""
        node = self.graph.nodes[node_id]
        dtypes = node.signature.output_dtypes
        if not 0 <= slot < len(dtypes):
            message = f"no such output: got '{node.name}:{slot}', expected one of the {len(dtypes)} outputs of '{node.name}'"
            raise GraphBuildError(message)
        return Operand(node_id, slot, dtypes[slot], node.signature.output_is_ref[slot])

    def _bind(self, op: str, full_name: str, operands: Sequence[Any], attrs: Attrs) -> OpBinding:
        definition = self._definition(op)
        added = len(self.graph)
        # `Tout` does not follow from the inputs, but from the function's results
        if "Tout" not in attrs and (types := result_types(op, attrs, self.graph.functions)) is not None:
            attrs = {**attrs, "Tout": types}
        try:
            # constants of literals are named after the op and the argument (2.3.5)
            with self._at_prefix(full_name + "/"):
                return bind(definition, attrs, operands, self._convert)
        except GraphBuildError:
            self.forget_from(added)
            raise

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Remove the nodes and names added inside if the block raises."""
        added, names = len(self.graph), self.names_in_use
        self.names_in_use = layer = _NamesOver(names)
        try:
            yield
        except BaseException:
            self.forget_from(added)
            raise
        else:
            names.update(layer)
        finally:
            self.names_in_use = names

    def forget_from(self, count: int) -> None:
        """Remove the nodes after the first `count`. Later nodes get their ids."""
        for node in self.graph.nodes[count:]:
            del self.graph.ids[node.name]
            self.variables.pop(node.id, None)
            self.control_orders.pop(node.id, None)
        del self.graph.nodes[count:]

    def _definition(self, op: str) -> OpDef | LibraryFunction:
        definition = self.registry.op(op) or self.graph.functions.get(op)
        if definition is None:
            elsewhere = describe_other_releases(op, self.registry)
            raise GraphBuildError(f"unknown op: got '{op}', expected an op of TensorFlow {self.registry.release}{elsewhere}")
        return definition

    @contextmanager
    def _at_prefix(self, prefix: str) -> Iterator[None]:
        saved = self.prefix
        self.prefix = prefix
        try:
            yield
        finally:
            self.prefix = saved

    def _convert(self, item: Any, arg_name: str, dtype: DataType | None, preferred: DataType | None) -> Operand:
        """Convert an input that is not a tensor: a variable to its value, a literal to a `Const` named after the argument."""
        if isinstance(item, VariableNodes):
            return self.operand(self._read(item), 0)
        try:
            tensor = make_constant(item, dtype or preferred)
        except GraphBuildError:
            if dtype is not None or preferred is None:
                raise
            tensor = make_constant(item)
        return self.operand(self.constant(tensor, name=arg_name).id, 0)

    def _read(self, variable: VariableNodes) -> int:
        # a reference variable has one read, which all conversions share (12.1)
        if variable.kind == "ref":
            return variable.value
        # a read made by a conversion requests no device, even inside a device scope (12.2)
        with self.colocate_with((), ignore_existing=True):
            handle = TensorRef(variable.node, 0)
            return self.add("ReadVariableOp", [handle], attrs={"dtype": variable.dtype}, location=self._location).id

    # --- what the scopes do to a node -------------------------------------------------------------------------------

    def _append(
        self,
        name: str,
        attrs: Attrs,
        signature: Signature,
        nodes: tuple[int, ...],
        slots: tuple[int, ...],
        controls: tuple[int, ...],
        location: int,
        device: str | None = "",
    ) -> Node:
        graph = self.graph
        # the innermost request is the node's own, which scopes only complete (2.1.8)
        device = self._device_text if device == "" else self.device_text(device)
        if self._colocation or self._class_attr or True in signature.input_is_ref:
            device, attrs = self._colocate(signature, attrs, nodes, device)
        if self._controllers:
            controls = (*self.scope_controls(nodes), *controls)
        all_nodes = graph.nodes
        node_id = len(all_nodes)
        if len(controls) > 1:
            controls = self.sort_controls(node_id, controls)
        node = Node(node_id, name, signature, attrs, nodes, slots, controls, device, location)
        all_nodes.append(node)
        graph.ids[name] = node_id
        if self.on_node is not None:
            self.on_node(node)
        for controller in self._controllers:
            controller.members.add(node_id)
        # an op with reference inputs is in a colocation scope, whose device stack is empty (2.2.9)
        if self._device_functions and True not in signature.input_is_ref:
            self._ask_device_functions(node)
        return node

    def _ask_device_functions(self, node: Node) -> None:
        """Set the device that the functions of the enclosing scopes return; the device of a colocated node has priority."""
        # a function sees only the device from scopes inside its own (2.1.2)
        colocated, node.device = node.device, ""
        for scope in self._device_functions:
            if isinstance(scope, DeviceName):
                node.device = format_spec(enclose(parse_python_spec(node.device), scope))
            else:
                # the returned text replaces the device; it is not merged with it (2.1.2)
                node.device = scope(node)
        if self._colocation:
            node.device = colocated or node.device

    def _colocate(self, signature: Signature, attrs: Attrs, nodes: tuple[int, ...], device: str) -> tuple[str, Attrs]:
        """Return the requested device and the attrs with labels that the colocation scopes give (2.2.2, 2.2.9).

        Reference inputs act as the innermost scopes.
        """
        ref_inputs = [node for node, is_ref in zip(nodes, signature.input_is_ref, strict=True) if is_ref]
        stack = [*reversed(ref_inputs), *self._colocation]
        # a scope for a reference input hides the enclosing devices, like any colocation scope (2.2.1, 2.2.9)
        device = "" if ref_inputs else device
        # initial values carry the label of a variable that does not exist yet (12.1.2)
        labels = self._class_attr if "_class" not in attrs else None
        if stack:
            groups = [self.graph.nodes[i] for i in stack]
            # the innermost op with a device wins, not the innermost op (2.2.2)
            device = next((node.device for node in groups if node.device), device)
            labels = tuple(sorted({label for node in groups for label in colocation_groups(node)}))
        if labels:
            attrs = self.intern(signature.op, {**attrs, "_class": labels})
        return device, attrs

    def sort_controls(self, node_id: int, controls: Iterable[int]) -> tuple[int, ...]:
        """Return a node's control inputs as in a GraphDef: by name, each once. `control_orders` has the given order."""
        nodes = self.graph.nodes
        given = tuple(dict.fromkeys(controls))
        found = tuple(sorted(given, key=lambda i: nodes[i].name))
        if found != given:
            self.control_orders[node_id] = given
        return found

    def scope_controls(self, nodes: tuple[int, ...]) -> tuple[int, ...]:
        """Return the control inputs that the open scopes give a new node whose inputs are `nodes`.

        Inputs that one of `nodes` already waits for are left out.
        """
        found: list[int] = []
        for controller in self._controllers:
            # an input from inside the scope implies the wait
            if controller.members.isdisjoint(nodes):
                found += [i for i in controller.inputs if i not in nodes]
        return tuple(found)

    def record_in_controllers(self, node_id: int) -> None:
        """Record that a node created elsewhere belongs to the open control scopes."""
        for controller in self._controllers:
            controller.members.add(node_id)


def _lowered(name: str) -> str:
    """Return a name in lower case: the same object if it already is, so that a million names are stored once."""
    lowered = name.lower()
    return name if lowered == name else lowered


def _kind(value: Any) -> Any:
    """Return the type of a value, to distinguish keys such as 1, True and 1.0."""
    return tuple(map(_kind, value)) if value.__class__ is tuple else value.__class__


def colocation_groups(node: Node) -> tuple[str, ...]:
    """Return a node's own `loc:@` labels, or the implicit label of its name (2.2.3)."""
    labels = node.attrs.get("_class", ())
    own = tuple(label for label in labels if str(label).startswith("loc:@")) if isinstance(labels, tuple) else ()
    # groups are flattened: a node names the labels of the node it follows, not its name (2.2.3)
    return own or ("loc:@" + node.name,)
