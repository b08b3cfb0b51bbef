"""Readable text of library functions, with bodies as entries like `nodes`.

The text is read back, and returned only if it gives the same function.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from placesim.core.errors import GraphFileError, InvalidArgumentError
from placesim.formats.graph_file.entries.function_bodies import FunctionEntries
from placesim.formats.graph_file.entries.functions import function_attrs
from placesim.formats.graph_file.parsing.yaml_tree import read_tree
from placesim.formats.graph_file.writing.raw_writer import attrs_document
from placesim.formats.graph_file.writing.scoped_items import Itemizer, same_function, without_defaults
from placesim.formats.graph_file.writing.scoped_texts import EntryTextWriter
from placesim.formats.graph_file.writing.short_values import flow_text
from placesim.formats.problems import FileProblems
from placesim.graph.functions import OpenBody, open_body
from placesim.graph.graph import FunctionArg, Graph, LibraryFunction, TensorRef
from placesim.ops.attributes import Attrs

_FILE = "function"
MOST_RAW = 0.5
"""Maximum share of NodeDefs in a graph or body; with a larger share, a graph is written raw, and a body as a FunctionDef."""


def function_lines(graph: Graph, function: LibraryFunction, marks: bool = False) -> list[str] | None:
    """Return the lines of a function under `functions`; None if only a FunctionDef can express it.

    With `marks`, nodes that are read from the file get the internal attrs that TensorFlow's Python sets.
    """
    try:
        body = open_body(graph, function)
    except InvalidArgumentError:
        return None
    body = body._replace(graph=without_defaults(body.graph))
    itemizer = Itemizer(body.graph, arguments=len(function.inputs), marks=marks)
    items = list(itemizer.items())
    if len(itemizer.raw) > MOST_RAW * len(function.nodes):
        return None
    texts = EntryTextWriter(body.graph, itemizer.marked if marks else None, [arg.name for arg in function.inputs])
    nodes = list(texts.lines(items, "      "))
    attrs = _derived_left_out(body.graph, function.attrs)
    written = list(_lines(function, body, texts, nodes, attrs))
    return written if _is_read_as(function, body.graph, "".join(written), marks) else None


def _lines(function: LibraryFunction, body: OpenBody, texts: EntryTextWriter, nodes: list[str], attrs: Attrs) -> Iterator[str]:
    yield f"  - name: {flow_text(function.name)}\n"
    if function.inputs:
        yield f"    inputs: {flow_text({arg.name: _type(arg) for arg in function.inputs})}\n"
    yield from ["    nodes:\n", *nodes] if nodes else ["    nodes: []\n"]
    outputs = {arg.name: texts.reference(ref) for arg, ref in zip(function.outputs, body.results, strict=True)}
    yield f"    outputs: {flow_text(outputs)}\n"
    if function.control_outputs:
        controls = zip(function.control_outputs, body.controls, strict=True)
        yield f"    control_outputs: {flow_text({name: texts.reference(TensorRef(node, 0)) for name, node in controls})}\n"
    if attrs:
        yield f"    attrs: {flow_text(attrs_document(attrs))}\n"


def _type(arg: FunctionArg) -> Any:
    return {"type_attr": arg.type_attr} if arg.dtype is None else arg.dtype.python_name


def _derived_left_out(body: Graph, attrs: Attrs) -> Attrs:
    """Return a function's attrs without the attr of a stateful function, which the reader adds again."""
    if not any(node.signature.is_stateful for node in body.nodes):
        return attrs
    from placesim.formats.tensorflow.function_def import stateful_attrs

    derived = stateful_attrs(True)
    return {name: value for name, value in attrs.items() if derived.get(name) != value}


def _is_read_as(function: LibraryFunction, body: Graph, text: str, marks: bool) -> bool:
    try:
        (tree,) = read_tree(text, _FILE)
        problems = FileProblems(_FILE, most=1)
        entries = FunctionEntries(body.registry, problems, dict(body.functions), marks)
        found = entries.read(tree, function.name, function_attrs(tree, problems))
    except GraphFileError:
        return False
    return found is not None and same_function(found, function)


def add_default_attrs(graph: Graph, function: LibraryFunction) -> LibraryFunction:
    """Return a copy of a function whose nodes have all attrs with defaults."""
    nodes = []
    for node in function.nodes:
        definition = graph.registry.op(node.op)
        defaults = {} if definition is None else definition.defaults()
        nodes.append(node._replace(attrs={**defaults, **node.attrs}) if defaults.keys() - node.attrs.keys() else node)
    return replace(function, nodes=tuple(nodes))
