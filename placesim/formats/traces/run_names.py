"""Names of nodes and tensors in TensorFlow's traces."""

from __future__ import annotations

import re

from placesim.machine.timelines.measured_steps import COPY, HOST, KERNEL, TRANSFER, MeasuredRun
from placesim.ops.categories import RECEIVES, SENDS

RECEIVED = "RecvTensor"
"""Op of a transfer from another task, in TensorFlow's statistics."""
_LABEL = re.compile(r"(?:\[[^\]]*\] )?(?P<name>\S+) = (?P<op>[A-Za-z_][\w>]*)\(")
"""A run on a host: `[cpu 1.0MB 1.0MB] tower/hidden = MatMul(images, weights)`."""
_NODE_AND_OP = re.compile(r"(?P<name>[A-Za-z0-9_.][A-Za-z0-9_.\\/>-]*):(?P<op>[A-Z_][\w>]*)")
"""A run in a profiler's trace, or a kernel's node: `tower/hidden:MatMul`."""
_EDGE = re.compile(r"edge_\d+_")
_COPY_NUMBER = re.compile(r"/_\d+\Z")
_KERNEL_NODE = re.compile(r"@@(?P<node>[^#]+)#")
_MOVED = re.compile(r"(?:\[[^\]]*\] )?(?P<name>\S+) from \S+ to \S+")


def split_label(label: str) -> tuple[str, str] | None:
    """Return name and op of a label such as `a = MatMul(b, c)`; None for any other text."""
    found = _LABEL.match(label)
    return None if found is None else (found["name"], found["op"])


def split_node(text: str) -> tuple[str, str] | None:
    """Return name and op of a text such as `tower/hidden:MatMul`; None for any other text."""
    found = _NODE_AND_OP.fullmatch(text)
    return None if found is None else (found["name"], found["op"])


def tensor_name(text: str) -> str:
    """Return the graph's name of a tensor that a transfer moves: `x` for `edge_5_x` and for the receiving node `x/_17`."""
    return _COPY_NUMBER.sub("", _EDGE.sub("", text, count=1))


def kind_of_device(device: str) -> str | None:
    """Return the kind of the runs that TensorFlow's statistics list under a device.

    The kind is None for a single stream of a GPU, whose runs are also under `stream:all`, for waits (`sync`), and for
    `/host:CPU`, under which TensorFlow 1.15 lists the runs of all CPUs again.
    """
    _, _, part = device.rpartition("/")
    if part == "stream:all":
        return KERNEL
    if part in ("memcpy", "network"):
        return COPY
    return None if part.startswith("stream:") or part in ("sync", "host:CPU") else HOST


def labelled_run(kind: str, node: str, label: str, start: float, seconds: float) -> MeasuredRun:
    """Return a run from TensorFlow's statistics, by the name of its node and its label."""
    moved = _MOVED.match(label) if node == RECEIVED else None
    if moved is not None:
        return MeasuredRun(tensor_name(moved["name"]), RECEIVED, COPY, start, seconds)
    inside = _KERNEL_NODE.search(label) if kind == KERNEL else None
    name, op = split_label(label) or split_node(node if inside is None else inside["node"]) or (node, "")
    return named_run(kind, name, op, start, seconds)


def named_run(kind: str, name: str, op: str, start: float, seconds: float) -> MeasuredRun:
    """Return the run of a node, or if the run is a copy or a send or receive, the run of a tensor's transfer."""
    if op == RECEIVED:
        kind = COPY
    elif op in (*SENDS, *RECEIVES):
        kind = TRANSFER if kind == HOST else COPY
    return MeasuredRun(tensor_name(name) if kind in (COPY, TRANSFER) else name, op, kind, start, seconds)
