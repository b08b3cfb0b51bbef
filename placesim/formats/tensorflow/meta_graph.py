"""Reader of MetaGraphDefs: a raw graph with signatures, and the ops that initialize and restore it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from placesim.core.dtypes import BY_NUMBER, DataType
from placesim.core.errors import GraphFileError, InvalidArgumentError, Location, Problem
from placesim.core.protobuf_wire import BYTES, WireError, fields
from placesim.formats.tensorflow.attr_value import read_shape, read_string
from placesim.formats.tensorflow.graph_def import file_errors, read_graph_def
from placesim.formats.tensorflow.messages import Buffer, Message, as_binary, parse
from placesim.graph.graph import Graph, split_tensor_name
from placesim.graph.session_steps import GraphFile
from placesim.ops.attributes import UNKNOWN_RANK, Shape
from placesim.ops.registry import Registry

_GRAPH_DEF = 2
_VARIABLE_COLLECTIONS = ("variables", "trainable_variables", "local_variables", "model_variables", "moving_average_variables")
_INIT_SIGNATURE = "__saved_model_init_op"
_INIT_COLLECTIONS = ("saved_model_main_op", "legacy_init_op")


class TensorUse(NamedTuple):
    """An argument of a signature: its tensor, with type and shape if known."""

    tensor: str
    dtype: DataType | None
    shape: Shape


class ModelSignature(NamedTuple):
    """A computation that a model offers, with its arguments."""

    inputs: dict[str, TensorUse]
    outputs: dict[str, TensorUse]


@dataclass(frozen=True, slots=True)
class MetaGraph:
    """A graph file, and the other content of its MetaGraphDef.

    `initializers` are the ops that initialize variables. `assets` has the file name that each tensor is fed with.
    """

    file: GraphFile
    signatures: Mapping[str, ModelSignature] = field(default_factory=dict)
    initializers: tuple[str, ...] = ()
    restore_op: str = ""
    init_op: str = ""
    assets: Mapping[str, str] = field(default_factory=dict)


def read_meta_graph(data: Buffer, name: str, registry: Registry | None = None, is_text: bool | None = None) -> MetaGraph:
    """Read a MetaGraphDef's bytes or text; `name` is the file's name, for messages. Raises GraphFileError."""
    with file_errors(name):
        graph, message = _split(memoryview(as_binary("MetaGraphDef", data, is_text)))
    file = read_graph_def(graph, name, registry, message.meta_info_def.stripped_op_list, is_text=False)
    with file_errors(name):
        return _meta_graph(file, message)


def _split(data: memoryview) -> tuple[memoryview, Message]:
    """Return a view of a MetaGraphDef's GraphDef, and the MetaGraphDef without its GraphDef."""
    graphs, others = [], bytearray()
    for part in fields(data):
        if part.number == _GRAPH_DEF and part.wire_type == BYTES:
            graphs.append(data[part.value_start : part.end])
        else:
            others += data[part.start : part.end]
    graph = graphs[0] if len(graphs) == 1 else memoryview(b"".join(graphs))
    return graph, parse("MetaGraphDef", bytes(others))


def _meta_graph(file: GraphFile, message: Message) -> MetaGraph:
    collections = {name: _collection(message.collection_def[name]) for name in sorted(message.collection_def)}
    signatures = {name: _signature(message.signature_def[name]) for name in sorted(message.signature_def)}
    return MetaGraph(
        file=file,
        signatures={name: signature for name, signature in signatures.items() if name != _INIT_SIGNATURE},
        initializers=_initializers(collections),
        restore_op=message.saver_def.restore_op_name,
        init_op=_init_op(signatures, collections),
        assets={
            split_index(asset.tensor_info.name): asset.filename for asset in message.asset_file_def if asset.tensor_info.name
        },
    )


def split_index(tensor: str) -> str:
    """Return a tensor's name in the form of a graph file: `x` for `x:0`."""
    return tensor.removesuffix(":0")


# --- content beside the graph ---------------------------------------------------------------------------------------


def _collection(message: Message) -> tuple[Any, ...]:
    """Return the node names, texts, bytes or numbers of a collection."""
    kind = message.WhichOneof("kind")
    if kind is None:
        return ()
    values = getattr(message, kind).value
    if kind == "bytes_list":
        return tuple(map(read_string, values))
    return tuple(value.value for value in values) if kind == "any_list" else tuple(values)


def _initializers(collections: Mapping[str, tuple[Any, ...]]) -> tuple[str, ...]:
    """Return the initializers of the variables of all collections, in the order of the first collection that has each."""
    found: dict[str, str] = {}
    for collection in _VARIABLE_COLLECTIONS:
        for value in collections.get(collection, ()):
            if not isinstance(value, str | bytes):
                raise WireError(f"a variable of a collection: got {type(value).__name__}, expected a VariableDef")
            message = parse("VariableDef", value.encode() if isinstance(value, str) else value)
            found.setdefault(message.variable_name, message.initializer_name.removeprefix("^").partition(":")[0])
    return tuple(dict.fromkeys(found.values()))


def _signature(message: Message) -> ModelSignature:
    return ModelSignature(_uses(message.inputs), _uses(message.outputs))


def _uses(infos: Any) -> dict[str, TensorUse]:
    found: dict[str, TensorUse] = {}
    for name in sorted(infos):
        found |= _use(name, infos[name])
    return found


def _use(name: str, info: Message) -> dict[str, TensorUse]:
    """Return a mapping from the argument's name to its tensor; for a composite argument, from the path of each part."""
    kind = info.WhichOneof("encoding")
    if kind == "coo_sparse":
        parts = {"indices": "indices_tensor_name", "values": "values_tensor_name", "dense_shape": "dense_shape_tensor_name"}
        return {f"{name}/{part}": TensorUse(getattr(info.coo_sparse, key), None, UNKNOWN_RANK) for part, key in parts.items()}
    if kind == "composite_tensor":
        found: dict[str, TensorUse] = {}
        for index, component in enumerate(info.composite_tensor.components):
            found |= _use(f"{name}/{index}", component)
        return found
    shape = read_shape(info.tensor_shape) if info.HasField("tensor_shape") else UNKNOWN_RANK
    return {name: TensorUse(info.name, BY_NUMBER.get(info.dtype), shape)}


def _init_op(signatures: Mapping[str, ModelSignature], collections: Mapping[str, tuple[Any, ...]]) -> str:
    """Return the op that a loader runs once, after restoring the variables; empty if there is none."""
    if _INIT_SIGNATURE in signatures:
        outputs = signatures[_INIT_SIGNATURE].outputs
        return next((use.tensor.partition(":")[0] for use in outputs.values()), "")
    names = [name for key in _INIT_COLLECTIONS for name in collections.get(key, ()) if isinstance(name, str)]
    return names[0].partition(":")[0] if names else ""


# --- signatures -----------------------------------------------------------------------------------------------------


def signature(meta_graph: MetaGraph, name: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the tensors of a signature's inputs, and the tensors of its outputs, by argument.

    Raises InvalidArgumentError for an unknown signature, and GraphFileError for a tensor that the graph does not have.
    """
    found = meta_graph.signatures.get(name)
    if found is None:
        known = ", ".join(f"'{key}'" for key in meta_graph.signatures) or "none"
        raise InvalidArgumentError(f"no signature '{name}' in the model, with available signatures: {known}")
    file = meta_graph.file
    where = Location(file.graph.file, 0, 0)
    inputs, outputs = ({argument: use.tensor for argument, use in uses.items()} for uses in (found.inputs, found.outputs))
    problems = [
        Problem(where, f"signature '{name}': '{argument}' refers to '{tensor}', which is not a tensor")
        for argument, tensor in (*inputs.items(), *outputs.items())
        if not _is_tensor(file.graph, tensor)
    ]
    if problems:
        raise GraphFileError(tuple(problems))
    return inputs, outputs


def _is_tensor(graph: Graph, text: str) -> bool:
    name, slot = split_tensor_name(text)
    return name in graph.ids and slot < len(graph.node(name).signature.output_dtypes)
