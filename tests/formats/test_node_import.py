"""One importer: a NodeDef means the same, and is refused in the same words, in a GraphDef and in a raw graph file."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from placesim.core.dtypes import BOOL, FLOAT, INT32, STRING
from placesim.core.errors import GraphFileError
from placesim.formats.graph_file.reader import read_graph_file
from placesim.formats.graph_file.writing.raw_writer import graph_file_document
from placesim.formats.tensorflow.graph_def import read_graph_def
from placesim.formats.tensorflow.messages import message_class, parse, serialise
from placesim.formats.tensorflow.node_def import NodeWriter
from placesim.graph.graph import Graph, LibraryFunction, NodeDef
from placesim.graph.session_steps import GraphFile
from placesim.ops.attributes import AttrValue, FunctionName, Placeholder, Shape
from placesim.ops.registry import load_registry
from tests.formats.readings import exact

T = {"T": FLOAT}
X = NodeDef("x", "Placeholder", attrs={"dtype": FLOAT})
NO_OP = NodeDef("n", "NoOp")


def neg(*inputs: str, name: str = "a", **attrs: AttrValue) -> NodeDef:
    return NodeDef(name, "Neg", inputs, attrs=attrs or T)


PATCHES = {**T, "ksizes": (1, 2), "strides": (1, 1, 1, 1), "rates": (1, 1, 1, 1), "padding": "VALID"}
BAD_NODES: dict[str, tuple[tuple[NodeDef, ...], tuple[str, ...]]] = {
    # the nodes, and what each problem begins with
    "unknown op": ((NodeDef("a", "Negg"),), ("unknown op: got 'Negg' of node 'a', expected an op of TensorFlow 2.21.0 or a",)),
    "no op": ((NodeDef("a", ""),), ("unknown op: got '' of node 'a', expected an op of TensorFlow 2.21.0 or a function",)),
    "no name": ((NodeDef("", "NoOp"),), ("a node of op 'NoOp' without a name",)),
    "name twice": ((NO_OP, NO_OP), ("Node 'n' is not unique",)),
    "name of a broken node twice": ((NodeDef("n", "No"), NO_OP), ("unknown op: got 'No'", "Node 'n' is not unique")),
    "name with a colon": ((NodeDef("a:1", "NoOp"),), ("Node 'a:1': Node name contains invalid characters",)),
    "name with spaces": ((NodeDef("a b c!", "NoOp"),), ("Node 'a b c!': Node name contains invalid characters",)),
    "name with a caret": ((NodeDef("^a", "NoOp"),), ("Node '^a': Node name contains invalid characters",)),
    "name with a line break": ((NodeDef("a\n", "NoOp"),), ("Node 'a\n': Node name contains invalid characters",)),
    "name beyond ASCII": ((NodeDef("ä", "NoOp"),), ("Node 'ä': Node name contains invalid characters",)),
    "unknown input": ((neg("b"),), ("Node 'a': Unknown input node 'b'",)),
    "two unknown inputs": (
        (NodeDef("a", "Add", ("b", "c"), attrs=T),),
        ("Node 'a': Unknown input node 'b'", "Node 'a': Unknown input node 'c'"),
    ),
    "unknown control input": ((X, neg("x", "^b")), ("Node 'a': Unknown input node '^b'",)),
    "input of a broken node": ((NodeDef("b", "Negg"), neg("b")), ("unknown op: got 'Negg' of node 'b'",)),
    "control input before a data input": (
        (X, NO_OP, neg("^n", "x")),
        ("Node 'a': Control dependencies must come after regular dependencies",),
    ),
    "the same, of later nodes": (
        (neg("^n", "x"), X, NO_OP),
        ("Node 'a': Control dependencies must come after regular dependencies",),
    ),
    "output that is not there": (
        (X, neg("x:7")),
        ("Node 'a': Connecting to invalid output 7 of source node x which has 1 outputs.",),
    ),
    "input of another type": (
        (X, neg("x", T=INT32)),
        ("Input 0 of node a was passed float from x:0 incompatible with expected int32.",),
    ),
    "too few inputs": ((neg(),), ("NodeDef expected inputs 'float' do not match 0 inputs specified; Op<name=Neg;",)),
    "too many inputs": ((X, neg("x", "x")), ("NodeDef expected inputs 'float' do not match 2 inputs specified; Op<name=Neg;",)),
    "missing attr": ((X, NodeDef("a", "Neg", ("x",))), ("NodeDef missing attr 'T' from Op<name=Neg;",)),
    "missing attr that no type follows from": (
        (X, NodeDef("a", "Enter", ("x",), attrs=T)),
        ("NodeDef missing attr 'frame_name' from Op<name=Enter; signature=data:T -> output:T; ",),
    ),
    "constant without a value": (
        (NodeDef("a", "Const", attrs={"dtype": FLOAT}),),
        ("NodeDef missing attr 'value' from Op<name=Const; signature= -> output:dtype; attr=value:tensor; attr=dtype:type>",),
    ),
    "two missing attrs": ((NodeDef("a", "Const"),), ("NodeDef missing attrs 'value', 'dtype' from Op<name=Const;",)),
    "attr of another kind": (
        (neg("a", T=3),),
        ("AttrValue had value with type 'int' when 'type' expected\n\t for attr 'T'\n\t; NodeDef: {{node a}}; Op<name=Neg;",),
    ),
    "text for a number": (
        (NodeDef("a", "Pack", attrs={**T, "N": "many"}),),
        ("AttrValue had value with type 'string' when 'int' expected",),
    ),
    "list for one": ((neg("a", T=(1, 2)),), ("AttrValue had value with type 'list(int)' when 'type' expected",)),
    "one for a list": (
        (NodeDef("a", "IdentityN", attrs={"T": 1}),),
        ("AttrValue had value with type 'int' when 'list(type)' expected",),
    ),
    "function for a type": ((neg("a", T=FunctionName("f")),), ("AttrValue had value with type 'func' when 'type' expected",)),
    "placeholder": ((neg("a", T=Placeholder("T")),), ("attr 'T' is a placeholder outside of a function; NodeDef: {{node a}}",)),
    "unknown attr": ((X, neg("x", T=FLOAT, U=1)), ("NodeDef mentions attr 'U' not in Op<name=Neg;",)),
    "misspelt attr": ((X._replace(attrs={"dtpye": 1, "dtype": FLOAT}),), ("NodeDef mentions attr 'dtpye' not in Op<",)),
    "number of tensors": (
        (NodeDef("a", "Pack", attrs={**T, "N": -3}),),
        ("Value for attr 'N' of -3 must be at least minimum 1\n\t; NodeDef: {{node a}}; Op<name=Pack;",),
    ),
    "more tensors than there can be": (
        (NodeDef("a", "Pack", attrs={**T, "N": 1 << 21}),),
        ("Value for attr 'N' of 2097152 is not a number of tensors; NodeDef: {{node a}}",),
    ),
    "sum of nothing": (
        (NodeDef("a", "AddN", attrs={**T, "N": 0}),),
        ("Value for attr 'N' of 0 must be at least minimum 1\n\t; NodeDef: {{node a}}; Op<name=AddN; signature=",),
    ),
    "text that is not allowed": (
        (X, NodeDef("a", "MirrorPad", ("x", "x"), attrs={**T, "mode": "EDGE"})),
        (
            'Value for attr \'mode\' of "EDGE" is not in the list of allowed values: "REFLECT", "SYMMETRIC"\n\t; '
            "NodeDef: {{node a}}; Op<name=MirrorPad; signature=input:T, paddings:Tpaddings -> output:T; attr=T:type; ",
        ),
    ),
    "type that is not allowed": (
        (X, NodeDef("a", "IFFT", ("x",), attrs={"Tcomplex": FLOAT})),
        (
            "Value for attr 'Tcomplex' of float is not in the list of allowed values: complex64, complex128\n\t; NodeDef: "
            "{{node a}}; Op<name=IFFT; signature=input:Tcomplex -> output:Tcomplex; attr=Tcomplex:type,default=DT_COMPLEX64,",
        ),
    ),
    "two types that are not allowed": (
        (
            NodeDef("s", "Placeholder", attrs={"dtype": STRING}),
            NodeDef("a", "Bitcast", ("s",), attrs={"T": STRING, "type": BOOL}),
        ),
        (
            "Value for attr 'T' of string is not in the list of allowed values: bfloat16, half, float, double, int64, ",
            "Value for attr 'type' of bool is not in the list of allowed values: bfloat16, half, float, double, int64, ",
        ),
    ),
    "list of a type that is not allowed": (
        (NodeDef("a", "DecodeCSV", attrs={"OUT_TYPE": (FLOAT, BOOL)}),),
        ("Value for attr 'OUT_TYPE' of bool is not in the list of allowed values: float, double, int32, int64, string\n\t; ",),
    ),
    "list that is too short": (
        (NodeDef("a", "ExtractImagePatches", attrs=PATCHES),),
        ("Length for attr 'ksizes' of 2 must be at least minimum 4\n\t; NodeDef: {{node a}}; Op<name=ExtractImagePatches; ",),
    ),
    "empty list": (
        (NodeDef("a", "IdentityN", attrs={"T": ()}),),
        ("Length for attr 'T' of 0 must be at least minimum 1\n\t; NodeDef: {{node a}}; Op<name=IdentityN;",),
    ),
    "cycle": (
        (neg("b"), neg("a", name="b")),
        ("cycle: got a -> b -> a, expected no cycle, except from a NextIteration to a Merge",),
    ),
    "control input of itself": (
        (NodeDef("a", "NoOp", ("^a",)),),
        ("cycle: got a -> a, expected no cycle, except from a NextIteration to a Merge",),
    ),
}
GOOD_NAMES = ("a", "_a", ".a", "0", "A/b.c-d_e>f", "a/")


def as_graph_def(nodes: tuple[NodeDef, ...], functions: bytes = b"") -> bytes:
    """The bytes of a GraphDef of these nodes, good or bad."""
    writer = NodeWriter()
    messages = [parse("NodeDef", b"".join(writer.write(n.name, n.op, n.inputs, n.device, n.attrs))) for n in nodes]
    return serialise(message_class("GraphDef")(node=messages)) + functions


def as_yaml(nodes: tuple[NodeDef, ...]) -> str:
    """The same nodes as a raw graph file."""
    holder = Graph(load_registry(), {"f": LibraryFunction("f", (), (), nodes)})
    (function,) = graph_file_document(GraphFile("holder", holder))["functions"]
    return yaml.safe_dump({"raw": True, "nodes": function["nodes"]}, sort_keys=False, allow_unicode=True)


def outcome(read: Any, *args: Any) -> tuple[Any, list[tuple[str, str]]]:
    """What is read, without locations; or the problems, without the places that only a text has."""
    try:
        return exact(read(*args).graph), []
    except GraphFileError as error:
        return None, sorted((re.sub(r" \(the first is at .*?\)", "", p.message), p.error) for p in error.problems)


@pytest.mark.parametrize("case", BAD_NODES)
def test_bad_nodes_are_refused_in_the_same_words(case: str) -> None:
    nodes, expected = BAD_NODES[case]
    _, problems = outcome(read_graph_def, as_graph_def(nodes), "g.pb")
    assert outcome(read_graph_file, as_yaml(nodes), "g.yaml") == (None, problems)
    assert len(problems) == len(expected)
    for (message, _), beginning in zip(problems, sorted(expected), strict=True):
        assert message.startswith(beginning)


@pytest.mark.parametrize("case", BAD_NODES)
def test_a_text_says_where_a_bad_node_is(case: str) -> None:
    with pytest.raises(GraphFileError) as caught:
        read_graph_file(as_yaml(BAD_NODES[case][0]), "g.yaml")
    assert all(problem.location is not None and problem.location.line > 2 for problem in caught.value.problems)


def test_the_place_is_that_of_the_part() -> None:
    text = (
        "raw: true\nnodes:\n"
        "  - {op: Negg, name: a}\n"
        "  - {op: NoOp, name: a b}\n"
        "  - {op: Neg, name: c, attrs: {T: 3}}\n"
        "  - {op: NoOp, name: d, attrs: {U: 3}}\n"
        "  - {op: NoOp, name: e, inputs: ['^d', g]}\n"
        "  - {op: Neg, name: f}\n"
        "  - {op: Placeholder, name: h, dtype: 3}\n"
        "  - {op: AddN, name: i, attrs: {T: float, N: 0}}\n"
    )
    with pytest.raises(GraphFileError) as caught:
        read_graph_file(text, "g.yaml")
    wrong = ("Negg", "a b", "3}}", "U", "g]", "{op: Neg, name: f", "3}", "0}}")
    columns = [line.index(part) + 1 for line, part in zip(text.splitlines()[2:], wrong, strict=True)]
    places = [str(problem.location) for problem in caught.value.problems]
    assert places == [f"g.yaml:{line}:{column}" for line, column in enumerate(columns, 3)]


def test_the_first_of_two_names_is_told() -> None:
    with pytest.raises(GraphFileError, match=r"^g\.yaml:4:22: Node 'a' is not unique \(the first is at g\.yaml:3:5\)$"):
        read_graph_file("raw: true\nnodes:\n  - {op: NoOp, name: a}\n  - {op: NoOp, name: a}\n", "g.yaml")


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_names_that_a_graph_def_may_have(name: str) -> None:
    nodes = (NodeDef(name, "NoOp"), NodeDef("last", "NoOp", (f"^{name}",)))
    read, problems = outcome(read_graph_def, as_graph_def(nodes), "g.pb")
    assert not problems
    assert outcome(read_graph_file, as_yaml(nodes), "g.yaml") == (read, [])


# --- functions ------------------------------------------------------------------------------------------------------

BAD_BODIES = {
    "{op: Negg, name: a}": "unknown op: got 'Negg' of node 'a' in function 'f', expected an op of TensorFlow 2.21.0",
    "{op: Neg, name: a, inputs: [x]}": "NodeDef missing attr 'T' from Op<name=Neg;",
    "{op: Neg, name: a, inputs: [x], attrs: {T: 3}}": "AttrValue had value with type 'int' when 'type' expected",
    "{op: NoOp, name: a, attrs: {U: 3}}": "NodeDef mentions attr 'U' not in Op<name=NoOp;",
    "{op: f, name: a, inputs: [x]}": "recursive functions: f -> f; expected functions that do not call themselves",
}


@pytest.mark.parametrize("body", BAD_BODIES)
def test_a_function_of_a_graph_file_is_checked_as_one_of_a_graph_def(body: str) -> None:
    function = f"{{name: f, inputs: [{{name: x, type: float}}], outputs: [], nodes: [{body}]}}"
    with pytest.raises(GraphFileError) as caught:
        read_graph_file(f"functions: [{function}]\nnodes: []\n", "g.yaml")
    (problem,) = caught.value.problems
    assert problem.message.startswith(BAD_BODIES[body])


def test_nodes_of_one_name_in_a_function() -> None:
    body = "[{op: NoOp, name: a, attrs: {U: 3}}, {op: NoOp, name: a}]"
    with pytest.raises(GraphFileError, match=r"g\.yaml:1:\d+: NodeDef mentions attr 'U' not in Op<name=NoOp;"):
        read_graph_file(f"functions: [{{name: f, nodes: {body}}}]\nnodes: []\n", "g.yaml")


def test_a_function_must_not_bear_the_name_of_an_op() -> None:
    with pytest.raises(GraphFileError, match=r"g\.yaml:1:20: Cannot add function 'NoOp' because an op with the same name"):
        read_graph_file("functions: [{name: NoOp}]\nnodes: []\n", "g.yaml")


# --- laws -----------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(("a", "b", "c", "d", "a b", "", "_e", "x"))
INPUTS = st.lists(st.tuples(st.sampled_from(("", "^")), NAMES, st.sampled_from(("", ":0", ":1"))).map("".join), max_size=3)
ATTRS: st.SearchStrategy[dict[str, AttrValue]] = st.sampled_from(
    ({}, {"T": FLOAT}, {"T": INT32}, {"T": 1}, {"dtype": FLOAT}, {"T": FLOAT, "_x": Shape((2, -1))})
)
NODES = st.builds(
    lambda name, op, inputs, attrs: NodeDef(name, op, tuple(inputs), "/device:CPU:0", attrs),
    NAMES,
    st.sampled_from(("NoOp", "Neg", "Add", "Placeholder", "Ned")),
    INPUTS,
    ATTRS,
)


@pytest.mark.slow
@given(st.lists(NODES, max_size=6))
def test_any_nodes_mean_the_same_both_ways(listed: list[NodeDef]) -> None:
    nodes = tuple(listed)
    graph, problems = outcome(read_graph_def, as_graph_def(nodes), "g.pb")
    assert bool(problems) == (graph is None)

    def plain(found: list[tuple[str, str]]) -> set[tuple[str, str]]:
        # Of a GraphDef's unknown names only the first are worth a suggestion.
        return {(message.partition("; did you mean")[0].partition(". (Check whether")[0], error) for message, error in found}

    again, found = outcome(read_graph_file, as_yaml(nodes), "g.yaml")
    assert (again, plain(found)) == (graph, plain(problems))
