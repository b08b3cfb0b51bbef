"""A node of a graph that is being rewritten, with its inputs and readers."""

from __future__ import annotations

from placesim.core.dtypes import DataType
from placesim.graph.graph import Origin, Signature
from placesim.ops.attributes import Attrs


class EditableNode:
    """A node linked to its inputs and readers; `readers` are `(node, input position)`, with -1 for a control edge."""

    __slots__ = (
        "attrs",
        "control",
        "data",
        "device",
        "location",
        "name",
        "op",
        "origin",
        "readers",
        "removed",
        "runtime_id",
        "signature",
    )

    def __init__(self, name: str, op: str, attrs: Attrs, device: str, signature: Signature, runtime_id: int) -> None:
        self.name = name
        self.op = op
        self.attrs = attrs
        self.device = device
        self.signature = signature
        self.runtime_id = runtime_id
        self.data: list[tuple[EditableNode, int]] = []
        self.control: dict[EditableNode, None] = {}
        self.readers: list[tuple[EditableNode, int]] = []
        self.location = 0
        self.origin: Origin | None = None
        self.removed = False

    def output_dtype(self, slot: int) -> DataType:
        """Return the type of an output, which must exist."""
        return self.signature.output_dtypes[slot]
