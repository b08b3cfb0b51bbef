"""Reader of ONNX models, which returns a graph file and the names of the model's inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any

from placesim.core.errors import GraphBuildError, GraphFileError, Location, Problem
from placesim.core.escaping import escape_line
from placesim.core.process.gc_pause import collector_paused
from placesim.core.protobuf_wire import WireError
from placesim.formats.device_annotations import device_annotations
from placesim.formats.onnx.devices import LayerRule, find_requested_devices
from placesim.formats.onnx.expansion import expansion_problem
from placesim.formats.onnx.families import find_row, known_versions
from placesim.formats.onnx.graph_reading import GraphReader, Model, opset_versions, plain_domain
from placesim.formats.onnx.interface import fed_members, model_input, model_outputs
from placesim.formats.onnx.messages import parse_model
from placesim.formats.onnx.names import check_names
from placesim.formats.onnx.opaque_ops import OpaqueOps
from placesim.formats.onnx.tensors import TensorReader
from placesim.formats.onnx.weights import lift_weights
from placesim.formats.problems import FileProblems, spell
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.graph import TensorRef
from placesim.graph.session_steps import Fetch, GraphFile, GraphStep
from placesim.ops.registry import Registry, load_registry

MAX_PROBLEMS = 100
"""Maximum number of problems in a model; reading ends there."""


@dataclass(frozen=True, slots=True)
class OnnxFile:
    """The content of an ONNX file.

    `inputs` and `outputs` map ONNX's names to tensors. `annotations` has the number of nodes that request each device. `made`
    is that of `GraphReader`. `data` is the model's bytes, and `tensor_files` are other files with tensors, and
    `missing` has a problem for each of them that does not exist.
    """

    file: GraphFile
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, int] = field(default_factory=dict)
    made: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    data: bytes = b""
    tensor_files: Sequence[Path] = ()
    missing: Sequence[Problem] = ()
    tensors: TensorReader | None = None

    def check_weights(self) -> None:
        """Read large weights in other files, which runs and other formats need. Raises GraphFileError if one is missing."""
        if self.missing:
            raise GraphFileError(tuple(self.missing))
        try:
            if self.tensors is not None:
                self.tensors.read_waiting()
        except GraphBuildError as error:
            raise GraphFileError((Problem(Location(self.file.name, 0, 0), error.message),)) from None


def read_onnx(
    data: bytes,
    name: str,
    directory: Path | None = None,
    registry: Registry | None = None,
    unknown_devices: Sequence[str] = (),
    layers: Sequence[LayerRule] | None = (),
    members: Mapping[str, int] = MappingProxyType({}),
) -> OnnxFile:
    """Read a ModelProto's bytes; large weights become views of them.

    `name` is the file's name, for messages. Weights in other files must lie in `directory`. With `unknown_devices`, such as
    `("CPU", "GPU")`, an unknown op can be placed on these device types.

    Nodes request the devices of the rules `layers`, else those of the model's annotations; with None, they request no device.
    `members` has the numbers of members of sequences that are fed member by member.

    Raises GraphFileError with all problems, and UsageError if the package `onnx` is not installed.
    """
    try:
        rest, views = lift_weights(data)
    except WireError as error:
        raise GraphFileError((Problem(Location(name, 0, 0), f"invalid ONNX model: {error}"),)) from None
    with collector_paused():
        opaque_ops = OpaqueOps(registry or load_registry(), unknown_devices)
        return replace(_read(parse_model(rest, name), views, name, directory, opaque_ops, layers, members), data=data)


def _read(
    proto: Any,
    views: list[memoryview],
    name: str,
    directory: Path | None,
    opaque_ops: OpaqueOps,
    layers: Sequence[LayerRule] | None,
    members: Mapping[str, int],
) -> OnnxFile:
    problems = FileProblems(name, MAX_PROBLEMS)
    _check_model(proto, problems)
    functions = {(plain_domain(each.domain), each.name, each.overload): each for each in proto.functions}
    if problem := expansion_problem(proto.graph.node, functions):
        problems.add(0, problem)
    problems.raise_if_any()
    opsets, tensors = opset_versions(proto.opset_import), TensorReader(views, directory)
    model = Model(opsets, functions, tensors, problems, find_row, known_versions, opaque_ops)
    if layers is not None:
        with _problem_reporter(problems, 0, "annotations of devices"):
            model.device_of = find_requested_devices(proto, layers)
    builder = ScopedGraphBuilder(opaque_ops.registry, {}, name)
    reading = GraphReader(model, builder)
    inputs, outputs = _read_graph(reading, proto.graph, problems, members)
    problems.raise_if_any()
    texts = {given: _text(builder, ref) for given, ref in outputs.items()}
    steps = (GraphStep(tuple(Fetch(tensor, label=given) for given, tensor in texts.items())),) if texts else None
    file = GraphFile(escape_line(PurePath(name).stem), builder.graph, steps=steps)
    fed = {given: _text(builder, ref) for given, ref in inputs.items()}
    missing = [Problem(Location(name, 0, 0), text) for text in tensors.missing.values()]
    made = reading.made
    return OnnxFile(file, fed, texts, device_annotations(file), made, b"", tensors.files, missing, tensors)


def _read_graph(
    reading: GraphReader, graph: Any, problems: FileProblems, members: Mapping[str, int]
) -> tuple[dict[str, TensorRef], dict[str, TensorRef]]:
    """Add a graph's nodes, and return its inputs and outputs by name."""
    initializers = {tensor.name for tensor in graph.initializer}
    inputs: dict[str, TensorRef] = {}
    for index, given in enumerate(graph.input):
        if given.name not in initializers:
            with _problem_reporter(problems, index, f"input '{given.name}'"):
                refs, value = model_input(reading, given.name, given.type, members)
                inputs |= refs
                reading.define(given.name, value)
    may_lack = {given.name for given in graph.input if given.type.WhichOneof("value") in ("sequence_type", "optional_type")}
    may_lack |= fed_members(dict.fromkeys(inputs, True)).keys()  # an input may have the name `x[0]` itself
    for name in [name for name in members if name not in may_lack]:
        problems.add(0, f"wrong feed of {spell(name)}: expected the name of an input that is a sequence or an optional")
    for index, tensor in enumerate(graph.initializer):
        with _problem_reporter(problems, index, f"initializer '{tensor.name}'"):
            reading.add_initializer(tensor.name, *reading.model.tensors.read_weights(tensor))
    for index, sparse in enumerate(graph.sparse_initializer):
        with _problem_reporter(problems, index, f"sparse initializer '{sparse.values.name}'"):
            check_names(sparse.values.name)
            reading.add_initializer(sparse.values.name, reading.model.tensors.read_sparse(sparse))
    reading.declared = {info.name: info.type for info in (*graph.value_info, *graph.output)}
    with _problem_reporter(problems, 0, "graph"):
        reading.read_nodes(graph.node)
    outputs: dict[str, TensorRef] = {}
    for index, wanted in enumerate(graph.output):
        with _problem_reporter(problems, index, f"output '{wanted.name}'"):
            found = reading.lookup(wanted.name)
            if found is not None:
                outputs |= model_outputs(reading, wanted.name, found)
    return inputs, outputs


def _check_model(proto: Any, problems: FileProblems) -> None:
    """Report a missing graph, missing or unknown opsets, and names that are not text."""
    from onnx import defs

    if not proto.HasField("graph"):
        problems.add(0, "no graph: got a model without one, expected a graph")
    if not proto.opset_import:
        problems.add(0, "no opsets: got a model that imports none, expected 'opset_import' for each domain of its nodes")
    with _problem_reporter(problems, 0, "model"):
        check_names(*(entry.domain for entry in proto.opset_import))
        for function in proto.functions:
            check_names(function.name, function.domain, function.overload)
        check_names(*(given.name for given in (*proto.graph.input, *proto.graph.initializer, *proto.graph.output)))
    newest = defs.onnx_opset_version()
    for entry in proto.opset_import:
        if not 0 <= entry.version < 1 << 31:
            problems.add(0, f"unknown opset: got version {entry.version} of domain {spell(entry.domain)}")
        elif not plain_domain(entry.domain) and entry.version > newest:
            wanted = f"expected at most {newest}, the newest in the installed onnx package"
            problems.add(0, f"unknown opset: got {entry.version}, {wanted}; pip install --upgrade onnx")


def _text(builder: ScopedGraphBuilder, ref: TensorRef) -> str:
    return f"{builder.graph.nodes[ref.node].name}:{ref.slot}"


@contextmanager
def _problem_reporter(problems: FileProblems, index: int, what: str) -> Iterator[None]:
    """Record a GraphBuildError of the block as a problem of the model."""
    try:
        yield
    except GraphBuildError as error:
        problems.add(index, f"{what}: {error.message}")
