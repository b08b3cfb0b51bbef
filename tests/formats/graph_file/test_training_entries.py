"""`gradients` and `train`: the nodes that TensorFlow's Python makes of the same calls, and what is said of wrong ones."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import placesim
import placesim.tf1 as tf
from placesim.core.errors import GraphFileError
from placesim.formats.graph_file.reader import graph_file_from_mapping, read_graph_file
from placesim.graph.graph import Graph
from placesim.ops.attributes import TensorValue
from tests.processes import run_process

Nodes = list[tuple[Any, ...]]


def nodes_of(graph: Graph) -> Nodes:
    return [
        (n.name, n.op, tuple(graph.input_texts(n)), n.device, {key: shown(value) for key, value in n.attrs.items()})
        for n in graph.nodes
    ]


def shown(value: Any) -> Any:
    return (value.dtype, value.array.tolist()) if isinstance(value, TensorValue) else value


def model(kind: str = "ref", device: str = "") -> list[Any]:
    """A layer's loss; `by_python` makes the same."""
    return [
        {"op": "Const", "name": "x", "value": [[1.0, 2.0], [3.0, 4.0]]},
        {"variable": "w", "initializer": {"value": [[0.5], [0.25]]}, "kind": kind, "device": device},
        {"variable": "b", "shape": [1], "initializer": "zeros", "kind": kind},
        {"variable": "steps", "shape": [], "dtype": "int64", "initializer": "zeros", "kind": kind, "trainable": False},
        {"op": "MatMul", "name": "product", "inputs": ["x", "w"]},
        {"op": "BiasAdd", "name": "sum", "inputs": ["product", "b"]},
        {"op": "Square", "name": "square", "inputs": ["sum"]},
        {"op": "Mean", "name": "loss", "inputs": ["square", "axes"]},
    ]


AXES = {"op": "Const", "name": "axes", "value": [0, 1]}


def entries(kind: str = "ref", device: str = "") -> list[Any]:
    return [AXES, *model(kind, device)]


def by_python(then: Callable[..., Any], kind: str = "ref", device: str = "") -> Nodes:
    graph = tf.Graph()
    with graph.as_default():
        axes = tf.constant([0, 1], name="axes")
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]], name="x")
        resource = kind == "resource"
        with tf.device(device):
            start = tf.constant([[0.5], [0.25]])
            w = tf.get_variable("w", initializer=start, use_resource=resource)
        b = tf.get_variable("b", [1], initializer=tf.zeros_initializer(), use_resource=resource)
        zeros = tf.zeros_initializer()
        steps = tf.get_variable("steps", [], tf.int64, initializer=zeros, use_resource=resource, trainable=False)
        product = tf.raw_ops.MatMul(a=x, b=w, name="product")
        total = tf.raw_ops.BiasAdd(value=product, bias=b, name="sum")
        square = tf.raw_ops.Square(x=total, name="square")
        loss = tf.raw_ops.Mean(input=square, axis=axes, name="loss")
        then(loss=loss, w=w, b=b, steps=steps, x=x)
    return nodes_of(graph.builder.graph)


def built(added: list[Any], kind: str = "ref", device: str = "") -> Nodes:
    found = graph_file_from_mapping({"nodes": [*entries(kind, device), *added], "marks": True})
    return nodes_of(found.graph)


ALIKE: dict[str, tuple[list[Any], Callable[..., Any]]] = {
    "gradients by two variables": (
        [{"gradients": {"of": "loss", "with_respect_to": ["w", "b"]}}],
        lambda loss, w, b, **_: tf.gradients(loss, [w.handle if hasattr(w, "handle") else w._tensor, b._tensor]),
    ),
    "gradients by a tensor, under a name": (
        [{"gradients": {"of": ["loss"], "with_respect_to": "x"}, "name": "slopes"}],
        lambda loss, x, **_: tf.gradients([loss], [x], name="slopes"),
    ),
    "gradients with all options": (
        [
            {
                "gradients": {
                    "of": ["sum"],
                    "with_respect_to": ["x"],
                    "grad_ys": ["square"],
                    "stop_gradients": ["product"],
                    "colocate_gradients_with_ops": True,
                    "gate_gradients": True,
                    "aggregation_method": "tree",
                    "unconnected_gradients": "zero",
                }
            }
        ],
        lambda loss, x, **_: tf.gradients(
            [x.graph.get_tensor_by_name("sum:0")],
            [x],
            grad_ys=[x.graph.get_tensor_by_name("square:0")],
            stop_gradients=[x.graph.get_tensor_by_name("product:0")],
            colocate_gradients_with_ops=True,
            gate_gradients=True,
            aggregation_method=1,
            unconnected_gradients="zero",
        ),
    ),
    "gradient descent": (
        [{"train": {"minimize": "loss", "optimizer": {"GradientDescent": {"learning_rate": 0.1}}}}],
        lambda loss, **_: tf.train.GradientDescentOptimizer(0.1).minimize(loss),
    ),
    "a step counted, one variable, under a name, in a scope and on a device": (
        [
            {
                "scope": "training",
                "device": "/gpu:0",
                "nodes": [
                    {
                        "train": {
                            "minimize": "loss",
                            "optimizer": {"Momentum": {"learning_rate": 0.1, "momentum": 0.9, "use_nesterov": True}},
                            "variables": ["b"],
                            "global_step": "steps",
                            "gate_gradients": "graph",
                            "colocate_gradients_with_ops": True,
                        },
                        "name": "go",
                    }
                ],
            }
        ],
        lambda loss, b, steps, **_: _in_scope(
            lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True).minimize(
                loss, var_list=[b], global_step=steps, gate_gradients=2, colocate_gradients_with_ops=True, name="go"
            )
        ),
    ),
    "a learning rate that is a tensor": (
        [
            {"op": "Const", "name": "rate", "value": 0.1},
            {"train": {"minimize": "loss", "optimizer": {"GradientDescent": {"learning_rate": "rate"}}}},
        ],
        lambda loss, **_: tf.train.GradientDescentOptimizer(tf.constant(0.1, name="rate")).minimize(loss),
    ),
    "Adam, and the initializer of all variables": (
        [{"train": {"minimize": "loss", "optimizer": "Adam"}}, {"initializer": "init"}],
        lambda loss, **_: (tf.train.AdamOptimizer().minimize(loss), tf.global_variables_initializer()),
    ),
    "dual averaging, which reads the step": (
        [
            {
                "train": {
                    "minimize": "loss",
                    "optimizer": {"AdagradDA": {"learning_rate": 0.1, "global_step": "steps"}},
                    "global_step": "steps",
                }
            }
        ],
        lambda loss, steps, **_: tf.train.AdagradDAOptimizer(0.1, steps).minimize(loss, global_step=steps),
    ),
    "gradients, then applied": (
        [
            {"gradients": {"of": "loss", "with_respect_to": ["w", "b"]}, "id": "slopes"},
            {"train": {"apply": "slopes", "optimizer": {"GradientDescent": {"learning_rate": 0.1}}}},
        ],
        lambda loss, w, b, **_: tf.train.GradientDescentOptimizer(0.1).apply_gradients(
            zip(tf.gradients(loss, [w._tensor, b._tensor]), [w, b], strict=True)
        ),
    ),
    "gradients applied as they are written": (
        [
            {"gradients": {"of": "loss", "with_respect_to": {"d_w": "w"}}},
            {"op": "Neg", "name": "up", "inputs": ["d_w"]},
            {"train": {"apply": {"w": "up"}, "optimizer": "RMSProp: {}"}},
        ],
        lambda loss, w, **_: tf.train.RMSPropOptimizer(0.1).apply_gradients(
            [(tf.raw_ops.Neg(x=tf.gradients(loss, [w._tensor])[0], name="up"), w)]
        ),
    ),
}
ALIKE["gradients applied as they are written"][0][2]["train"]["optimizer"] = {"RMSProp": {"learning_rate": 0.1}}


def _in_scope(make: Callable[[], Any]) -> None:
    with tf.name_scope("training"), tf.device("/gpu:0"):
        make()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ref", "resource"])
@pytest.mark.parametrize("case", ALIKE)
def test_an_entry_makes_what_the_same_call_of_tensorflow_makes(case: str, kind: str) -> None:
    added, then = ALIKE[case]
    assert built(added, kind) == by_python(then, kind)


@pytest.mark.parametrize("kind", ["GradientDescent", "Momentum", "RMSProp", "Adagrad", "Adadelta", "Adam", "Ftrl"])
def test_every_optimizer_lessens_a_loss(kind: str) -> None:
    fields: dict[str, Any] = {"learning_rate": 0.05, **({"momentum": 0.5} if kind == "Momentum" else {})}
    train = {"train": {"minimize": "loss", "optimizer": {kind: fields}}, "id": "go"}
    graph = {
        "nodes": [*entries(), train, {"initializer": "init"}],
        "run": [{"fetch": "init"}, {"fetch": ["loss", "go"], "repeat": 3}],
    }
    losses = _losses(graph)
    assert losses[0] > losses[1] > losses[2]


def _losses(graph: dict[str, Any]) -> list[float]:
    return [row["value"] for row in placesim.run(graph).document()["results"] if row["name"] == "loss"]


SHARED: list[Any] = [
    {"variable": "w", "initializer": {"value": [1.0, 2.0]}, "device": "/cpu:0"},
    {"op": "Const", "name": "xs", "value": [[3.0, 4.0], [5.0, 8.0]]},
    {"op": "Unpack", "name": "parts", "inputs": ["xs"], "attrs": {"num": 2}},
]


def test_towers_apply_the_mean_of_their_gradients() -> None:
    tower = [
        {"op": "Mul", "name": "y", "inputs": ["w", "parts:{i}"]},
        {"op": "Sum", "name": "loss", "inputs": ["y", [0]]},
        {"gradients": {"of": "loss", "with_respect_to": {"slope": "w"}}, "id": "slopes"},
    ]
    train = {"train": {"apply": "slopes", "optimizer": {"GradientDescent": {"learning_rate": 0.5}}}, "name": "train"}
    graph = {
        "devices": {"cpu": 1, "gpu": 2},
        "nodes": [
            *SHARED,
            {"scope": "tower", "device": ["/gpu:0", "/gpu:1"], "nodes": tower},
            {"op": "AddN", "name": "total", "inputs": ["slope"]},
            {"device": "/cpu:0", "nodes": [train]},
            {"initializer": "init"},
        ],
        "run": [{"fetch": "init"}, {"fetch": ["total", "train"]}, {"fetch": "w"}],
    }
    report = placesim.run(graph)
    rows = {row["name"]: row["value"] for row in report.document()["results"]}
    assert rows["w"] == [-1.0, -1.0]
    assert rows["total"] == [8.0, 12.0]
    devices = {row["node"]: row["device"][-5:] for row in report.document()["placements"]}
    assert devices["tower/gradients/tower/y_grad/Mul"] == "GPU:0"
    assert devices["tower_1/gradients/tower_1/y_grad/Mul"] == "GPU:1"
    assert devices["average/w/sum"] == devices["average/w"] == devices["train/update_w/ApplyGradientDescent"] == "CPU:0"


def test_an_id_stands_for_the_output_that_the_gradient_is() -> None:
    nodes = [
        {"op": "Const", "name": "a", "value": [1.0, 2.0]},
        {"op": "Const", "name": "b", "value": [3.0, 4.0]},
        {"op": "Pack", "name": "both", "inputs": ["a", "b"]},
        {"op": "Mul", "name": "scaled", "inputs": ["both", [[1.0, 2.0], [3.0, 4.0]]]},
        {"gradients": {"of": "scaled", "with_respect_to": {"d_a": "a", "d_b": "b"}}, "id": "all"},
        {"op": "Identity", "name": "same", "inputs": ["d_b"]},
        {"op": "AddN", "name": "sum", "inputs": ["all"]},
        {"op": "NoOp", "name": "after", "control_inputs": ["d_b"]},
    ]
    report = placesim.run({"nodes": nodes, "fetch": ["d_a", "d_b", "same", "sum", "after"]})
    values = [row["value"] for row in report.document()["results"]]
    assert values == [[1.0, 2.0], [3.0, 4.0], [3.0, 4.0], [4.0, 6.0]]
    asked = placesim.run({"nodes": nodes}, fetch=["d_b", "d_a", "all"])
    assert [row["value"] for row in asked.document()["results"]] == [[3.0, 4.0], [1.0, 2.0], [1.0, 2.0], [3.0, 4.0]]


def test_a_loop_of_single_ops_has_no_gradient() -> None:
    text = Path(__file__).parents[3].joinpath("placesim/manual/graph-file.md").read_text()
    loop = text.partition("# loop.yaml\n")[2].partition("fetch:")[0].replace("value: 2", "value: 2.0").replace("[0]", "[0.0]")
    added = loop.replace("value: 5", "value: 5.0") + "  - {gradients: {of: end, with_respect_to: [start]}}\n"
    with pytest.raises(GraphFileError, match=r"g.yaml:\d+:\d+: no gradient through a loop .* got 'end'") as caught:
        read_graph_file(added, "g.yaml")
    assert len(caught.value.problems) == 1


def test_rows_of_a_gathered_variable_stay_rows() -> None:
    nodes = [
        {"variable": "table", "shape": [4, 2], "initializer": "ones"},
        {"op": "GatherV2", "name": "rows", "inputs": ["table", [1, 3], 0]},
        {"op": "Sum", "name": "loss", "inputs": ["rows", [0, 1]]},
        {"gradients": {"of": "loss", "with_respect_to": {"d": "table"}}, "id": "slopes"},
        {"train": {"apply": "slopes", "optimizer": {"GradientDescent": {"learning_rate": 1.0}}}, "id": "go"},
        {"initializer": "init"},
    ]
    run = [{"fetch": "init"}, {"fetch": ["d", "d.indices", "go"]}, {"fetch": "table"}]
    values = [row["value"] for row in placesim.run({"nodes": nodes, "run": run}).document()["results"]]
    assert values == [[[1.0, 1.0], [1.0, 1.0]], [1, 3], [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]]


def test_steps_have_gradients_of_their_own() -> None:
    nodes: list[Any] = [{"op": "Const", "name": "x", "value": 3.0}, {"op": "Square", "name": "y", "inputs": ["x"]}]
    first = {"nodes": [{"gradients": {"of": "y", "with_respect_to": {"d": "x"}}}], "fetch": "d"}
    second = {
        "nodes": [
            {"op": "Square", "name": "z", "inputs": ["y"]},
            {"gradients": {"of": "z", "with_respect_to": {"e": "x"}}},
        ],
        "fetch": "e",
    }
    rows = placesim.run({"nodes": nodes, "run": [first, second]}).document()["results"]
    assert [row["value"] for row in rows] == [6.0, 108.0]


def text_of(line: str) -> str:
    return (
        "nodes:\n"
        "  - {variable: w, initializer: {value: [1.0, 2.0]}}\n"
        "  - {variable: other, initializer: {value: [1.0]}}\n"
        "  - {op: Sum, name: loss, inputs: [w, [0]]}\n"
        "  - {op: Ceil, name: up, inputs: [w]}\n"
        "  - {op: BesselI0e, name: odd, inputs: [w]}\n"
        f"  - {line}\n"
    )


SGD = "optimizer: {GradientDescent: {learning_rate: 0.1}}"
WRONG = [
    ("{gradients: {}}", "7:17: no 'of' in 'gradients'"),
    ("{gradients: loss}", "7:17: wrong type of 'gradients'"),
    ("{gradients: {of: lost}}", "7:22: unknown node: got 'lost', expected the name or id of a node; did you mean 'loss'?"),
    ("{gradients: {of: loss, with_regard_to: [w]}}", "7:28: unknown key in 'gradients': got 'with_regard_to'"),
    (
        "{gradients: {of: loss, with_respect_to: [w, other]}}",
        "7:49: no gradient: got 'other' of float32, and 'loss' does not depend on it",
    ),
    ("{gradients: {of: loss, with_respect_to: {a: w, b: other}}}", "7:55: no gradient"),
    ("{gradients: {of: loss, with_respect_to: [1]}}", "7:46: wrong type of a reference: got 1"),
    ("{gradients: {of: loss, unconnected_gradients: null}}", "7:51: unknown 'unconnected_gradients': got null"),
    ("{gradients: {of: loss, aggregation_method: addn}}", "did you mean 'add_n'?"),
    ("{gradients: {of: loss}, ids: [a]}", "7:29: unknown key in an entry of gradients: got 'ids'"),
    ("{gradients: {of: odd, grad_ys: [w, w]}}", "7:22: Length mismatch. Passed 2 grad_ys for 1 ys"),
    ("{train: {minimize: loss}}", "7:13: no optimizer in 'train'"),
    (f"{{train: {{{SGD}}}}}", "7:13: no 'minimize' or 'apply' in 'train'"),
    (f"{{train: {{minimize: loss, apply: x, {SGD}}}}}", "conflicting keys"),
    ("{train: {minimize: loss, optimizer: Adan}}", "7:41: unknown optimizer: got 'Adan'"),
    ("{train: {minimize: loss, optimizer: Adan}}", "did you mean 'Adam'?"),
    (
        "{train: {minimize: loss, optimizer: {SGD: {learning_rate: 1}}}}",
        "unknown optimizer: got 'SGD', expected GradientDescent",
    ),
    ("{train: {minimize: loss, optimizer: GradientDescent}}", "7:41: no 'learning_rate' of 'GradientDescent'"),
    ("{train: {minimize: loss, optimizer: {Adam: {lr: 1.0}}}}", "7:49: unknown key in 'Adam': got 'lr'"),
    ("{train: {minimize: loss, optimizer: {Adam: {learning_rate: x}}}}", "unknown node: got 'x'"),
    ("{train: {minimize: loss, optimizer: {Adam: {learning_rate: [1]}}}}", "wrong type of 'learning_rate': got a list"),
    ("{train: {minimize: loss, optimizer: {Adagrad: {learning_rate: 1, initial_accumulator_value: -1}}}}", "must be positive"),
    (f"{{train: {{minimize: loss, variables: [loss], {SGD}}}}}", "not a variable: got another tensor"),
    (f"{{train: {{minimize: loss, variables: [other], {SGD}}}}}", "No gradients provided for any variable"),
    (f"{{train: {{minimize: loss, global_step: loss, {SGD}}}}}", "not a variable: got 'loss'"),
    (f"{{train: {{minimize: loss, gate_gradients: yes, {SGD}}}}}", "expected none or op or graph"),
    (f"{{train: {{apply: loss, {SGD}}}}}", "7:21: not gradients: got 'loss'"),
    (f"{{train: {{apply: {{loss: w}}, {SGD}}}}}", "not a variable: got 'loss'"),
    (f"{{train: {{minimize: loss, {SGD}}}, device: /gpu:x}}", "7:91: invalid literal"),
    (f"{{train: {{minimize: loss, {SGD}}}, name: w}}", "duplicate name in one scope: got 'w' again"),
]


@pytest.mark.parametrize(("line", "expected"), WRONG)
def test_what_is_wrong_is_said_where_it_stands(line: str, expected: str) -> None:
    with pytest.raises(GraphFileError) as caught:
        read_graph_file(text_of(line), "g.yaml")
    assert expected in str(caught.value)
    assert "g.yaml:7:" in str(caught.value)


def test_what_reads_a_gradient_that_could_not_be_made_is_not_reported_as_well() -> None:
    line = (
        "{gradients: {of: lost, with_respect_to: {d: w}}, id: all}\n  - {op: Neg, inputs: [d]}\n  - {op: AddN, inputs: [all]}"
    )
    with pytest.raises(GraphFileError) as caught:
        read_graph_file(text_of(line), "g.yaml")
    assert len(caught.value.problems) == 1


def test_variables_of_an_optimizer_that_nothing_initializes_are_told() -> None:
    train = {"train": {"minimize": "loss", "optimizer": "Adam"}}
    above = graph_file_from_mapping({"nodes": [*entries(), {"initializer": "init"}, train]})
    assert len(above.doubts) == 1
    assert "beta1_power, beta2_power, w/Adam and 3 more" in above.doubts[0]
    below = graph_file_from_mapping({"nodes": [*entries(), {"initializer": "a"}, train, {"initializer": "b"}]})
    assert below.doubts == ()


@pytest.mark.slow
def test_a_file_without_such_entries_never_imports_the_python_front_end(tmp_path: Path) -> None:
    file = tmp_path / "g.yaml"
    file.write_text("nodes: [{op: Const, name: a, value: 1}]")
    code = f"import sys, placesim; placesim.run({str(file)!r}); print([m for m in sys.modules if 'placesim.tf1' in m])"
    assert run_process((sys.executable, "-c", code), check=True).output == "[]\n"


def test_wrong_shapes_before_gradients_are_told_at_their_own_line() -> None:
    text = (
        "nodes:\n  - {variable: w, shape: [3, 2], dtype: float}\n  - {id: y, op: MatMul, inputs: [w, w]}\n"
        "  - {id: z, op: MatMul, inputs: [w, y]}\n  - {gradients: {of: [z], with_respect_to: [w]}}\n"
    )
    with pytest.raises(GraphFileError) as found:
        read_graph_file(text, "f.yaml")
    (problem,) = found.value.problems
    assert (problem.location.line, problem.message[:42]) == (3, "Dimensions must be equal, but are 2 and 3 ")
