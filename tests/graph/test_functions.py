"""Functions of the library -> graphs of their own."""

from __future__ import annotations

import pytest

from placesim.core.dtypes import FLOAT, INT32, DataType
from placesim.core.errors import InvalidArgumentError
from placesim.graph.functions import find_function, instantiate
from placesim.graph.graph import FunctionArg, Graph, LibraryFunction, NodeDef
from placesim.ops.attributes import Placeholder
from placesim.ops.registry import load_registry

HALVES = LibraryFunction(
    "halves",
    (FunctionArg("x", type_attr="T"), FunctionArg("axis", INT32)),
    (FunctionArg("second", type_attr="T", value="split:output:1"), FunctionArg("first", type_attr="T", value="split:output")),
    (
        NodeDef("wait", "NoOp", ("^split",)),
        NodeDef("split", "Split", ("axis", "x"), "/gpu:0", {"T": Placeholder("T"), "num_split": 2}, 5),
    ),
    {"done": "wait"},
)
CALLER = LibraryFunction(
    "caller",
    (FunctionArg("x", FLOAT),),
    (FunctionArg("y", FLOAT, value="call:first:0"),),
    (
        NodeDef("axis", "Const", (), "", {"dtype": INT32}),
        NodeDef("call", "halves", ("x", "axis:output:0"), "", {"T": FLOAT}),
    ),
)
LIBRARY = {"halves": HALVES, "caller": CALLER}


def library() -> Graph:
    return Graph(load_registry(), LIBRARY)


@pytest.mark.parametrize("dtype", [FLOAT, INT32])
def test_a_body_in_the_runtimes_order(dtype: DataType) -> None:
    body = instantiate(library(), HALVES, {"T": dtype})
    graph = body.graph
    assert [(node.name, node.op) for node in graph.nodes] == [
        ("x", "_Arg"),
        ("axis", "_Arg"),
        ("split", "Split"),
        ("wait", "NoOp"),
        ("second_RetVal", "_Retval"),
        ("first_RetVal", "_Retval"),
    ]
    assert [graph.input_texts(node) for node in graph.nodes] == [[], [], ["axis", "x"], ["^split"], ["split:1"], ["split"]]
    assert (body.args, body.results, body.control_results) == ((0, 1), (4, 5), (3,))
    split = graph.node("split")
    assert (split.device, split.location, split.attrs["T"]) == ("/gpu:0", 5, dtype)
    assert [graph.nodes[i].attrs for i in (0, 1, 4, 5)] == [
        {"T": dtype, "index": 0},
        {"T": INT32, "index": 1},
        {"T": dtype, "index": 0},
        {"T": dtype, "index": 1},
    ]


def test_a_function_is_left_as_it_is() -> None:
    instantiate(library(), HALVES, {"T": FLOAT})
    assert HALVES.nodes[1].attrs["T"] == Placeholder("T")


def test_results_of_a_call_are_found_by_name() -> None:
    graph = instantiate(library(), CALLER, {}).graph
    assert graph.input_texts(graph.node("y_RetVal")) == ["call:1"]
    assert graph.input_texts(graph.node("call")) == ["x", "axis"]
    assert graph.node("call").signature.output_dtypes == (FLOAT, FLOAT)


@pytest.mark.parametrize(
    "text", ["nobody", "nobody:output:0", "split:nothing:0", "split:output:x0", "split:output:²", "nobody:1", "^nobody"]
)
def test_a_result_that_names_nothing(text: str) -> None:
    function = LibraryFunction("f", HALVES.inputs, (FunctionArg("y", FLOAT, value=text),), HALVES.nodes)
    with pytest.raises(InvalidArgumentError) as raised:
        instantiate(library(), function, {"T": FLOAT})
    assert str(raised.value) == f"Input '{text}' of function 'f' does not exist in its body"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (("axis",), "Attempt to access beyond input size: 1 >= 1"),
        (("axis", "x", "x"), "Expected input[2] == 'x' to be a control input."),
        (("x", "x"), "input split_dim[0] expected type int32 != float, the type of x[0]"),
        (("axis", "axis"), "input value[0] expected type float != int32, the type of axis[0]"),
        (("axis", "^axis"), "input ^axis is not found: {{node split}}"),
        (("axis", "other:output:2"), "input other:output:2 is not found: {{node split}}"),
        (("axis", "other:output"), "Input other:output too long for value"),
    ],
)
def test_a_node_of_a_body_has_the_inputs_that_its_op_takes(inputs: tuple[str, ...], message: str) -> None:
    axis, split = HALVES.nodes
    assert split.op == "Split"
    other = split._replace(name="other")
    function = LibraryFunction("f", HALVES.inputs, (), (axis, other, split._replace(inputs=inputs)))
    with pytest.raises(InvalidArgumentError) as raised:
        instantiate(library(), function, {"T": FLOAT})
    assert str(raised.value) == f"{message}\n\tIn {{{{node split}}}}"


def test_an_output_of_a_body_without_an_index_is_the_whole_list() -> None:
    axis, split = HALVES.nodes
    count = NodeDef("sum", "AddN", ("split:output",), "", {"T": FLOAT, "N": 2})
    function = LibraryFunction("f", HALVES.inputs, (), (axis, split, count))
    graph = instantiate(library(), function, {"T": FLOAT}).graph
    assert graph.input_texts(graph.node("sum")) == ["split", "split:1"]


def test_a_control_output_that_names_nothing() -> None:
    function = LibraryFunction("f", HALVES.inputs, (), HALVES.nodes, {"done": "nobody"})
    with pytest.raises(InvalidArgumentError, match=r"Input '\^nobody' of function 'f' does not exist in its body"):
        instantiate(library(), function, {"T": FLOAT})


def test_find_function() -> None:
    assert find_function(library(), "halves") is HALVES
    with pytest.raises(InvalidArgumentError) as raised:
        find_function(library(), "nobody")
    assert str(raised.value) == 'Failed to find function "nobody" in function library: halves, caller'


def test_a_body_with_a_cycle() -> None:
    # TensorFlow 2.21 says the same of this body; the third node is the result
    nodes = tuple(NodeDef(name, "Add", ("x", f"{other}:z:0"), "", {"T": FLOAT}) for name, other in ("pq", "qp"))
    function = LibraryFunction("f", (FunctionArg("x", FLOAT),), (FunctionArg("y", FLOAT, value="p:z:0"),), nodes)
    with pytest.raises(InvalidArgumentError, match=r"^3 nodes in a cycle$") as raised:
        instantiate(library(), function, {})
    assert raised.value.help == ("cycle: p -> q -> p",)


def test_a_body_with_a_loop_that_nothing_enters() -> None:
    back = NodeDef("back", "NextIteration", ("loop:output:0",), "", {"T": FLOAT})
    loop = NodeDef("loop", "Merge", ("back:output:0",) * 2, "", {"T": FLOAT, "N": 2})
    function = LibraryFunction("f", (), (FunctionArg("y", FLOAT, value="loop:output:0"),), (back, loop))
    with pytest.raises(InvalidArgumentError, match=r"^3 nodes in a cycle$") as raised:
        instantiate(library(), function, {})
    assert raised.value.help == ()
