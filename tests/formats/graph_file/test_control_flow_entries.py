"""`cond` and `while` of a graph file, beside what `tf.cond` and `tf.while_loop` make."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

import placesim.tf1 as tf
from placesim.api.runs import run
from placesim.core.errors import GraphFileError
from placesim.formats.graph_file.reader import read_graph_file
from placesim.graph.graph import Graph, LibraryFunction

_MARKS = ("_has_manual_control_dependencies", "debug_name")


def made_by(build: Callable[[], Any]) -> Graph:
    graph = tf.Graph()
    with graph.as_default():
        tf.enable_control_flow_v2()
        try:
            build()
        finally:
            tf.disable_control_flow_v2()
    found: Graph = graph.builder.graph
    return found


def plain(text: Any) -> str:
    """Without the numbers of functions, which count what else the process has made."""
    return re.sub(r"_(true|false|cond|body|grad)_\d+", r"_\1", str(text))


def rows(graph: Graph) -> list[Any]:
    found: list[Any] = []
    for node in graph.nodes:
        attrs = {key: plain(value) for key, value in graph.full_attrs(node).items() if key not in _MARKS}
        found.append((node.name, node.op, graph.input_texts(node), node.device, attrs))
    return found


def function_rows(function: LibraryFunction) -> Any:
    nodes = [
        (node.name, node.op, node.inputs, node.device, {k: plain(v) for k, v in node.attrs.items() if k not in _MARKS})
        for node in function.nodes
    ]
    return plain(function.name), plain(function.inputs), plain(function.outputs), nodes, plain(dict(function.attrs))


def assert_alike(text: str, build: Callable[[], Any]) -> None:
    found, expected = read_graph_file(text).graph, made_by(build)
    assert rows(found) == rows(expected)
    assert sorted(map(function_rows, found.functions.values()), key=str) == sorted(
        map(function_rows, expected.functions.values()), key=str
    )


def constants() -> tuple[Any, Any]:
    return tf.constant(3.0, name="x"), tf.constant(True, name="p")


HEAD = """
nodes:
  - {op: Const, name: x, value: 3.0}
  - {op: Const, name: p, value: true}
"""


def test_a_conditional() -> None:
    def build() -> None:
        x, p = constants()
        y = tf.constant([1.0, 2.0], name="y")
        tf.cond(p, lambda: gen_mul(x, y), lambda: tf.negative(y))

    assert_alike(
        HEAD
        + """
  - {op: Const, name: y, value: [1.0, 2.0]}
  - cond: {if: p, then: {op: Mul, inputs: [x, y]}, else: {op: Neg, inputs: [y]}}
""",
        build,
    )


def gen_mul(x: Any, y: Any) -> Any:
    return tf.raw_ops.Mul(x=x, y=y)


def test_a_conditional_in_scopes_with_two_results() -> None:
    def build() -> None:
        x, p = constants()

        def then() -> Any:
            with tf.device("/gpu:1"), tf.name_scope("inner"):
                product = gen_mul(x, x)
                return product, tf.negative(product)

        with tf.name_scope("layer"), tf.device("/cpu:0"):
            tf.cond(p, then, lambda: (x, tf.identity(x)), name="choose")

    assert_alike(
        HEAD
        + """
  - scope: layer
    device: /cpu:0
    nodes:
      - name: choose
        cond:
          if: p
          then: [{scope: inner, device: /gpu:1, nodes: [{op: Mul, id: x, inputs: [x, x]}, {op: Neg, id: y, inputs: [x]}]}]
          else: {op: Identity, id: y, inputs: [x]}
          outputs: [x, y]
""",
        build,
    )


def test_variables_in_branches() -> None:
    def build() -> None:
        x, p = constants()
        w = tf.get_variable("w", [], initializer=tf.ones_initializer())
        r = tf.get_variable("r", [], initializer=tf.ones_initializer(), use_resource=True)
        tf.cond(p, lambda: tf.raw_ops.Mul(x=x, y=w), lambda: tf.raw_ops.Sub(x=x, y=r))

    assert_alike(
        HEAD
        + """
  - {variable: w, shape: [], initializer: ones}
  - {variable: r, shape: [], initializer: ones, kind: resource}
  - cond: {if: p, then: {op: Mul, inputs: [x, w]}, else: {op: Sub, inputs: [x, r]}}
""",
        build,
    )


def test_branches_that_only_act() -> None:
    def build() -> None:
        _, p = constants()
        tf.cond(p, lambda: tf.no_op(), lambda: tf.no_op(name="nothing"))

    assert_alike(HEAD + "  - cond: {if: p, then: {op: NoOp}, else: {op: NoOp, name: nothing}}\n", build)


def test_a_loop() -> None:
    def build() -> None:
        x, _ = constants()
        tf.while_loop(
            lambda i, total: tf.raw_ops.Less(x=i, y=10),
            lambda i, total: (tf.raw_ops.AddV2(x=i, y=1), tf.raw_ops.Mul(x=total, y=x)),
            [0, x],
            name="loop",
            maximum_iterations=7,
            parallel_iterations=3,
            shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)],
        )

    assert_alike(
        HEAD
        + """
  - name: loop
    while:
      loop_vars: {i: 0, total: x}
      cond: {op: Less, inputs: [i, 10]}
      body: [{op: AddV2, id: i, inputs: [i, 1]}, {op: Mul, id: total, inputs: [total, x]}]
      maximum_iterations: 7
      parallel_iterations: 3
      shape_invariants: {total: unknown}
""",
        build,
    )


def test_a_loop_in_a_branch_in_a_loop() -> None:
    def build() -> None:
        x, p = constants()

        def inner() -> Any:
            return tf.while_loop(
                lambda k: tf.raw_ops.Less(x=k, y=x), lambda k: tf.raw_ops.AddV2(x=k, y=x), [tf.constant(0.0, name="zero")]
            )

        tf.while_loop(
            lambda t: tf.raw_ops.Less(x=t, y=10.0),
            lambda t: tf.raw_ops.AddV2(x=t, y=tf.cond(p, inner, lambda: tf.identity(x))),
            [x],
        )

    assert_alike(
        HEAD
        + """
  - while:
      loop_vars: {t: x}
      cond: {op: Less, inputs: [t, 10.0]}
      body:
        - id: step
          cond:
            if: p
            then:
              - {op: Const, name: zero, value: 0.0}
              - while: {loop_vars: {k: zero}, cond: {op: Less, inputs: [k, x]}, body: {op: AddV2, id: k, inputs: [k, x]}}
            else: {op: Identity, inputs: [x]}
        - {op: AddV2, id: t, inputs: [t, step]}
""",
        build,
    )


def test_what_waits_outside() -> None:
    def build() -> None:
        x, p = constants()

        def then() -> Any:
            with tf.control_dependencies([p]):
                return tf.negative(x)

        tf.cond(p, then, lambda: tf.identity(x))

    assert_alike(HEAD + "  - cond: {if: p, then: {op: Neg, inputs: [x, ^p]}, else: {op: Identity, inputs: [x]}}\n", build)


VARIABLES = """
  - {variable: r, shape: [], initializer: ones, kind: resource}
  - {variable: v, shape: [], initializer: ones}
"""


def variables() -> tuple[Any, Any]:
    r = tf.get_variable("r", [], initializer=tf.ones_initializer(), use_resource=True)
    return r, tf.get_variable("v", [], initializer=tf.ones_initializer())


def test_what_is_colocated_with_a_node_outside() -> None:
    def build() -> None:
        x, p = constants()

        def then() -> Any:
            with tf.device("/gpu:1"), tf.colocate_with(x):
                return tf.raw_ops.Neg(x=x)

        def otherwise() -> Any:
            with tf.colocate_with(x):
                product = gen_mul(x, x)
                with tf.colocate_with(product):
                    return tf.raw_ops.Abs(x=product)

        tf.cond(p, then, otherwise)

    assert_alike(
        HEAD
        + """
  - cond:
      if: p
      then: [{device: /gpu:1, nodes: [{op: Neg, inputs: [x], colocate_with: x}]}]
      else:
        - colocate_with: x
          nodes: [{op: Mul, id: y, inputs: [x, x]}, {op: Abs, inputs: [y], colocate_with: y}]
""",
        build,
    )


def test_a_resource_is_changed_in_a_branch() -> None:
    def build() -> None:
        x, p = constants()
        r, _ = variables()

        def then() -> Any:
            add = tf.raw_ops.AssignAddVariableOp(resource=r.handle, value=x)
            with tf.control_dependencies([add]):
                return tf.raw_ops.Identity(input=x)

        tf.cond(p, then, lambda: tf.raw_ops.Neg(x=x))

    assert_alike(
        HEAD
        + VARIABLES
        + """
  - cond:
      if: p
      then:
        - {op: AssignAddVariableOp, id: add, inputs: [r, x]}
        - {control_inputs: add, nodes: [{op: Identity, inputs: [x]}]}
      else: {op: Neg, inputs: [x]}
""",
        build,
    )


def test_an_initializer_in_a_branch() -> None:
    def build() -> None:
        _, p = constants()
        variables()
        tf.cond(p, lambda: tf.global_variables_initializer(), lambda: tf.no_op())

    assert_alike(HEAD + VARIABLES + "  - cond: {if: p, then: {initializer: init}, else: {op: NoOp}}\n", build)


def test_gradients_in_a_branch() -> None:
    def build() -> None:
        x, p = constants()
        r, v = variables()

        def then() -> Any:
            product = gen_mul(gen_mul(x, r), v)
            return tf.gradients(product, [x, r])

        tf.cond(p, then, lambda: [tf.raw_ops.Identity(input=x), tf.raw_ops.Neg(x=x)])

    assert_alike(
        HEAD
        + VARIABLES
        + """
  - cond:
      if: p
      then:
        - {op: Mul, id: xr, inputs: [x, r]}
        - {op: Mul, id: y, inputs: [xr, v]}
        - gradients: {of: y, with_respect_to: {dx: x, dr: r}}
      else: [{op: Identity, id: dx, inputs: [x]}, {op: Neg, id: dr, inputs: [x]}]
      outputs: [dx, dr]
""",
        build,
    )


def test_gradients_through_a_conditional_and_a_loop() -> None:
    def build() -> None:
        x, p = constants()
        y = tf.cond(p, lambda: gen_mul(x, x), lambda: tf.raw_ops.Identity(input=x))
        _, z = tf.while_loop(
            lambda i, y: tf.raw_ops.Less(x=i, y=2), lambda i, y: (tf.raw_ops.AddV2(x=i, y=1), gen_mul(y, x)), [0, y]
        )
        tf.gradients(z, [x])

    assert_alike(
        HEAD
        + """
  - {id: y, cond: {if: p, then: {op: Mul, inputs: [x, x]}, else: {op: Identity, inputs: [x]}}}
  - while:
      loop_vars: {i: 0, y: y}
      cond: {op: Less, inputs: [i, 2]}
      body: [{op: AddV2, id: i, inputs: [i, 1]}, {op: Mul, id: y, inputs: [y, x]}]
  - gradients: {of: y, with_respect_to: [x]}
""",
        build,
    )


@pytest.mark.parametrize("optimizer", ["GradientDescent", "Momentum"])
@pytest.mark.parametrize("is_written_apart", [False, True])
def test_training_in_a_branch(optimizer: str, is_written_apart: bool) -> None:
    figures = {"learning_rate": 0.1} | ({"momentum": 0.9} if optimizer == "Momentum" else {})

    def build() -> None:
        x, p = constants()
        r, _ = variables()

        def then() -> Any:
            loss = gen_mul(x, r)
            made = getattr(tf.train, optimizer + "Optimizer")(**figures)
            if not is_written_apart:
                return made.minimize(loss, var_list=[r])
            (gradient,) = tf.gradients(loss, [r.handle])
            return made.apply_gradients([(gradient, r)])

        tf.cond(p, then, lambda: tf.no_op())

    train = f"{{minimize: loss, variables: r, optimizer: {{{optimizer}: {figures}}}}}"
    entries = f"[{{op: Mul, id: loss, inputs: [x, r]}}, {{train: {train}}}]"
    if is_written_apart:
        gradients = "{id: grads, gradients: {of: loss, with_respect_to: r}}"
        train = f"{{apply: grads, optimizer: {{{optimizer}: {figures}}}}}"
        entries = f"[{{op: Mul, id: loss, inputs: [x, r]}}, {gradients}, {{train: {train}}}]"
    assert_alike(
        HEAD + VARIABLES + f"  - cond: {{if: p, then: {entries}, else: {{op: NoOp}}}}\n".replace("'", ""),
        build,
    )


def test_a_loop_trains() -> None:
    report = run(
        yaml.safe_load(
            """
nodes:
  - {variable: w, shape: [], initializer: ones, kind: resource}
  - while:
      loop_vars: {i: 0}
      cond: {op: Less, inputs: [i, 3]}
      body:
        - {op: Square, id: loss, inputs: [w]}
        - {id: step, train: {minimize: loss, optimizer: {GradientDescent: {learning_rate: 0.25}}}}
        - {control_inputs: step, nodes: [{op: AddV2, id: i, inputs: [i, 1]}]}
  - {initializer: init}
run:
  - fetch: [init]
  - fetch: [i]
  - fetch: [w]
"""
        )
    )
    assert [float(row.value) for row in report.results] == [3, 0.125]


def test_numbers_of_functions_are_the_files_own() -> None:
    text = HEAD + "  - cond: {if: p, then: {op: Neg, inputs: [x]}, else: {op: Abs, inputs: [x]}}\n"
    first = list(read_graph_file(text).graph.functions)
    tf.constant(1.0)
    assert list(read_graph_file(text).graph.functions) == first


RUN = """
fetch: [RESULTS]
"""


@pytest.mark.parametrize(
    ("entries", "results", "values"),
    [
        ("- {id: y, cond: {if: p, then: {op: Neg, inputs: [x]}, else: {op: Abs, inputs: [x]}}}", "y", [-3.0]),
        ("- cond: {if: p, then: {op: Neg, id: x, inputs: [x]}, outputs: x}", "x", [-3.0]),
        (
            "- while: {loop_vars: {i: 0, x: x}, cond: {op: Less, inputs: [i, 3]},"
            " body: [{op: AddV2, id: i, inputs: [i, 1]}, {scope: deep, nodes: [{op: Mul, id: x, inputs: [x, 2.0]}]}]}",
            "i, x",
            [3, 24.0],
        ),
        (
            "- device: [/cpu:0, /cpu:0]\n    nodes:\n"
            "      - {id: y, cond: {if: p, then: {op: Add, inputs: [x, 1.0]}, else: {op: Abs, inputs: [x]}}}\n"
            "  - {id: sum, op: AddN, inputs: [y]}",
            "sum",
            [8.0],
        ),
    ],
)
def test_results(entries: str, results: str, values: list[float]) -> None:
    text = HEAD + "  " + entries + RUN.replace("RESULTS", results)
    report = run(yaml.safe_load(text))
    assert [float(row.value) for row in report.results] == values


@pytest.mark.parametrize(
    ("entries", "problems"),
    [
        ("{cond: {then: {op: NoOp}, else: {op: NoOp}}}", "5:12: no 'if' in 'cond': got no such key, expected it"),
        ("{cond: {if: p, then: {op: NoOp}}}", "5:12: no 'else' in 'cond': got no such key, expected it, or 'outputs'"),
        (
            "{cond: {if: q, then: {op: NoOp}, else: {op: NoOp}}}",
            "5:17: unknown node: got 'q', expected the name or id of a node",
        ),
        ("{cond: p}", "5:12: wrong type of 'cond': got 'p', expected a mapping"),
        (
            "{cond: {if: p, then: {op: Neg, inputs: [z]}, else: {op: Neg, inputs: [x]}}}",
            "5:45: unknown node: got 'z', expected the name or id of a node",
        ),
        (
            "{cond: {if: p, then: {op: Neg, id: y, inputs: [x]}, outputs: [y]}}",
            "5:67: unknown output of 'else': got 'y', expected the name or id of a node of it, or around it",
        ),
        ("{cond: {if: p, then: [], else: {op: NoOp}}}", "5:26: no results in 'then': got no entry, expected at least one"),
        (
            "{cond: {if: p, then: {variable: w, shape: []}, else: {op: NoOp}}}",
            "5:27: wrong entry of a body: got one with 'variable', expected it outside of 'cond' and 'while', where",
        ),
        (
            "{cond: {if: p, then: {op: NoOp, name: n, raw: true}, else: {op: NoOp}}}",
            "5:46: wrong entry of a body: got one with 'raw', expected it outside of 'cond' and 'while': a NodeDef refers",
        ),
        (
            "{cond: {if: p, then: {op: Neg, inputs: [x], colocate_with: xx}, else: {op: Neg, inputs: [x]}}}",
            "5:64: unknown node: got 'xx', expected the name or id of a node",
        ),
        (
            "{cond: {if: p, then: {train: {minimize: x, optimizer: Nesterov}}, else: {op: NoOp}}}",
            "5:59: unknown optimizer: got 'Nesterov', expected",
        ),
        (
            "{cond: {if: p, then: {gradients: {of: x, with_respect_to: q}}, else: {op: Neg, inputs: [x]}}}",
            "5:63: unknown node: got 'q', expected the name or id of a node",
        ),
        (
            "{cond: {if: p, then: {gradients: {of: x, with_respect_to: [x, x]}}, else: {op: Neg, inputs: [x]}}}",
            "5:5: branches of 2 and 1 results: expected as many of each",
        ),
        (
            "{cond: {if: p, then: {initializer: 3}, else: {op: NoOp}}}",
            "5:40: wrong type of 'initializer': got 3, expected a name",
        ),
        (
            "{cond: {if: p, then: {op: Neg, inputs: [x]}, else: {op: MatMul, inputs: [x, x]}}}",
            "5:56: Shape must be rank 2 but is rank 0",
        ),
        (
            "{cond: {if: p, then: {op: Neg, inputs: [x]}, else: {op: Const, value: 1}}}",
            "5:5: true_fn and false_fn arguments to tf.cond must have the same number, type, and overall structure",
        ),
        ("{cond: {if: true, then: {op: NoOp}, else: {op: NoOp}}}", "5:5: pred must not be a Python bool"),
        ("{while: {cond: {op: NoOp}, body: []}}", "5:13: no 'loop_vars' in 'while': got no such key, expected it"),
        ("{while: {loop_vars: {}, cond: [], body: []}}", "5:25: no loop variables: got an empty mapping"),
        (
            "{while: {loop_vars: {i: 0}, cond: {op: Less, inputs: [i, 3]}, body: {op: Cast, id: i, inputs: [i], "
            "attrs: {DstT: float}}}}",
            "5:5: Loop var Const:0 enters the loop with type",
        ),
        (
            "{while: {loop_vars: {i: 0}, cond: {op: Less, inputs: [i, 3]}, body: [], shape_invariants: {j: []}}}",
            "5:96: unknown key in 'shape_invariants': got 'j', expected i",
        ),
        (
            "{while: {loop_vars: {i: 0}, cond: {op: Less, inputs: [i, 3]}, body: [], do: []}}",
            "5:77: unknown key in 'while': got 'do'",
        ),
        ("{while: {loop_vars: {1: 0}, cond: {op: NoOp}, body: []}}", "5:26: no name of a loop variable: got 1"),
        (
            "{while: {loop_vars: {i: 0}, cond: {op: Less, inputs: [i, 3]}, body: [], maximum_iterations: 0}}",
            "5:97: 'maximum_iterations' out of range: got 0",
        ),
    ],
)
def test_what_is_wrong_is_located(entries: str, problems: str) -> None:
    with pytest.raises(GraphFileError) as raised:
        read_graph_file(HEAD + "  - " + entries + "\n  - {op: NoOp, name: last}\n", "a.yaml")
    assert len(raised.value.problems) == 1
    assert problems in str(raised.value)


def test_invariants_of_no_variables() -> None:
    with pytest.raises(GraphFileError, match="unknown key in 'shape_invariants': got 'i', expected none"):
        read_graph_file(HEAD + "  - while: {loop_vars: {1: 0}, cond: [], body: [], shape_invariants: {i: []}}\n")


def test_what_reads_a_broken_result_is_not_reported() -> None:
    text = (
        HEAD
        + """
  - id: y
    cond: {if: p, then: {op: Neg, inputs: [z]}, else: {op: Neg, inputs: [x]}}
  - while: {loop_vars: {i: y}, cond: {op: Less, inputs: [i, 3]}, body: []}
  - {op: Neg, inputs: [i]}
"""
    )
    with pytest.raises(GraphFileError) as raised:
        read_graph_file(text)
    assert [problem.message for problem in raised.value.problems] == [
        "unknown node: got 'z', expected the name or id of a node"
    ]


def test_gradients_go_through_conditionals_and_loops() -> None:
    report = run(
        yaml.safe_load(
            HEAD
            + """
  - {id: y, cond: {if: p, then: {op: Mul, inputs: [x, x]}, else: {op: Identity, inputs: [x]}}}
  - while:
      loop_vars: {i: 0, y: y}
      cond: {op: Less, inputs: [i, 2]}
      body: [{op: AddV2, id: i, inputs: [i, 1]}, {op: Mul, id: y, inputs: [y, y]}]
  - gradients: {of: y, with_respect_to: {dx: x}}
fetch: [y, dx]
"""
        )
    )
    assert [float(row.value) for row in report.results] == [3.0**8, 8 * 3.0**7]


def test_bodies_have_the_ops_of_the_files_release() -> None:
    text = (
        "tensorflow: '1.15'"
        + HEAD
        + "  - {op: Const, name: m, value: [[1.0]]}\n"
        + "  - cond: {if: p, then: {op: MatMul, inputs: [m, m]}, else: {op: Identity, inputs: [m]}}\n"
    )
    graph = read_graph_file(text).graph
    (product,) = [node for function in graph.functions.values() for node in function.nodes if node.op == "MatMul"]
    assert list(product.attrs) == ["transpose_a", "transpose_b", "T"]
