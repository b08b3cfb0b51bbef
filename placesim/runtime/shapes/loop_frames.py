"""While-loop frames of a graph, and the frame of each node."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from placesim.core.errors import InvalidArgumentError
from placesim.graph.graph import Graph, Node
from placesim.graph.node_text import node_tag
from placesim.ops.categories import ENTERS, EXITS


@dataclass(frozen=True, slots=True)
class LoopFrame:
    """Frame of a while loop: its name, the enclosing frame, and one of its `Enter` nodes."""

    name: str
    parent: LoopFrame | None = field(compare=False)
    enter: Node = field(compare=False)


def find_frames(graph: Graph) -> list[LoopFrame | None]:
    """Return the frame of every node; None outside all loops. `Enter` and `Exit` nodes are inside their frame.

    Raises TensorFlow's InvalidArgumentError if inputs come from different frames.
    """
    frames: list[LoopFrame | None] = [None] * len(graph)
    if not any(node.op in ENTERS for node in graph.nodes):
        return frames
    consumers = graph.consumers()
    visited = bytearray(len(graph))
    by_name: dict[str, LoopFrame] = {}
    ready = deque(node.id for node in graph.nodes if not node.input_nodes and not node.control_inputs)
    for node_id in ready:
        visited[node_id] = 1
    while ready:
        node = graph.nodes[ready.popleft()]
        frame = frames[node.id]
        outgoing = frame.parent if node.op in EXITS and frame is not None else frame
        for consumer_id in consumers[node.id]:
            consumer = graph.nodes[consumer_id]
            incoming = outgoing
            if consumer.op in ENTERS:
                name = consumer.attrs["frame_name"]
                incoming = by_name.setdefault(name, LoopFrame(name, outgoing, consumer))
            if visited[consumer_id]:
                _check_same(consumer, frames[consumer_id], incoming)
                continue
            frames[consumer_id] = incoming
            visited[consumer_id] = 1
            ready.append(consumer_id)
    return frames


def _check_same(node: Node, one: LoopFrame | None, two: LoopFrame | None) -> None:
    if one != two:
        raise InvalidArgumentError(
            f"{node_tag(node.name)} has inputs from different frames. "
            f"The input is in frame '{two.name if two else ''}' and another in frame '{one.name if one else ''}'.",
            node=node.name,
        )
