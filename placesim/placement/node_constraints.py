"""Constraints of each single node before grouping (4.3, 5.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from placesim.core.errors import InternalError
from placesim.graph.graph import Graph, Node, NodeClasses, Signature
from placesim.graph.node_text import format_debug_node, node_error, node_tag
from placesim.machine.device_names import ANY, DeviceName, parse_runtime_name
from placesim.machine.inventory import DeviceSet
from placesim.ops.attributes import Attrs
from placesim.ops.definitions import OpDef, attr_problem, missing_attrs, missing_problem
from placesim.ops.kernel_lookup import COMPILE_ONLY, find_kernel, no_kernel_message
from placesim.placement.constraints import COMPOSITE, Constraints, SupportedTypes


class _Template(NamedTuple):
    """Facts that all nodes of one signature share."""

    types: SupportedTypes
    makes_resource: bool
    by_device: dict[str, Constraints]


class NodeConstraints:
    """Constraints of single nodes; nodes with the same signature and request share an object.

    `local` is the address space whose kernels are known.  `assigned` has the full device names of nodes that are already
    placed.
    """

    def __init__(
        self,
        graph: Graph,
        classes: NodeClasses,
        order: Sequence[int],
        devices: DeviceSet,
        local: DeviceName,
        assigned: Mapping[int, str],
    ) -> None:
        self.graph = graph
        self.classes = classes
        self.order = order
        self.devices = devices
        self.local = local
        self.assigned = assigned
        self._templates: dict[Signature, _Template] = {}

    @property
    def signatures(self) -> Iterable[Signature]:
        """Distinct signatures of the nodes."""
        return self._templates.keys()

    def fill(self, constraints: list[Constraints]) -> None:
        """Set every node's own constraints.

        Raises OpError for the first node, by runtime id, that has no kernel (4.4), an invalid request or an unknown assigned
        device (5.3).  The constraints of the nodes before it are then already set.
        """
        assigned, numbers = self.assigned, self.classes.numbers.tolist()
        found: list[Constraints | None] = [None] * len(self.classes.classes)
        for node_id in self.order:
            if assigned and node_id in assigned:
                constraints[node_id] = self._own(self.graph.peek(node_id))
                continue
            own = found[numbers[node_id]]
            if own is None:
                own = found[numbers[node_id]] = self._own(self.graph.peek(node_id))
            constraints[node_id] = own

    def _own(self, node: Node) -> Constraints:
        template = self._templates.get(node.signature)
        if template is None:
            template = _Template(self._kernel_types(node), node.signature.is_resource_generator, {})
            self._templates[node.signature] = template
        if node.id in self.assigned:
            return self._assigned(node)
        found = template.by_device.get(node.device)
        if found is None:
            found = template.by_device[node.device] = self._requested(node, template)
        return found

    def types(self, node: Node) -> SupportedTypes:
        """Return the device types that can run a node on its own, by kernel priority (4.3)."""
        template = self._templates.get(node.signature)
        return (self._kernel_types(node) if template is None else template.types) or self._remote_types(node)

    def _kernel_types(self, node: Node) -> SupportedTypes:
        signature = node.signature
        # a function's name: every type is supported (4.3)
        if signature.definition is None:
            return tuple((device_type, 0) for device_type in self.devices.types)
        found = []
        for device_type in self.devices.types:
            kernel = find_kernel(self.graph.registry, signature.op, device_type, signature.attrs, node.name)
            if kernel is not None:
                found.append((device_type, kernel.priority))
        # stable, so types of equal priority keep the order of the device set (4.3)
        return tuple(sorted(found, key=lambda pair: -pair[1]))

    def _remote_types(self, node: Node) -> SupportedTypes:
        """Return the types for an op without a local kernel; it is accepted, since a remote task may have a kernel (4.3)."""
        spec = parse_runtime_name(node.device)
        # a remote task may have other kernels, but not other attr constraints for a kernel that is known here (4.3)
        if spec is None or not spec.in_different_address_space(self.local) or self._has_unfit_kernel(node):
            return ()
        return ((spec.type, 0),) if spec.type else tuple((device_type, 0) for device_type in self.devices.types)

    def _has_unfit_kernel(self, node: Node) -> bool:
        """Return whether a kernel was rejected only because of the node's attrs."""
        # a kernel with another label is never considered, so it does not count as unfit (4.2a)
        label = node.signature.attrs.get("_kernel") or ""
        types = self.devices.types
        return any(
            kernel.label == label
            and (kernel.device_type in types or (kernel.device_type == "DEFAULT" and not set(types) <= set(COMPILE_ONLY)))
            for kernel in self.graph.registry.kernels(node.op)
        )

    def _requested(self, node: Node, template: _Template) -> Constraints:
        # the requested device decides this, which is not part of the signature
        types = template.types or self._remote_types(node)
        # the kernel is checked before the device text, so this error precedes that of a malformed device (5.3c, 5.3d)
        if not types:
            self._raise_no_kernel(node)
        spec = parse_runtime_name(node.device) if node.device else ANY
        if spec is None:
            text = format_debug_node(self.graph, node, self._runtime_id(node))
            raise node_error(self.graph, node, f"Malformed device specification '{node.device}' in node: {text}")
        # the request of a node that makes a resource binds all that use the resource (5.3d)
        return Constraints(spec, ANY, spec if template.makes_resource else ANY, types)

    def _raise_no_kernel(self, node: Node) -> None:
        attrs = self.graph.full_attrs(node)
        definition = node.signature.definition
        # attr errors surface only here, where no kernel was found (4.3)
        is_checked = self.graph.registry.rules.checks_attrs_without_kernel
        message = _definition_problem(definition, attrs, node) if definition is not None and is_checked else None
        if message is None:
            message = no_kernel_message(self.graph.registry, node.op, attrs, node.name, self.devices.types)
        raise node_error(self.graph, node, message)

    def _runtime_id(self, node: Node) -> int:
        ids = self.graph.runtime_ids
        # ids 0 and 1 are source and sink (6.5.1)
        return ids[node.id] if ids else 2 + list(self.order).index(node.id)

    def _assigned(self, node: Node) -> Constraints:
        name = self.assigned[node.id]
        types = self.types(node)
        spec = parse_runtime_name(name)
        if spec is None:
            raise node_error(self.graph, node, f"Malformed assigned device '{name}'", InternalError)
        device = self.devices.by_name.get(str(spec))
        if device is None:
            raise node_error(
                self.graph,
                node,
                _unknown_assigned_device(name, self.devices, self.graph.registry.rules.share_cluster_devices),
                InternalError,
            )
        # a composite device supports what its members support
        if device.type != COMPOSITE and all(device.type != device_type for device_type, _ in types):
            message = f"Assigned device '{name}' does not have registered OpKernel support for {node.op}"
            raise node_error(self.graph, node, message, InternalError)
        return Constraints(spec, spec, ANY, types)


def _definition_problem(definition: OpDef, attrs: Attrs, node: Node) -> str | None:
    """Return the reason why a node is not a valid use of its op, in TensorFlow's words; None if it is valid."""
    problem = attr_problem(definition, attrs, node.name)
    missing = missing_attrs(definition, attrs)
    if problem or not missing:
        return problem
    return f"{missing_problem(definition, missing)}; NodeDef: {node_tag(node.name)}"


def _unknown_assigned_device(name: str, devices: DeviceSet, setting: str) -> str:
    """Return the message for an assigned device that the session lacks (5.3b). A space is missing, as in TensorFlow."""
    available = ", ".join(device.name for device in devices.devices)
    return (
        f"Assigned device '{name}' does not match any device. This error can happen when one attempts to run a "
        "tf.function with resource inputs residing on remote devices. This use case is currently not supported. Here are "
        f"the devices available on this machine: [{available}].If you are seeing this error when running using a "
        f"tf.Session, set {setting} to true in the tf.ConfigProto."
    )
