"""Real networks to plan, each read once."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from placesim.formats.device_annotations import assign_devices
from placesim.formats.graph_file.writing.raw_writer import graph_file_document
from placesim.formats.tensorflow.reader import read_tensorflow_file

DATA = Path(__file__).parents[2] / "data"
FIRST_LAYERS = 6


@cache
def recorded_graph(name: str) -> Any:
    """A graph that was recorded with the annotations of its author."""
    with gzip.open(DATA / "placement-models.jsonl.gz", "rt") as lines:
        return next(case["graph"] for case in map(json.loads, lines) if case["id"] == name)


def recorded(name: str, *fetches: Sequence[str]) -> Any:
    """A recorded graph, and the steps that it is to run."""
    graph = recorded_graph(name)
    return {key: graph[key] for key in ("raw", "nodes", "versions")} | {"run": [{"fetch": list(fetch)} for fetch in fetches]}


@cache
def inception() -> Any:
    """Inception-v3, its first half on one GPU and its second on another, as the recordings of the other networks are."""
    file = read_tensorflow_file("inception-v3.pb", data=gzip.decompress((DATA / "inception-v3.pb.gz").read_bytes())).file
    nodes = file.graph.nodes
    halves = {node.name: f"/device:GPU:{number * 2 // len(nodes)}" for number, node in enumerate(nodes)}
    return graph_file_document(assign_devices(file, halves)) | {"run": [{"fetch": ["Identity:0"]}]}


def first_layers(network: Any) -> Any:
    """A network up to a sixth of its activations, half of its nodes on one GPU and half on another."""
    activations = [node["name"] for node in network["nodes"] if node["op"] == "Relu"]
    last = activations[len(activations) // FIRST_LAYERS]
    needed = {last}
    kept: list[Any] = []
    for node in reversed(network["nodes"]):
        if node["name"] in needed:
            needed |= {source.removeprefix("^").partition(":")[0] for source in node.get("inputs", ())}
            kept.insert(0, node)
    halves = [node | {"device": f"/device:GPU:{number * 2 // len(kept)}"} for number, node in enumerate(kept)]
    return network | {"nodes": halves, "run": [{"fetch": [last]}]}
