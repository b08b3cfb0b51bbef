"""MetaGraphDefs: a graph with its collections and its Saver, written and brought back into another graph."""

from __future__ import annotations

import os
import sys
from typing import Any

import placesim.tf1 as tf
from placesim.core.protobuf_wire import WireError
from placesim.formats.tensorflow.messages import message_class, parse, parse_text, to_text
from placesim.tf1 import release
from placesim.tf1.graphs.graph import Graph, get_default_graph
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.saving.saver import Saver
from placesim.tf1.variables.variable import SaveSliceInfo, Variable, VariableDef

_VARIABLES = frozenset(GraphKeys._VARIABLE_COLLECTIONS) | {GraphKeys.MOVING_AVERAGE_VARIABLES}
_UNWRITTEN = (
    "WARNING:tensorflow:Issue encountered when serializing {}.\nType is unsupported, or the types of the items don't match "
    "field type in CollectionDef. Note this is a warning and probably safe to ignore.\n{}\n"
)


# --- writing


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
        if clear_extraneous_savers and key == GraphKeys.SAVERS:
            continue
        _write_collection(graph, key, found)
    if saver_def is not None:
        found.saver_def.CopyFrom(saver_def)
    if filename:
        write_graph(found, os.path.dirname(filename), os.path.basename(filename), as_text)
    return found


def _write_ops(graph: Graph, ops: Any) -> None:
    """The definitions of the ops that the graph uses, by name."""
    found = {operation.type: operation for operation in graph.get_operations()}
    for name in sorted(found):
        if found[name].node.signature.definition is not None:
            ops.op.add().CopyFrom(found[name].op_def)


def _write_collection(graph: Graph, key: str, meta_graph: Any) -> None:
    items = graph.get_collection(key)
    if not items:
        return
    written = message_class("CollectionDef")()
    try:
        for item in items:
            _write_item(written, item)
        kinds = [field.name for field, _ in written.ListFields()]
        if len(kinds) != 1:
            raise TypeError("the items are of several types")
    except (TypeError, AttributeError, ValueError) as error:
        sys.stderr.write(_UNWRITTEN.format(key, error))
        return
    meta_graph.collection_def[key].CopyFrom(written)


def _write_item(written: Any, item: Any) -> None:
    if isinstance(item, bool | int):
        written.int64_list.value.append(int(item))
    elif isinstance(item, float):
        written.float_list.value.append(item)
    elif isinstance(item, str | bytes):
        written.bytes_list.value.append(item.encode() if isinstance(item, str) else item)
    elif isinstance(item, Tensor | Operation):
        written.node_list.value.append(item.name)
    elif isinstance(item, Variable):
        definition = item.to_proto()
        if definition is not None:
            written.bytes_list.value.append(variable_message(definition).SerializeToString())
    elif hasattr(item, "to_proto") and (message := item.to_proto()) is not None:
        written.bytes_list.value.append(message.SerializeToString())
    else:
        written.node_list.value.append(item.name)


def variable_message(definition: VariableDef) -> Any:
    """A VariableDef as the protocol buffer message."""
    found = message_class("VariableDef")(
        variable_name=definition.variable_name,
        initializer_name=definition.initializer_name,
        snapshot_name=definition.snapshot_name,
        initial_value_name=definition.initial_value_name,
        is_resource=definition.is_resource,
        trainable=definition.trainable,
        synchronization=definition.synchronization,
        aggregation=definition.aggregation,
    )
    part = definition.save_slice_info_def
    if part is not None:
        found.save_slice_info_def.full_name = part.full_name or ""
        for name in ("full_shape", "var_offset", "var_shape"):
            getattr(found.save_slice_info_def, name).extend(getattr(part, name))
    return found


def write_graph(graph_or_graph_def: Any, logdir: Any, name: str, as_text: bool = True) -> str:
    """`tf.train.write_graph`: a graph, or a message, as a file; its path."""
    message = graph_or_graph_def.as_graph_def() if isinstance(graph_or_graph_def, Graph) else graph_or_graph_def
    directory = os.fspath(logdir)
    if directory:
        os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, name)
    data = to_text(message).encode() if as_text else message.SerializeToString(deterministic=True)
    with open(path, "wb") as file:
        file.write(data)
    return path


# --- reading


def read_meta_graph(meta_graph_or_file: Any) -> Any:
    """The MetaGraphDef of a file.  Raises OSError for one that isn't there."""
    kind = message_class("MetaGraphDef")
    if isinstance(meta_graph_or_file, kind):
        return meta_graph_or_file
    path = os.fspath(meta_graph_or_file)
    if not os.path.exists(path):
        raise OSError(f"File {path} does not exist.")
    with open(path, "rb") as file:
        data = file.read()
    try:
        return parse("MetaGraphDef", data)
    except WireError:
        try:
            return parse_text("MetaGraphDef", data)
        except WireError as error:
            raise OSError(f"Cannot parse file {path}: {error}.") from None


def import_meta_graph(
    meta_graph_or_file: Any, clear_devices: bool = False, import_scope: str | None = None, **kwargs: Any
) -> Any:
    """Adds a MetaGraphDef's graph and collections to the default graph; its Saver, or one of all variables, or None."""
    from placesim.tf1.graph_defs.importer import import_graph_def

    given = read_meta_graph(meta_graph_or_file)
    graph = get_default_graph()
    graph_def = message_class("GraphDef")()
    graph_def.CopyFrom(given.graph_def)
    if clear_devices:
        for node in graph_def.node:
            node.device = ""
    scope = import_scope
    if import_scope:
        with tf.name_scope(import_scope) as opened:
            scope = opened.rstrip("/")
    input_map = kwargs.get("input_map")
    import_graph_def(graph_def, name=f"{scope}/" if scope else "", input_map=input_map)
    variables: dict[str, Variable] = {}
    for key in sorted(given.collection_def):
        _read_collection(graph, key, given.collection_def[key], scope, variables)
    if given.HasField("saver_def"):
        saver_def = message_class("SaverDef")()
        saver_def.CopyFrom(given.saver_def)
        return Saver(saver_def=saver_def, name=scope)
    if tf.global_variables():
        return Saver()
    return None


def _read_collection(graph: Graph, key: str, given: Any, scope: str | None, variables: dict[str, Variable]) -> None:
    kind = given.WhichOneof("kind")
    if kind is None:
        return
    for value in getattr(given, kind).value:
        item: Any = value
        if kind == "node_list":
            item = graph.as_graph_element(f"{scope}/{value}" if scope else value)
        elif kind == "bytes_list" and key in _VARIABLES:
            item = variables.get(value)
            if item is None:
                item = variables[value] = _read_variable(value, scope)
        elif kind == "bytes_list" and key == GraphKeys.QUEUE_RUNNERS:
            from placesim.tf1.queues.queue_runners import QueueRunner

            item = QueueRunner(queue_runner_def=parse("QueueRunnerDef", value), import_scope=scope)
        elif kind == "bytes_list" and key == GraphKeys.SAVERS:
            item = Saver.from_proto(parse("SaverDef", value), scope)
        elif kind == "bytes_list" and scope:
            item = f"{scope}/{value.decode()}"
        graph.add_to_collection(key, item)


def _read_variable(data: bytes, scope: str | None) -> Variable:
    from placesim.tf1.variables.reference import RefVariable
    from placesim.tf1.variables.resource import ResourceVariable

    message = parse("VariableDef", data)
    part = None
    if message.HasField("save_slice_info_def"):
        info = message.save_slice_info_def
        part = SaveSliceInfo(info.full_name, list(info.full_shape), list(info.var_offset), list(info.var_shape))
    definition = VariableDef(
        message.variable_name,
        message.initializer_name,
        message.snapshot_name,
        message.initial_value_name,
        message.is_resource,
        message.trainable,
        message.synchronization,
        message.aggregation,
        part,
    )
    kind: Any = ResourceVariable if message.is_resource else RefVariable
    return kind(variable_def=definition, import_scope=scope)  # type: ignore[no-any-return]
