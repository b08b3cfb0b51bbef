"""Write MetaGraphDefs: a graph with its collections and its Saver."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from placesim.formats.tensorflow.messages import message_class, to_text
from placesim.tf1 import release
from placesim.tf1.files.gfile import StrPath
from placesim.tf1.graphs.graph import Graph, get_default_graph
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.variables.variable import VariableDef

VARIABLE_FIELDS = (
    *("variable_name", "initializer_name", "snapshot_name", "initial_value_name"),
    *("is_resource", "trainable", "synchronization", "aggregation"),
)
"""Fields that a VariableDef and its message share, beside the slice of a partitioned variable."""
VARIABLE_KEYS = frozenset((*GraphKeys._VARIABLE_COLLECTIONS, GraphKeys.MOVING_AVERAGE_VARIABLES, GraphKeys.GLOBAL_STEP))
"""Collections whose variables are written as messages; other collections have their names."""
CONTEXT_KEYS = (GraphKeys.COND_CONTEXT, GraphKeys.WHILE_CONTEXT)
_UNWRITTEN = (
    "WARNING:tensorflow:Issue encountered when serializing {}.\nType is unsupported, or the types of the items don't match "
    "field type in CollectionDef. Note this is a warning and probably safe to ignore.\n{}\n"
)


class ProtoFunctions(NamedTuple):
    """Functions that convert the items of a collection to messages of a class, and back."""

    proto_type: Any
    to_proto: Callable[..., Any] | None
    from_proto: Callable[..., Any] | None


PROTO_FUNCTIONS: dict[str, ProtoFunctions] = {}
"""Functions that scripts registered, by collection."""


def register_proto_function(
    collection_name: str,
    proto_type: Any = None,
    to_proto: Callable[..., Any] | None = None,
    from_proto: Callable[..., Any] | None = None,
) -> None:
    """Register how the items of a collection are written to a MetaGraphDef, and read.  Raises TypeError."""
    for given in (to_proto, from_proto):
        if given is not None and not callable(given):
            raise TypeError("to_proto and from_proto must be callable.")
    PROTO_FUNCTIONS[collection_name] = ProtoFunctions(proto_type, to_proto, from_proto)


def export_meta_graph(
    filename: str | None = None,
    meta_info_def: Any = None,
    graph_def: Any = None,
    saver_def: Any = None,
    collection_list: Any = None,
    as_text: bool = False,
    graph: Any = None,
    export_scope: str | None = None,
    clear_devices: bool = False,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    save_debug_info: bool = False,
    **kwargs: Any,
) -> Any:
    """The MetaGraphDef of a graph, written to a file if one is named."""
    if export_scope is not None:
        raise NotImplementedError(
            "tf.train.export_meta_graph(export_scope=...) is not there; export_meta_graph of the whole graph is, and so is "
            "`convert` of its GraphDef."
        )
    graph = get_default_graph() if graph is None else graph
    found = message_class("MetaGraphDef")()
    if meta_info_def is not None:
        found.meta_info_def.CopyFrom(meta_info_def)
    found.meta_info_def.tensorflow_version = release.__version__
    found.meta_info_def.tensorflow_git_version = release.GIT_VERSION
    found.graph_def.CopyFrom(graph.as_graph_def() if graph_def is None else graph_def)
    if clear_devices:
        for node in found.graph_def.node:
            node.device = ""
    _write_ops(graph, found.meta_info_def.stripped_op_list)
    keys = graph.get_all_collection_keys() if collection_list is None else collection_list
    for key in keys:
        _write_collection(key, graph.get_collection(key), found)
    if saver_def is not None:
        found.saver_def.CopyFrom(saver_def)
        if clear_extraneous_savers and GraphKeys.SAVERS in found.collection_def:
            found.collection_def[GraphKeys.SAVERS].bytes_list.value[:] = [saver_def.SerializeToString()]
    if filename:
        write_graph(found, os.path.dirname(filename), os.path.basename(filename), as_text)
    return found


def _write_ops(graph: Graph, ops: Any) -> None:
    """Write the definitions of the graph's ops, sorted by name."""
    found = {operation.type: operation for operation in graph.get_operations()}
    for name in sorted(found):
        if found[name].node.signature.definition is not None:
            ops.op.add().CopyFrom(found[name].op_def)


def _write_collection(key: str, items: list[Any], meta_graph: Any) -> None:
    if key in CONTEXT_KEYS:
        # no messages are made of contexts; those of an imported MetaGraph are still bytes
        items = [item for item in items if isinstance(item, bytes)]
    if not items:
        return
    written = message_class("CollectionDef")()
    to_proto = _to_proto(key)
    try:
        if to_proto is not None:
            messages = [message for message in map(to_proto, items) if message is not None]
            written.bytes_list.value.extend(message.SerializeToString() for message in messages)
        else:
            _write_values(written, items)
    except (TypeError, AttributeError, ValueError) as error:
        sys.stderr.write(_UNWRITTEN.format(key, error))
        return
    meta_graph.collection_def[key].CopyFrom(written)


def _to_proto(key: str) -> Callable[[Any], Any] | None:
    """Function that makes the message of an item of a collection; None if its items are written as names or values."""
    if key in PROTO_FUNCTIONS:
        return PROTO_FUNCTIONS[key].to_proto
    if key in VARIABLE_KEYS:
        return lambda variable: None if (definition := variable.to_proto()) is None else variable_message(definition)
    if key in (GraphKeys.QUEUE_RUNNERS, GraphKeys.SAVERS):
        return lambda item: item.to_proto()
    return None


def _write_values(written: Any, items: list[Any]) -> None:
    """Write items in the field for the type of the first.  Raises TypeError or AttributeError for others."""
    first = items[0]
    if isinstance(first, str | bytes):
        written.bytes_list.value.extend(item.encode() if isinstance(item, str) else item for item in items)
    elif isinstance(first, int):
        written.int64_list.value.extend(items)
    elif isinstance(first, float):
        written.float_list.value.extend(items)
    else:
        written.node_list.value.extend(item.name for item in items)


def variable_message(definition: VariableDef) -> Any:
    """A VariableDef as a protocol buffer message."""
    found = message_class("VariableDef")(**{name: getattr(definition, name) for name in VARIABLE_FIELDS})
    part = definition.save_slice_info_def
    if part is not None:
        found.save_slice_info_def.full_name = part.full_name or ""
        for name in ("full_shape", "var_offset", "var_shape"):
            getattr(found.save_slice_info_def, name).extend(getattr(part, name))
    return found


def write_graph(graph_or_graph_def: Any, logdir: StrPath, name: str, as_text: bool = True) -> str:
    """`tf.train.write_graph`: write a graph or a message to a file.  Returns the file's path."""
    message = graph_or_graph_def.as_graph_def() if isinstance(graph_or_graph_def, Graph) else graph_or_graph_def
    directory = os.fspath(logdir)
    if directory:
        os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, name)
    data = to_text(message).encode() if as_text else message.SerializeToString(deterministic=True)
    with open(path, "wb") as file:
        file.write(data)
    return path
