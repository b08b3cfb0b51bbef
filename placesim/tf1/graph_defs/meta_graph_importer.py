"""Import MetaGraphDefs: their graph, collections and Saver."""

from __future__ import annotations

import os
from typing import Any

import placesim.tf1 as tf
from placesim.core.protobuf_wire import WireError
from placesim.formats.tensorflow.messages import message_class, parse, parse_text
from placesim.tf1.graph_defs.meta_graphs import CONTEXT_KEYS, PROTO_FUNCTIONS, VARIABLE_FIELDS, VARIABLE_KEYS
from placesim.tf1.graphs.graph import Graph, get_default_graph
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.saving.saver import Saver
from placesim.tf1.variables.variable import SaveSliceInfo, Variable, VariableDef


def read_meta_graph(meta_graph_or_file: Any) -> Any:
    """Read a MetaGraphDef from a file, or return a given one.  Raises OSError for a missing or invalid file."""
    kind = message_class("MetaGraphDef")
    if isinstance(meta_graph_or_file, kind):
        return meta_graph_or_file
    path = os.fspath(meta_graph_or_file)
    if not os.path.exists(path):
        raise OSError(f"File does not exist. Received: {path}.")
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
    meta_graph_or_file: object, clear_devices: bool = False, import_scope: str | None = None, **kwargs: object
) -> Any:
    """Add a MetaGraphDef to the default graph.  Returns its Saver; without one, a Saver of all variables if there are any."""
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
    for node in graph_def.node if scope else ():
        if node.op in ("Enter", "RefEnter"):
            frame = f"{scope}/{node.attr['frame_name'].s.decode()}"
            graph.get_operation_by_name(f"{scope}/{node.name}")._set_attr("frame_name", frame)
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
        elif kind == "bytes_list" and key in VARIABLE_KEYS:
            item = variables.get(value)
            if item is None:
                item = variables[value] = _read_variable(value, scope)
        elif kind == "bytes_list" and key == GraphKeys.QUEUE_RUNNERS:
            from placesim.tf1.queues.queue_runners import QueueRunner

            item = QueueRunner(queue_runner_def=parse("QueueRunnerDef", value), import_scope=scope)
        elif kind == "bytes_list" and key == GraphKeys.SAVERS:
            item = Saver.from_proto(parse("SaverDef", value), scope)
        elif kind == "bytes_list" and key in PROTO_FUNCTIONS and (from_proto := PROTO_FUNCTIONS[key].from_proto):
            item = from_proto(PROTO_FUNCTIONS[key].proto_type.FromString(value), import_scope=scope)
        elif kind == "bytes_list" and scope and key not in CONTEXT_KEYS:
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
    definition = VariableDef(**{name: getattr(message, name) for name in VARIABLE_FIELDS}, save_slice_info_def=part)
    kind: Any = ResourceVariable if message.is_resource else RefVariable
    return kind(variable_def=definition, import_scope=scope)  # type: ignore[no-any-return]
