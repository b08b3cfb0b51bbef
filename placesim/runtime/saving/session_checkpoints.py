"""Checkpoint files of a session: variables under their names, as in TensorFlow, and all other state under placesim's keys.

The key `_PLACESIM_SESSION` has the state as JSON in a scalar string, like TensorFlow's `_CHECKPOINTABLE_OBJECT_GRAPH`. Tensors
that belong to no variable have the keys `_PLACESIM_SESSION/0` and so on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from placesim.core.checkpoints.checkpoint import Checkpoint
from placesim.core.checkpoints.writer import SavedTensor, write_bundle
from placesim.core.dtypes import STRING
from placesim.core.errors import DataLossError, InvalidArgumentError, Location, NotFoundError, OpError
from placesim.graph.graph import Graph, Node
from placesim.ops.attributes import Shape
from placesim.ops.kernels.device_resources import VARIABLE_OPS
from placesim.runtime.saving.device_state import DeviceRecord
from placesim.runtime.saving.saved_values import NamedTensor

SESSION_KEY = "_PLACESIM_SESSION"
_FORM = 1
"""Format version of the saved state."""


class SavedSession(NamedTuple):
    """Content of a checkpoint: the number of finished steps, the devices' records, and the names of the graph's variables."""

    step: int
    records: tuple[DeviceRecord, ...]
    variables: tuple[str, ...]


def write_session(prefix: str, saved: SavedSession) -> None:
    """Write the checkpoint's files. Raises OSError if that fails."""
    tensors: dict[str, NamedTensor] = {}
    devices = []
    # sorted by name, because the devices of a cluster answer in any order
    for record in sorted(saved.records, key=lambda record: record.device):
        keys = []
        for tensor in record.tensors:
            key = tensor.name
            # two devices may have variables of one name, and a variable's name may look like one of placesim's keys
            if not key or key in tensors or key.startswith(SESSION_KEY):
                key = f"{SESSION_KEY}/{len(tensors)}"
            tensors[key] = tensor
            keys.append(key)
        devices.append({"device": record.device, "state": record.state, "tensors": keys, "makers": record.makers})
    told = {"form": _FORM, "step": saved.step, "variables": saved.variables, "devices": devices}
    text = np.empty((), object)
    text[()] = json.dumps(told, separators=(",", ":")).encode()
    rows = [SavedTensor(key, tensor.dtype, tensor.value) for key, tensor in tensors.items()]
    write_bundle(prefix, [*rows, SavedTensor(SESSION_KEY, STRING, text)])


def read_session(prefix: str) -> SavedSession:
    """Read a checkpoint that `write_session` wrote. Raises OpError, with the file as location, for any other checkpoint."""
    try:
        return _read(Checkpoint(prefix))
    except OpError as error:
        error.location = error.location or Location(f"{prefix}.index", 0, 0)
        raise


def _read(checkpoint: Checkpoint) -> SavedSession:
    if SESSION_KEY not in checkpoint:
        error = NotFoundError(f"Key {SESSION_KEY} not found in checkpoint: the checkpoint was not written by placesim")
        error.help = _ways_out(checkpoint.prefix)
        raise error
    try:
        told = json.loads(bytes(checkpoint.read(SESSION_KEY).item()))
        if told["form"] != _FORM:
            raise DataLossError(f"the session's state has format {told['form']}, expected {_FORM}, the format of this release")
        records = tuple(
            DeviceRecord(row["device"], row["state"], tuple(_tensors(checkpoint, row["tensors"])), tuple(row["makers"]))
            for row in told["devices"]
        )
        return SavedSession(int(told["step"]), records, tuple(map(str, told["variables"])))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataLossError(f"the session's state cannot be read: {type(error).__name__}: {error}") from None


def _tensors(checkpoint: Checkpoint, keys: Sequence[str]) -> Iterator[NamedTensor]:
    for key in keys:
        yield NamedTensor("" if key.startswith(SESSION_KEY) else key, checkpoint.entry(key).dtype, checkpoint.read(key))


def graph_variables(graph: Graph) -> dict[str, Node]:
    """Return the nodes that make variables, by the names of the variables."""
    return {node.attrs.get("shared_name") or node.name: node for node in graph.nodes if node.op in VARIABLE_OPS}


def check_graph(saved: SavedSession, graph: Graph, prefix: str) -> None:
    """Check that the graph has exactly the saved variables, with their types and shapes.

    Raises NotFoundError or InvalidArgumentError, with a location, for any difference.
    """
    nodes = graph_variables(graph)
    for name, node in nodes.items():
        if name not in saved.variables:
            _complain(
                NotFoundError(f"Key {name} not found in checkpoint {prefix}: it is from another graph"), prefix, graph, node
            )
    for name in saved.variables:
        if name not in nodes:
            found = NotFoundError(f"checkpoint {prefix} is from another graph: it has variable {name}, which this one lacks")
            found.location = Location(f"{prefix}.index", 0, 0)
            _complain(found, prefix)
    tensors = {tensor.name: tensor for record in saved.records for tensor in record.tensors if tensor.name}
    for name, tensor in tensors.items():
        if name in nodes:
            wrong = _misfit(nodes[name], tensor)
            if wrong:
                _complain(InvalidArgumentError(f"{wrong} in checkpoint {prefix}"), prefix, graph, nodes[name])


def _misfit(node: Node, tensor: NamedTensor) -> str:
    dtype, shape = node.attrs.get("dtype"), node.attrs.get("shape")
    if dtype is not tensor.dtype:
        return f"variable {node.name} has dtype {getattr(dtype, 'name', dtype)} in the graph, {tensor.dtype.name}"
    dims, got = shape.dims if isinstance(shape, Shape) else None, tensor.value.shape
    if dims is None or (len(dims) == len(got) and all(size in (-1, own) for size, own in zip(dims, got, strict=True))):
        return ""
    return f"variable {node.name} has shape {shape} in the graph, {Shape(got)}"


def _complain(error: OpError, prefix: str, graph: Graph | None = None, node: Node | None = None) -> None:
    if graph is not None and node is not None:
        error.node, error.location = node.name, graph.location(node)
    error.help = _ways_out(prefix)
    raise error


def _ways_out(prefix: str) -> tuple[str, ...]:
    return (
        f"`--checkpoint {prefix}` without --restart and --checkpoint-every loads variables by name and starts "
        "at the first step",
    )
