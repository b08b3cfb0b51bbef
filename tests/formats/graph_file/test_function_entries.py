"""Functions of a graph file whose bodies are entries, beside what TensorFlow's Python makes of the same calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

import placesim.tf1 as tf
from placesim.api.runs import run
from placesim.core.errors import GraphFileError
from placesim.formats.graph_file.reader import read_graph_file
from placesim.graph.graph import LibraryFunction
from placesim.tf1.functions.defun import DefinedFunction, Defun


def functions_of(text: str) -> dict[str, LibraryFunction]:
    return read_graph_file(text).graph.functions


def defined(types: list[Any], body: Callable[..., Any], out_names: list[str]) -> LibraryFunction:
    """What `function.Defun` makes of a Python function."""
    graph = tf.Graph()
    with graph.as_default():
        found = Defun(*types, func_name="f", out_names=out_names)(body)
        assert isinstance(found, DefinedFunction)
        found.add_to_graph(graph)
    made: LibraryFunction = graph.functions["f"]
    return made


def rows(function: LibraryFunction) -> Any:
    nodes = [
        (n.name, n.op, n.inputs, n.device, {k: str(v) for k, v in n.attrs.items() if k != "_has_manual_control_dependencies"})
        for n in function.nodes
    ]
    return function.inputs, function.outputs, nodes, function.attrs.get("_function_def")


def test_a_body_is_what_a_python_function_makes() -> None:
    def body(x: Any, shape: Any) -> Any:
        with tf.device("/gpu:1"), tf.name_scope("layer"):
            product = tf.raw_ops.MatMul(a=x, b=x, transpose_b=True)
        noise = tf.raw_ops.RandomUniform(shape=shape, dtype=tf.float32)
        with tf.control_dependencies([noise]):
            total = tf.raw_ops.Mul(x=product, y=2.0)
        return total, tf.raw_ops.Split(axis=0, value=total, num_split=2)[1]

    text = """
functions:
  - name: f
    inputs: {x: float, shape: int32}
    nodes:
      - scope: layer
        device: /gpu:1
        nodes: [{op: MatMul, id: product, inputs: [x, x], attrs: {transpose_b: true}}]
      - {op: RandomUniform, id: noise, inputs: [shape], dtype: float32}
      - {control_inputs: noise, nodes: [{op: Mul, id: total, inputs: [product, 2.0]}]}
      - {op: Split, id: parts, inputs: [0, total], attrs: {num_split: 2}}
    outputs: {total: total, second: 'parts:1'}
nodes: []
"""
    (found,) = functions_of(text).values()
    assert rows(found) == rows(defined([tf.float32, tf.int32], body, ["total", "second"]))


def test_gradients_in_a_body_are_those_of_a_python_function() -> None:
    def body(x: Any, w: Any) -> Any:
        (gradient,) = tf.gradients(tf.raw_ops.Mul(x=tf.raw_ops.Square(x=x), y=w), [w])
        return gradient

    text = """
functions:
  - name: f
    inputs: [{name: x, type: float}, {name: w, type: float}]
    nodes:
      - {op: Square, id: square, inputs: [x]}
      - {op: Mul, id: y, inputs: [square, w]}
      - gradients: {of: y, with_respect_to: {dw: w}}
    outputs: dw
nodes: []
"""
    (found,) = functions_of(text).values()
    assert rows(found) == rows(defined([tf.float32, tf.float32], body, ["dw"]))


CALL = "nodes:\n  - {op: f, id: y, inputs: [ARGUMENTS]}\nfetch: y\n"


@pytest.mark.parametrize(
    ("function", "arguments", "value"),
    [
        ("{name: f, inputs: {x: float}, nodes: {op: Neg, id: y, inputs: [x]}, outputs: y}", "2.0", -2.0),
        ("{name: f, inputs: {x: float}, nodes: [], outputs: {y: x}}", "2.0", 2.0),
        ("{name: f, nodes: [{op: Const, id: y, value: 3}], outputs: [y]}", "", 3),
        (
            "{name: f, inputs: [{name: x, type: float}], nodes: [{op: Neg, name: n, inputs: [x]}],"
            " outputs: [{name: y, type: float, value: n}]}",
            "2.0",
            -2.0,
        ),
        (
            "{name: f, raw: false, inputs: [{name: x, type: float}], nodes: [{op: Neg, name: n, inputs: [x]}],"
            " outputs: [{name: y, type: float, value: 'n:y:0'}]}",
            "2.0",
            -2.0,
        ),
        (
            "{name: f, inputs: {x: float, p: {type: bool, shape: []}}, nodes: [{cond: {if: p, then: "
            "{op: Neg, id: y, inputs: [x]}, else: {op: Mul, id: y, inputs: [x, x]}, outputs: y}}], outputs: y}",
            "3.0, false",
            9.0,
        ),
        (
            "{name: f, inputs: {x: int32}, nodes: [{while: {loop_vars: {i: 0, x: x}, cond: {op: Less, inputs: [i, 3]},"
            " body: [{op: AddV2, id: i, inputs: [i, 1]}, {op: g, id: x, inputs: [x]}]}}], outputs: x}",
            "1",
            8,
        ),
        (
            "{name: f, inputs: {x: int32}, nodes: [{op: g, id: y, inputs: [x]}, {op: g, id: y, inputs: [y]}], outputs: y}",
            "1",
            4,
        ),
        (
            "{name: f, inputs: {x: int32}, nodes: [{op: PartitionedCall, id: y, inputs: [x], "
            "attrs: {Tout: [int32], f: {func: g, attrs: {T: {type: int32}}}}}],"
            " outputs: y}",
            "5",
            10,
        ),
        (
            "{name: f, inputs: {x: {type_attr: T}}, nodes: [{op: Cast, id: c, inputs: [2], attrs: {DstT: {placeholder: T}}},"
            " {op: g, id: y, inputs: [x]}, {op: Mul, id: y, inputs: [y, c]}], outputs: y}",
            "1.5",
            6.0,
        ),
        (
            "{name: f, inputs: {x: int32}, nodes: [{op: Assert, id: a, inputs: [true, ['no']]}], "
            "control_outputs: a, outputs: x}",
            "5",
            5,
        ),
    ],
)
def test_results(function: str, arguments: str, value: float) -> None:
    twice = "{name: g, inputs: {x: {type_attr: T}}, nodes: {op: AddV2, id: y, inputs: [x, x]}, outputs: {y: y}}"
    text = f"functions:\n  - {function}\n  - {twice}\n" + CALL.replace("ARGUMENTS", arguments)
    assert read_graph_file(text).graph.functions.keys() >= {"f", "g"}
    ((result),) = run(yaml.safe_load(text)).results
    assert result.value == value


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("{op: PartitionedCall, id: y, inputs: [2.0], attrs: {f: twice}}", 4.0),
        ("{op: StatefulPartitionedCall, id: y, inputs: [2], attrs: {f: {func: any, attrs: {T: {type: int32}}}}}", 4),
        ("{op: If, id: y, inputs: [true, 2.0], attrs: {then_branch: twice, else_branch: same}}", 4.0),
        ("{op: Case, id: y, inputs: [1, 2.0], attrs: {branches: [twice, same]}}", 2.0),
    ],
)
def test_a_call_gives_what_its_function_does(call: str, value: float) -> None:
    text = f"""
functions:
  - {{name: twice, inputs: {{x: float}}, nodes: {{op: AddV2, id: y, inputs: [x, x]}}, outputs: y}}
  - {{name: same, inputs: {{x: float}}, nodes: {{op: Identity, id: y, inputs: [x]}}, outputs: y}}
  - {{name: any, inputs: {{x: {{type_attr: T}}}}, nodes: {{op: AddV2, id: y, inputs: [x, x]}}, outputs: y}}
nodes: [{call}]
fetch: y
"""
    ((result),) = run(yaml.safe_load(text)).results
    assert result.value == value


def test_a_call_that_leaves_its_type_open_is_told() -> None:
    text = """
functions: [{name: f, inputs: {x: {type_attr: T}}, nodes: {op: AddV2, id: y, inputs: [x, x]}, outputs: y}]
nodes: [{op: PartitionedCall, inputs: [2], attrs: {f: f}}]
"""
    with pytest.raises(GraphFileError, match="3:9: attr 'Tout' of 'PartitionedCall' can't be inferred"):
        read_graph_file(text)


def test_a_while_of_functions_that_are_written_once() -> None:
    text = """
functions:
  - {name: goes_on, inputs: {i: int32, x: float}, nodes: {op: Less, id: more, inputs: [i, 3]}, outputs: more}
  - name: turn
    inputs: {i: int32, x: float}
    nodes: [{op: AddV2, id: i, inputs: [i, 1]}, {op: Mul, id: x, inputs: [x, 2.0], device: /cpu:0}]
    outputs: [i, x]
nodes:
  - {op: While, id: loop, inputs: [0, 1.0], attrs: {cond: {func: goes_on}, body: {func: turn}}}
fetch: 'loop:1'
"""
    ((result),) = run(yaml.safe_load(text)).results
    assert result.value == 8.0


def test_numbers_of_functions_go_on_where_those_of_the_file_end() -> None:
    branch = "{if: p, then: {op: Neg, id: y, inputs: [x]}, else: {op: Abs, id: y, inputs: [x]}, outputs: y}"
    text = f"""
functions:
  - {{name: cond_true_7, inputs: {{x: float}}, nodes: [], outputs: x}}
  - {{name: f, inputs: {{x: float, p: {{type: bool, shape: []}}}}, nodes: [{{cond: {branch}}}], outputs: y}}
nodes:
  - {{op: Const, name: x, value: 3.0}}
  - {{op: Const, name: p, value: true}}
  - cond: {branch}
"""
    names = list(functions_of(text))
    assert names[:2] == ["cond_true_7", "f"]
    assert len(names) == len(set(names)) == 6
    assert all(int(name.rpartition("_")[2]) > 7 for name in names[2:])


def test_positions_are_those_of_the_entries() -> None:
    text = (
        "functions:\n  - {name: f, inputs: {x: float},\n     nodes: [{op: Neg, id: y, inputs: [x]}], outputs: y}\nnodes: []\n"
    )
    graph = read_graph_file(text, "f.yaml").graph
    assert str(graph.located(graph.functions["f"].nodes[0].location)) == "f.yaml:3:14"


def test_a_raw_function_stays_as_it_stands() -> None:
    raw = {
        "name": "f",
        "inputs": [{"name": "x", "type": "float"}],
        "outputs": [{"name": "z", "type": "float", "value": "late:z:0"}],
        "nodes": [
            {"op": "Mul", "name": "late", "inputs": ["early:y:0", "x"], "attrs": {"T": "float"}},
            {"op": "Neg", "name": "early", "inputs": ["x"], "attrs": {"T": "float"}},
        ],
    }
    found = functions_of(yaml.safe_dump({"functions": [raw], "nodes": []}))["f"]
    assert [(node.name, node.inputs, list(node.attrs)) for node in found.nodes] == [
        ("late", ("early:y:0", "x"), ["T"]),
        ("early", ("x",), ["T"]),
    ]
    assert functions_of(yaml.safe_dump({"functions": [{**raw, "raw": True}], "nodes": []})) == {"f": found}
    with pytest.raises(GraphFileError, match="reference to a later node: got 'early:y:0'"):
        functions_of(yaml.safe_dump({"functions": [{**raw, "raw": False}], "nodes": []}))


BAD = {
    "{inputs: {x: float}, nodes: [], outputs: [x, @{type: float}]}": ("no name of an output: got null, expected a string"),
    "{inputs: {x: float}, nodes: [{op: Neg, id: y, inputs: [@xx]}], outputs: {y: y}}": (
        "unknown node: got 'xx', expected an argument, or the name or id of a node of the function"
    ),
    "{inputs: {data: float}, nodes: [{op: Neg, id: y, inputs: [@dota]}], outputs: {y: y}}": (
        "unknown node: got 'dota', expected an argument, or the name or id of a node of the function; did you mean 'data'?"
    ),
    "{inputs: {x: float}, nodes: [{op: Neg, id: negative, inputs: [x]}], outputs: {y: @negatve}}": (
        "unknown output of 'f': got 'negatve', expected the name or id of a node of it; did you mean 'negative'?"
    ),
    "{inputs: {@x: flaot}, nodes: [{op: Neg, id: y, inputs: [x]}], outputs: {y: y}}": (
        "unknown type: got 'flaot', expected a TensorFlow type; did you mean 'float'?"
    ),
    "{inputs: [@x], nodes: [], outputs: x}": (
        "no type of 'x': got nothing, expected 'type' or 'type_attr', or inputs: {x: float}"
    ),
    "{inputs: {x: float}, nodes: [{@variable: w, shape: []}], outputs: x}": (
        "wrong entry of a body: got one with 'variable', expected it outside of functions"
    ),
    "{name: @f, inputs: {x: float}, nodes: [{op: f, id: y, inputs: [x]}], outputs: y}": (
        "recursive functions: f -> f; expected functions that do not call themselves"
    ),
    "{inputs: [{name: x, type: float}, @{name: x, type: int32}], nodes: [], outputs: x}": (
        "duplicate argument: got 'x' again, expected it once"
    ),
    "{inputs: {@x y: float}, nodes: [{op: Neg, id: y, inputs: [x y]}], outputs: {y: y}}": (
        "'x y' is not a valid root scope name."
    ),
    "{inputs: {x: float}, nodes: [{op: Neg, name: @x, inputs: [x]}], outputs: {y: x}}": (
        "duplicate name in one scope: got 'x' again, expected it once (the first is at g.yaml:2:24)"
    ),
    "{inputs: {x: {type_attr: T}}, nodes: [{op: Mul, id: y, inputs: [x, @2.0]}], outputs: y}": (
        "literal of an open type: got one of type 'T', expected a tensor"
    ),
    "{inputs: {x: {type_attr: T}}, nodes: [@{op: IdentityN, id: y, inputs: [x]}], outputs: y}": (
        "open type in a list: got 'T' in attr 'T' of 'IdentityN'"
    ),
    "{inputs: {x: {type_attr: T}, p: bool}, nodes: {@cond: {if: p, then: {op: NoOp}, else: {op: NoOp}}}}": (
        "wrong entry of a body: got one with 'cond', expected arguments with 'type' around it"
    ),
    "{inputs: [{name: x, type: float}], nodes: [{op: Neg, id: y, inputs: [x]}], outputs: [{name: y, type: @int32}]}": (
        "wrong type of output 'y': got int32, expected float, the type of its node"
    ),
    "{inputs: {x: float}, nodes: [{op: NoOp, name: here}], control_outputs: @hera}": (
        "unknown node: got 'hera', expected an argument, or the name or id of a node of the function; did you mean 'here'?"
    ),
    "{raw: @yes please, inputs: {x: float}, nodes: [], outputs: {y: x}}": (
        "wrong type of 'raw': got 'yes please', expected true or false"
    ),
    "{inputs: @3, nodes: {op: Const, id: y, value: 1}, outputs: y}": ("wrong type of 'inputs': got 3, expected a list"),
    "{inputs: {x: float}, nodes: [], outputs: {y: @3}}": ("wrong type of output 'y': got 3, expected the name or id of a node"),
    "{inputs: {x: {type: float, @shpe: []}}, nodes: [], outputs: x}": ("unknown key in an entry of 'inputs': got 'shpe'"),
    "{inputs: {x: float}, nodes: [{op: Cast, id: y, inputs: [x], attrs: {DstT: @{placeholder: T}}}], outputs: y}": (
        "unknown placeholder: got 'T', expected none outside of a function with 'type_attr'"
    ),
}


@pytest.mark.parametrize("function", BAD)
def test_what_is_wrong_is_located_and_said_once(function: str) -> None:
    line = f"  - {{name: f, {function[1:]}" if "@f" not in function else f"  - {function}"
    calls = "nodes:\n  - {op: f, name: call, inputs: [1.0]}\n  - {op: Neg, inputs: [call]}\n"
    text = "functions:\n" + line.replace("@", "") + "\n" + calls
    with pytest.raises(GraphFileError) as raised:
        read_graph_file(text, "g.yaml")
    (problem,) = raised.value.problems
    assert str(problem).startswith(f"g.yaml:2:{line.index('@') + 1}: {BAD[function]}")


def test_a_circle_of_functions_is_told_once() -> None:
    function = "  - {name: NAME, inputs: {x: float}, nodes: {op: OTHER, id: y, inputs: [x]}, outputs: y}\n"
    for other in (
        function,
        "  - {name: NAME, inputs: [{name: x, type: float}], outputs: [{name: y, type: float, value: 'y:y:0'}],"
        " nodes: [{op: OTHER, name: y, inputs: [x]}]}\n",
    ):
        text = "functions:\n" + function.replace("NAME", "f").replace("OTHER", "g")
        text += other.replace("NAME", "g").replace("OTHER", "f") + "nodes: []\n"
        with pytest.raises(GraphFileError) as raised:
            read_graph_file(text, "g.yaml")
        assert [str(problem) for problem in raised.value.problems] == [
            "g.yaml:2:12: recursive functions: f -> g -> f; expected functions that do not call themselves"
        ]


@pytest.mark.slow
def test_many_functions_that_call_each_other() -> None:
    function = "  - {{name: f{0}, inputs: {{x: float}}, nodes: {{op: f{1}, id: y, inputs: [x]}}, outputs: y}}\n"
    last = "  - {name: f2000, inputs: {x: float}, nodes: {op: Neg, id: y, inputs: [x]}, outputs: y}\n"
    text = "functions:\n" + "".join(function.format(i, i + 1) for i in range(2000)) + last
    found = functions_of(text + "nodes: []\n")
    assert list(found) == [f"f{i}" for i in range(2001)]
    assert found["f0"].outputs[0].value == "f1:y:0"


def test_bodies_are_placed_as_they_ask() -> None:
    text = """
devices: {cpu: 1, gpu: 2}
functions:
  - name: f
    inputs: {x: float}
    nodes:
      - device: /gpu:1
        nodes: [{op: Neg, name: there, inputs: [x]}]
      - {op: Abs, name: here, inputs: [there]}
    outputs: here
nodes:
  - {op: StatefulPartitionedCall, name: call, inputs: [1.0], attrs: {Tout: [float], f: {func: f}}}
fetch: call
"""
    lines = run(yaml.safe_load(text), log_placement=True).text()
    assert "there: (Neg): /job:localhost/replica:0/task:0/device:GPU:1" in lines
    assert "here: (Abs): /job:localhost/replica:0/task:0/device:GPU:0" in lines
