"""Removal of attrs that newer releases of TensorFlow added to ops, if they have their defaults.

A MetaGraphDef has the definitions of its ops. `import_graph_def` does the same with its argument `producer_op_list`.
"""

from __future__ import annotations

from placesim.core.protobuf_wire import WireError
from placesim.formats.tensorflow.attr_value import UnrepresentableValue, read_attr
from placesim.formats.tensorflow.messages import Message
from placesim.formats.tensorflow.node_def import keep_unread_attrs, write_entry
from placesim.graph.graph import NodeDef
from placesim.ops.attributes import Attrs
from placesim.ops.registry import Registry


class NewAttrs:
    """The attrs of the writing program's ops that the registry does not have, with the bytes of their defaults."""

    def __init__(self, registry: Registry, op_list: Message) -> None:
        self._defaults: dict[str, dict[str, bytes]] = {}
        self._changed: dict[tuple[str, int], tuple[Attrs, Attrs]] = {}
        for op in op_list.op:
            definition = registry.op(op.name)
            new = [] if definition is None else [attr for attr in op.attr if attr.name not in definition.attrs]
            defaults = {attr.name: entry for attr in new if (entry := _default(attr))}
            if defaults:
                self._defaults[op.name] = defaults

    def __bool__(self) -> bool:
        return bool(self._defaults)

    def without(self, node: NodeDef) -> NodeDef:
        """Return the node without new attrs that have their defaults. Raises the WireError of `write_entry`."""
        defaults = self._defaults.get(node.op)
        if defaults is None:
            return node
        found = self._changed.get((node.op, id(node.attrs)))
        if found is None:
            own = {name: write_entry(name, node.attrs[name]) for name in defaults if name in node.attrs}
            names = [name for name, entry in own.items() if entry == defaults[name]]
            found = (node.attrs, keep_unread_attrs(node.attrs, names) if names else node.attrs)
            self._changed[node.op, id(node.attrs)] = found
        return node._replace(attrs=found[1])


def _default(attr: Message) -> bytes:
    """Return an attr's default as the bytes of an entry of a node's attrs; empty if there is none."""
    if not attr.HasField("default_value"):
        return b""
    try:
        return write_entry(attr.name, read_attr(attr.default_value))
    except (UnrepresentableValue, WireError):
        return b""
