"""Text of an error for standard error: a line `ErrorType: message`, then indented lines of help."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence

from placesim.core.errors import GraphFileError, InvalidArgumentError, Location, OpError, PlacesimError, shown_type
from placesim.core.escaping import escape_line
from placesim.core.styled_text import Role, StyledText
from placesim.graph.graph import Graph, Node
from placesim.graph.node_text import format_attrs, node_tag, replace_tags
from placesim.inspection.explaining.annotations import AnnotationKind, Annotations
from placesim.machine.device_names import parse_runtime_name
from placesim.machine.inventory import DeviceSet
from placesim.ops.attributes import TensorValue, format_attr_value, format_elements
from placesim.ops.kernels.device_resources import UNINITIALIZED
from placesim.placement.colocation_labels import class_labels
from placesim.placement.placer import Placement
from placesim.report.text.log import classic_order
from placesim.report.text.spelled_nodes import expand_node_tags
from placesim.runtime.sessions.outcome import Outcome

Locate = Callable[[str], Location | None]

_INDENT = "  "
_DEVICE = "a device is written '/cpu:0', '/gpu:1', '/gpu:*' or '/job:ps/task:0/cpu:0'"
_MISSING = r"was explicitly assigned to (\S+) but available devices are"
_MISSING_IN_GROUP = r"required incompatible device '(/device:\w+:\d+)'\. All available devices \[(?!.*\1[,\]])"
_HINTS = (
    (r"unknown GPU model", "`placesim devices --gpu-models` lists them"),
    (
        r"unknown key in a graph file: got 'rules'|unknown key in a policy: got 'nodes'",
        "to check a graph against a policy: placesim check GRAPH --policy FILE",
    ),
    (
        r"unknown key in a profile: got 'nodes'",
        "this is a graph file; `placesim calibrate --output FILE` measures this computer and writes a profile",
    ),
    (r"unknown key in a graph file: got 'nbformat'", "convert a notebook to a script with `jupyter nbconvert --to script`"),
    (
        r"\.(yaml|yml|json):[\d:]* invalid GraphDef",
        "the file begins like a GraphDef in text format; a graph file begins with a key such as 'nodes:'",
    ),
    (r"got a checkpoint's index", "to load variables from a checkpoint, use --checkpoint PREFIX"),
    (
        r"\.data-\d{5}-of-\d{5}:[\d:]* not (UTF-8|valid)",
        "a checkpoint holds values, not a graph; load it with --checkpoint PREFIX",
    ),
    (r"[`'][^`'{}]*\{\w*\}[^`']*[`'] is not a valid", "in quotes, '{i}' is the copy's index in a scope with a list of devices"),
    (r"type attr not found: (\w+)", r"the call must set it: f: {func: NAME, attrs: {\1: float}}"),
    (r"pred must not be a Python bool", "pred must be a tensor, evaluated at run time: {op: Const, name: p, value: true}"),
    (r"No devices are registered", "add devices with `devices` in the file, or with --cpu and --gpu"),
    (r"(?i)parsing the device spec: '/?(?:device:)?(cpu|gpu)(\d+)'", r"did you mean '/\1:\2'?"),
    (r"(?i)parsing the device spec: '/?(?:device:)?cuda:?(\d+)'", r"TensorFlow's name for CUDA's devices is GPU: '/gpu:\1'"),
    (r"parsing the device spec|invalid literal for int\(\) with base 10", _DEVICE),
    (
        r"not valid YAML in the (list|mapping) that begins",
        "entries of one list, and keys of one mapping, must start in the same column",
    ),
    (
        r"not valid YAML in (the|a) [\[{]",
        "close each { and [, and quote strings that contain any of {}[],",
    ),
    (
        r"expected one key and one value",
        "keys of one mapping must start in the same column",
    ),
    (
        _MISSING,
        "--soft-placement allows another device; --cpu and --gpu change the machine",
    ),
    (
        _MISSING_IN_GROUP,
        r"the machine has no \1: --soft-placement allows another device; --cpu and --gpu change the machine",
    ),
    (
        r"Could not satisfy explicit device specification '[^']*' because no supported kernel for",
        "--soft-placement allows a device with a kernel",
    ),
    (r"You must feed a value for placeholder", "feed it with --feed NAME=VALUE, `feed:` in the step, or a script's feed_dict"),
)
"""Patterns of error messages, each with a line of help."""
_UNINITIALIZED = re.compile(rf"{UNINITIALIZED}(\S+)")


def format_error(error: PlacesimError, locate: Locate = lambda name: None, graph: Graph | None = None) -> StyledText:
    """Return an error's text; `locate` returns a node's location, or None if unknown.

    With `graph`, the placed graph, node tags in the message are written as TensorFlow's Python writes them in that release.
    """
    is_spelled_out = graph is not None and graph.registry.rules.spells_out_nodes and isinstance(error, OpError)
    if graph is not None and is_spelled_out:
        said = _lines(expand_node_tags(error.message, graph, locate))
    else:
        said = list(_message_lines(error, locate))
    lines = [*said, *error.help, *_hints(error, locate), *(_request(error, graph) if graph is not None else ())]
    return _told(shown_type(error), f" {lines[0]}", [_INDENT + line for line in lines[1:]])


def format_outcome_error(outcome: Outcome) -> StyledText:
    """Format an outcome's error; empty without one."""
    error, placed = outcome.error, outcome.placed_graphs
    if error is None:
        return StyledText()
    if outcome.style == "classic" and placed:
        classic = format_classic_error(error, placed[-1], outcome.fetches)
        if classic is not None:
            return classic
    return format_error(error, find_locations(placed, error), placed[-1].graph if placed else None)


def format_remedies(error: PlacesimError, options: Collection[str]) -> StyledText:
    """Return the line of help with an error's remedies among a command's options; empty if there are none."""
    found = [line for option, line in error.remedies.items() if option in options]
    return StyledText(f"{_INDENT}{', '.join(found)}\n" if found else "", role=Role.HELP)


def _told(type_name: str, said: str, more: Sequence[str]) -> StyledText:
    """Return styled text from an error's class, the rest of its first line, and further lines."""
    helps = StyledText(*(f"{line}\n" for line in more), role=Role.HELP)
    return StyledText(StyledText(f"{type_name}:", role=Role.ERROR), f"{said}\n", helps)


def _message_lines(error: PlacesimError, locate: Locate) -> Iterator[str]:
    if isinstance(error, GraphFileError):
        for problem in error.problems:
            yield from _lines(str(problem))
        return
    message = _without_tail(error.message)
    yield from _lines(replace_tags(message, lambda name: _place(name, locate)))
    if error.node is not None and isinstance(error, OpError) and node_tag(error.node) not in message:
        yield _place(error.node, locate) + (f", on {error.device}" if error.device else "")
    elif error.location is not None and error.node is None:
        yield f"at {error.location}"


def _lines(text: str) -> list[str]:
    return [escape_line(line.strip()) for line in text.split("\n") if line.strip()] or [""]


def _place(name: str, locate: Locate) -> str:
    location = locate(name)
    return f"node {name} (defined at {escape_line(location.file)}:{location.line})" if location is not None else f"node {name}"


def _without_tail(message: str) -> str:
    """Return a message without `[[{{node x}}]]` at its end."""
    text = message.rstrip()
    start = text.find("[[", text.rfind("\n") + 1)
    return text[:start].rstrip() if start >= 0 and text.endswith("]]", start + 2) else message


def _hints(error: PlacesimError, locate: Locate) -> Iterator[str]:
    unset = _UNINITIALIZED.match(error.message)
    if unset is not None:
        yield f"run the initializer of {_place(unset[1], locate)} in a step before this one"
    for pattern, hint in _HINTS:
        found = re.search(pattern, error.message)
        if found is not None:
            yield found.expand(hint)


def _request(error: PlacesimError, graph: Graph) -> Iterator[str]:
    """Yield the line of the scope that requests a missing device for the failed node, or for a node that its labels name."""
    found = next(filter(None, (re.search(pattern, error.message) for pattern in (_MISSING, _MISSING_IN_GROUP))), None)
    if found is None or error.node not in graph.ids:
        return
    node = graph.node(error.node)
    near = (node, *(graph.node(label) for label in class_labels(node.attrs.get("_class", ())) if label in graph.ids))
    holder = next((node for node in near if node.device == found[1]), None)
    origins = Annotations(graph).origins(holder) if holder is not None else ()
    location = next((origin.location for origin in origins if origin.kind == AnnotationKind.SCOPE), None)
    if location is not None:
        at = f"{escape_line(location.file)}:{location.line}"
        yield f"requested at {at}; `placesim explain {escape_line(graph.file)}` lists fixes"


def find_locations(placements: Sequence[Placement], error: PlacesimError) -> Locate:
    """Return a function that maps a node's name to its location, from the error or from the newest placement's graph."""

    def locate(name: str) -> Location | None:
        if name == error.node and error.location is not None:
            return error.location
        graph = placements[-1].graph if placements else None
        return graph.location(graph.node(name)) if graph is not None and name in graph.ids else None

    return locate


# --- the first guides' words ----------------------------------------------------------------------------------------


def format_classic_error(error: PlacesimError, placement: Placement, fetches: Sequence[str]) -> StyledText | None:
    """Return TensorFlow 0.5's error text for a device that does not exist, or None for any other error.

    TensorFlow 0.5 placed nodes in the order of its log, so the text names the first node in the log whose device is missing.
    """
    if not isinstance(error, InvalidArgumentError) or "was explicitly assigned to" not in error.message:
        return None
    nodes = (placement.graph.nodes[i] for i in classic_order(placement.graph, fetches))
    node = next((node for node in nodes if not _is_satisfiable(node, placement.device_set)), None)
    if node is None:
        return None
    said = (
        f" Invalid argument: Cannot assign a device to node '{node.name}': "
        f"Could not satisfy explicit device specification '{node.device}'"
    )
    return _told(error.type_name, said, [f"   [[Node: {_classic_summary(placement.graph, node)}]]"])


def _is_satisfiable(node: Node, devices: DeviceSet) -> bool:
    spec = parse_runtime_name(node.device)
    return spec is None or bool(devices.matching(spec))


def _classic_summary(graph: Graph, node: Node) -> str:
    """Return a node in the format of TensorFlow 0.5 to 1.11 (5.9)."""
    tensors = {name: value for name, value in node.attrs.items() if isinstance(value, TensorValue)}
    shown = format_attrs(node.attrs)
    for value in tensors.values():
        shown = shown.replace(format_attr_value(value), _flat_tensor(value))
    device = f'_device="{node.device}"'
    return escape_line(f"{node.name} = {node.op}[{shown}, {device}]({', '.join(graph.input_texts(node))})")


def _flat_tensor(tensor: TensorValue) -> str:
    flat = TensorValue(tensor.dtype, tensor.array.reshape(-1))
    shape = ",".join(map(str, tensor.array.shape))
    return f"Tensor<type: {tensor.dtype.name} shape: [{shape}] values: {format_elements(flat)}>"
