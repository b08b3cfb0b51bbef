"""Writer of graph files in raw form, as plain values or YAML text; reading it gives the same graph."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from placesim.core.dtypes import BOOL, FLOAT, STRING, DataType, OpenType
from placesim.core.releases import CURRENT
from placesim.formats.graph_file.sections.hosts import host_document
from placesim.formats.graph_file.sections.links import link_document
from placesim.formats.graph_file.writing.yaml_line import yaml_line
from placesim.graph.constants import make_constant
from placesim.graph.graph import FunctionArg, Graph, LibraryFunction, Node, NodeDef, split_tensor_name
from placesim.graph.session_steps import Config, Feed, Fetch, FileFeed, GeneratedFeed, GraphFile, GraphStep
from placesim.machine.gpu_models import DEFAULT_MODEL, GPU_MODELS, GpuModel
from placesim.machine.gpu_options import GPU_OPTIONS, GpuOptions
from placesim.machine.host_models import RATES
from placesim.machine.inventory import TaskInventory
from placesim.ops.attributes import Attrs, AttrValue, FunctionName, Placeholder, Shape, TensorValue
from placesim.ops.registry import Registry


def graph_file_document(graph_file: GraphFile) -> dict[str, Any]:
    """Return the raw form as a mapping, which `graph_file_from_mapping` reads, or `read_graph_file` as YAML or JSON."""
    return {key: list(value) if isinstance(value, Iterator) else value for key, value in graph_file_parts(graph_file).items()}


def graph_file_parts(graph_file: GraphFile) -> dict[str, Any]:
    """Return the parts of `graph_file_document`, with functions, nodes and steps generated one by one."""
    return file_parts(graph_file, {"raw": True})


def file_parts(graph_file: GraphFile, form: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a file by key, with `nodes` in raw form. `form` has the keys of the form, such as `raw`."""
    graph, registry = graph_file.graph, graph_file.graph.registry
    document: dict[str, Any] = {"name": graph_file.name}
    if graph_file.description:
        document["description"] = graph_file.description
    document |= form
    if graph.versions:
        document["versions"] = dict(graph.versions)
    if graph_file.rest:
        document["rest"] = _bytes(graph_file.rest)
    if registry.rules is not CURRENT:
        document["tensorflow"] = registry.rules.name
    if graph_file.inventory is not None:
        document["devices"] = devices_document(graph_file.inventory)
    if graph_file.links.entries:
        document["links"] = list(map(link_document, graph_file.links.entries))
    if graph_file.config != Config():
        document["config"] = _config(graph_file.config)
    if graph.functions:
        document["functions"] = (_function(function, registry) for function in graph.functions.values())
    document["nodes"] = (node_document(graph, node) for node in graph.nodes)
    if graph_file.steps is not None:
        fetches = _FetchWriter(graph_file, to_raw="raw" in form)
        document["run"] = (_step(step, registry, fetches) for step in graph_file.steps)
    return document


def write_yaml(graph_file: GraphFile) -> str:
    """Return the raw form as YAML, with one node per line."""
    return "".join(yaml_lines(graph_file))


def yaml_lines(graph_file: GraphFile) -> Iterator[str]:
    """Yield the lines of `write_yaml` one by one."""
    for key, value in graph_file_parts(graph_file).items():
        if not isinstance(value, Iterator):
            yield f"{key}: {yaml_line(value)}\n"
            continue
        first = next(value, None)
        if first is None:
            yield f"{key}: []\n"
            continue
        yield f"{key}:\n"
        for entry in chain((first,), value):
            yield f"  - {yaml_line(entry)}\n"


# --- nodes ----------------------------------------------------------------------------------------------------------


def node_document(graph: Graph, node: Node) -> dict[str, Any]:
    """Return a node in the form of a NodeDef."""
    return _node(graph.registry, node.op, node.name, graph.input_texts(node), node.device, node.attrs)


def _node(registry: Registry, op: str, name: str, inputs: Iterable[str], device: str, attrs: Attrs) -> dict[str, Any]:
    written: dict[str, Any] = {"op": op, "name": name}
    listed = list(inputs)
    if listed:
        written["inputs"] = listed
    if device:
        written["device"] = device
    others = dict(attrs)
    tensor = others.get("value")
    if op == "Const" and isinstance(tensor, TensorValue) and others.get("dtype") is tensor.dtype:
        written |= tensor_document(tensor)
        del others["value"], others["dtype"]
    if others:
        written["attrs"] = {key: attr_document(registry, op, key, value) for key, value in others.items()}
    return written


def attr_document(registry: Registry, op: str, name: str, value: AttrValue) -> Any:
    """Return an attr in the form of an entry of this op."""
    definition = registry.op(op)
    attr = None if definition is None else definition.attrs.get(name)
    return _typed(value) if attr is not None else _untyped(value)


def _typed(value: AttrValue) -> Any:
    """Return the value of an attr whose type the op's definition gives."""
    if isinstance(value, OpenType | TensorValue | FunctionName | Placeholder | bytes):
        return _untyped(value)
    if isinstance(value, DataType):
        return value.name
    if isinstance(value, Shape):
        return "unknown" if value.dims is None else list(value.dims)
    return list(map(_typed, value)) if isinstance(value, tuple) else value


def _untyped(value: AttrValue) -> Any:
    """Return the value of an attr in a form that includes its type."""
    if isinstance(value, OpenType):
        return {"placeholder": value.attr}
    if isinstance(value, DataType):
        return {"type": value.name}
    if isinstance(value, Shape):
        return {"shape": _typed(value)}
    if isinstance(value, TensorValue):
        return {"tensor": tensor_document(value)}
    if isinstance(value, Placeholder):
        return {"placeholder": value.name}
    if isinstance(value, FunctionName):
        attrs = {"attrs": {name: _untyped(inner) for name, inner in value.attrs}} if value.attrs else {}
        return {"func": value.name, **attrs}
    if isinstance(value, bytes):
        return _bytes(value)
    return list(map(_untyped, value)) if isinstance(value, tuple) else value


def _bytes(value: bytes) -> dict[str, str]:
    return {"bytes": base64.b64encode(value).decode()}


def tensor_document(tensor: TensorValue) -> dict[str, Any]:
    """Return `dtype`, `shape` and `value` of a tensor. The value is flat, with one element if all are equal."""
    flat = [_element(value, tensor.dtype) for value in _distinct(tensor.array)]
    value = flat[0] if len(flat) == 1 and not tensor.dtype.is_complex else flat
    return {"dtype": tensor.dtype.name, "shape": list(tensor.array.shape), "value": value}


def _distinct(array: np.ndarray[Any, Any]) -> list[Any]:
    """Return the elements in order; only the first if all have the same bits."""
    flat = array.reshape(-1)
    is_one_value = not any(array.strides) or (array.dtype != object and flat.tobytes() == flat[:1].tobytes() * array.size)
    found: list[Any] = (flat[:1] if array.size > 1 and is_one_value else flat).tolist()
    return found


def _element(value: Any, dtype: DataType) -> Any:
    if dtype is STRING:
        try:
            return value.decode()
        except UnicodeDecodeError:
            return _bytes(value)
    if dtype.is_complex:
        return [_number(value.real), _number(value.imag)]
    return _number(float(value)) if dtype.is_floating else value if isinstance(value, bool) else int(value)


def shortest(value: Any) -> Any:
    """Return numbers with the fewest digits that give the same float32 values."""
    if isinstance(value, list):
        return list(map(shortest, value))
    return float(str(np.float32(value))) if isinstance(value, float) else value


def _number(value: float) -> Any:
    return float(value) if np.isfinite(value) else str(value)


# --- the other sections ---------------------------------------------------------------------------------------------


def _function(function: LibraryFunction, registry: Registry) -> dict[str, Any]:
    written: dict[str, Any] = {
        "name": function.name,
        "inputs": [_arg(arg) for arg in function.inputs],
        "outputs": [{**_arg(arg), "value": arg.value} for arg in function.outputs],
        "nodes": [_node_def(node, registry) for node in function.nodes],
    }
    if function.control_outputs:
        written["control_outputs"] = dict(function.control_outputs)
    if function.attrs:
        written["attrs"] = attrs_document(function.attrs)
    return written


def attrs_document(attrs: Attrs) -> dict[str, Any]:
    """Return attrs without definitions of their types, in forms that include the types."""
    return {name: _untyped(value) for name, value in attrs.items()}


def _arg(arg: FunctionArg) -> dict[str, Any]:
    return {"name": arg.name} | ({"type_attr": arg.type_attr} if arg.dtype is None else {"type": arg.dtype.name})


def _node_def(node: NodeDef, registry: Registry) -> dict[str, Any]:
    return _node(registry, node.op, node.name, node.inputs, node.device, node.attrs)


def devices_document(inventory: tuple[TaskInventory, ...]) -> Any:
    """Return the value of `devices` in a document."""
    if len(inventory) == 1 and inventory[0].job is None:
        return _counts(inventory[0])
    return [{"job": entry.job or "localhost", "tasks": entry.tasks, **_counts(entry)} for entry in inventory]


def _counts(entry: TaskInventory) -> dict[str, Any]:
    written: dict[str, Any] = {"cpu": entry.cpu, "gpu": entry.gpu}
    if entry.cpu_memory is not None:
        written["cpu"] = {"count": entry.cpu, "memory": entry.cpu_memory}
    if entry.gpu_model != DEFAULT_MODEL:
        written["gpu"] = {"count": entry.gpu, "model": _model(entry.gpu_model)}
    if entry.xla_cpu is not None:
        written["xla_cpu"] = entry.xla_cpu
    if entry.xla_gpu:
        written["xla_gpu"] = entry.xla_gpu
    if entry.host is not None:
        written["host"] = host_document(entry.host)
    return written


def _model(model: GpuModel) -> Any:
    if GPU_MODELS.get(model.name) == model:
        return model.name
    written = model._asdict()
    figures = written.pop("figures")._asdict()  # the reader takes all others from the catalogue
    written["pci_bus_id"] = list(written.pop("pci_bus_ids"))
    rates = {name: figures[name] for name in RATES if figures[name]}
    return written | ({"rates": rates} if rates else {}) | ({"launch": figures["launch"]} if figures["launch"] else {})


def _config(config: Config) -> dict[str, Any]:
    default = Config()
    written: dict[str, Any] = {}
    for field in Config.__slots__:
        value = getattr(config, field)
        if value == getattr(default, field) or field == "gpu_options_location":
            continue
        if field == "gpu_options":
            written[field] = _gpu_options(value)
        elif field == "place_pruned_graph":
            written.setdefault("graph_options", {})[field] = value
        elif field == "do_constant_folding":
            written.setdefault("graph_options", {})["optimizer_options"] = {field: value}
        elif field == "device_count":
            written[field] = dict(value)
        elif field == "session_inter_op_thread_pool":
            written[field] = [pool._asdict() for pool in value]
        else:
            written[field] = list(value) if isinstance(value, tuple) else value
    return written


def _gpu_options(options: GpuOptions) -> dict[str, Any]:
    given = {name: value for name, value in options._asdict().items() if value != GpuOptions._field_defaults[name]}
    written = {name: value for name, value in given.items() if name in GPU_OPTIONS}
    experimental = {name: value for name, value in given.items() if name not in GPU_OPTIONS}
    if options.virtual_devices:
        experimental["virtual_devices"] = [
            {name: list(values) for name, values in virtual._asdict().items() if values} for virtual in options.virtual_devices
        ]
    return written | ({"experimental": experimental} if experimental else {})


_MOST_FED = 64
"""Maximum number of elements of a feed that is written as a literal."""


class _FetchWriter:
    """A writer of fetches and feeds. They give the same results, although a bare name in a raw file is a target."""

    def __init__(self, graph_file: GraphFile, to_raw: bool) -> None:
        self._to_raw = to_raw
        self._is_raw = graph_file.is_raw
        self._graph = graph_file.graph
        self._later: dict[str, NodeDef] = {}

    def write(self, step: GraphStep) -> list[Any]:
        """Return the fetches of a step: a name, or `{LABEL: NAME}` for a fetch whose label differs from its written name."""
        self._later |= {node.name: node for node in step.nodes}
        return [self._fetch(fetch) for fetch in step.fetches]

    def _fetch(self, fetch: Fetch) -> Any:
        if fetch.name[:1] == "^":
            return fetch.name if not self._to_raw else fetch.name[1:]
        is_bare = split_tensor_name(fetch.name)[0] == fetch.name
        if not self._to_raw:
            is_target = is_bare and self._is_raw and self._has_outputs(fetch.name)
            name = f"^{fetch.name}" if is_target else fetch.name
            return name if is_target or not fetch.label or fetch.label == name else {fetch.label: name}
        name = f"{fetch.name}:0" if is_bare and not self._is_raw and self._has_outputs(fetch.name) else fetch.name
        label = fetch.label or fetch.name
        return name if label == name else {label: name}

    def feed(self, feed: Feed) -> tuple[str, Any]:
        """Return the name and value of a feed, in short form unless the file is raw."""
        written = _feed(feed)
        if self._to_raw or not isinstance(written, dict) or "tensor" not in written:
            return feed.tensor, written
        name, slot = split_tensor_name(feed.tensor)
        tensor, node_id = make_constant(feed.value), self._graph.ids.get(name)
        types = () if node_id is None else self._graph.nodes[node_id].signature.output_dtypes
        is_short = 0 < tensor.array.size <= _MOST_FED and types[slot : slot + 1] == (tensor.dtype,)
        if is_short and tensor.dtype.is_floating and np.isfinite(tensor.array.astype(np.float64)).all():
            written = tensor.array.tolist() if tensor.dtype is not FLOAT else shortest(tensor.array.tolist())
        elif is_short and (tensor.dtype.is_integer or tensor.dtype is BOOL):
            written = tensor.array.tolist()
        return name if not slot else feed.tensor, written

    def _has_outputs(self, name: str) -> bool:
        if name in self._later:
            node = self._later[name]
            return bool(self._graph.signatures.signature(node.op, node.attrs).output_dtypes)
        return name in self._graph.ids and bool(self._graph.node(name).signature.output_dtypes)


def _step(step: GraphStep, registry: Registry, fetches: _FetchWriter) -> dict[str, Any]:
    written: dict[str, Any] = {"fetch": fetches.write(step)}
    if step.feeds:
        written["feed"] = dict(map(fetches.feed, step.feeds))
    if step.repeat != 1:
        written["repeat"] = step.repeat
    if step.nodes:
        written["nodes"] = [_node_def(node, registry) for node in step.nodes]
    return written


def with_feeds_from(graph_file: GraphFile, directory: Path, target: Path) -> GraphFile:
    """Return the file for the folder `target`: relative paths of feeds are changed from `directory` to that folder."""
    if graph_file.steps is None or os.path.realpath(directory) == os.path.realpath(target):
        return graph_file

    def moved(feed: Feed) -> Feed:
        if not isinstance(feed.value, FileFeed) or os.path.isabs(feed.value.path):
            return feed
        return feed._replace(value=FileFeed(os.path.relpath(directory / feed.value.path, target)))

    steps = tuple(replace(step, feeds=tuple(map(moved, step.feeds))) for step in graph_file.steps)
    return replace(graph_file, steps=steps)


def _feed(feed: Feed) -> Any:
    value = feed.value
    if isinstance(value, FileFeed):
        return {"file": value.path}
    if isinstance(value, GeneratedFeed):
        return {value.kind: list(value.shape), **value.figures} | ({} if value.seed is None else {"seed": value.seed})
    return {"tensor": tensor_document(make_constant(value))}
