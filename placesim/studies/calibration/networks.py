"""Graphs of networks and of repeated nodes that a calibration runs; `network_script.py` makes them.

The networks mix kernels of all families, with cold caches and idle helper threads as in practice. They consist of common
layers of medium size; none is a network in actual use.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from placesim.formats.sources.loading import load
from placesim.graph.graph import Graph
from placesim.machine.options import SimulationOptions

LARGE = (
    "images 1 112 96 160 320",
    "images 2 112 96 160 320",
    "training 8 64 1000",
    "sequence 12 24 384 96 384",
    "branches 8 28 96 2",
)
SMALL = ("images 1 48 64 80", "training 2 32 200", "sequence 12 12 96 24 96", "branches 2 16 40 3")
"""Networks whose tensors the caches hold."""
QUICK = ("sequence 2 4 32 96 384",)
_SCRIPT = Path(__file__).with_name("network_script.py")


def build_graphs(descriptions: Sequence[str]) -> dict[str, Graph]:
    """Return a graph for each description, which is the name of a function of the script and its sizes."""
    loaded = load(_SCRIPT, options=SimulationOptions(arguments=tuple(descriptions)))
    if loaded.file is None:
        raise loaded.error or AssertionError
    whole = loaded.file.graph
    graphs = {f"graph{number}": Graph(whole.registry) for number in range(len(descriptions))}
    for node in whole.nodes:
        scope, _, name = node.name.partition("/")
        graph = graphs[scope]
        first = node.id - len(graph)
        inputs, controls = (tuple(i - first for i in ids) for ids in (node.input_nodes, node.control_inputs))
        # marks of TensorFlow's Python, and labels with the names of the script's nodes, mean nothing in a step
        attrs = {key: value for key, value in node.attrs.items() if not key.startswith("_")}
        graph.add(name, node.op, attrs, inputs, node.input_slots, controls)
    return dict(zip(descriptions, graphs.values(), strict=True))
