"""Bodies of functions, version 2 control flow and `tf.function`: names, captures and effects as TensorFlow 2.21 makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from placesim.formats.tensorflow.function_def import REST
from placesim.graph.graph import LibraryFunction
from placesim.tf1.errors import InaccessibleTensorError
from placesim.tf1.functions.building import build, function_name
from placesim.tf1.functions.definitions import add_function
from placesim.tf1.functions.function_graph import FunctionGraph
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.session import sessions

tf: Any = namespace("")
Decorator = Callable[[Callable[..., Any]], Any]
traced: Decorator = tf.function


@pytest.fixture(autouse=True)
def _graph() -> Iterator[Any]:
    tf.enable_control_flow_v2()
    with tf.Graph().as_default() as graph:
        yield graph
    tf.disable_control_flow_v2()


def _library() -> list[LibraryFunction]:
    return list(tf.get_default_graph().functions.values())


def _body(part: str) -> LibraryFunction:
    return next(function for function in _library() if part in function.name)


def _nodes(function: LibraryFunction) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(node.name, node.op, node.inputs) for node in function.nodes]


def _attr(op: Any, name: str) -> Any:
    return op.node.attrs[name]


# --- bodies ---------------------------------------------------------------------------------------------------------


def test_a_body_captures_what_it_reads_and_waits_for_its_effects() -> None:
    """As tf.data's map has it: `tf.cast(e, tf.float32) * x[0] + v`."""
    x = tf.placeholder(tf.float32, [2], name="x")
    v = tf.Variable(1.0, use_resource=True, name="v")
    body = FunctionGraph("")
    argument = body.add_argument(tf.int64, tf.TensorShape([]), "args_0")
    build(body, lambda e: tf.cast(e, tf.float32) * x[0] + v, [argument], orders_effects=True)
    body.name = function_name(("__inference_Dataset_map_lambda",))
    name = add_function(tf.get_default_graph(), body, {"_tf_data_function": True})
    found = tf.get_default_graph().functions[name]
    assert body.external_captures == [x, v.handle]
    assert [arg.name for arg in found.inputs] == ["args_0", "strided_slice_x", "add_readvariableop_v"]
    assert [(arg.name, arg.value) for arg in found.outputs] == [("identity", "Identity:output:0")]
    assert dict(found.control_outputs) == {"add/ReadVariableOp": "add/ReadVariableOp"}
    assert _nodes(found)[-4:] == [
        ("add/ReadVariableOp", "ReadVariableOp", ("add_readvariableop_v",)),
        ("add", "AddV2", ("mul:z:0", "add/ReadVariableOp:value:0")),
        ("Identity", "Identity", ("add:z:0", "^NoOp")),
        ("NoOp", "NoOp", ("^add/ReadVariableOp",)),
    ]
    assert found.attrs["_tf_data_function"] is True
    assert REST in found.attrs  # the signature says that it is stateful


def test_results_take_their_names_before_arguments_and_these_before_nodes() -> None:
    p = tf.placeholder(tf.bool, [], name="p")
    x = tf.placeholder(tf.float32, [2], name="x")
    tf.cond(p, lambda: [x, x * 2.0, x], lambda: [x, x, x])
    found = _body("cond_true")
    assert [arg.name for arg in found.outputs] == ["mul_x", "mul", "mul_x_0"]
    assert [arg.name for arg in found.inputs] == ["mul_x_1"]
    assert [node.name for node in found.nodes] == ["mul/y", "mul_0"]


def test_variables_made_in_a_body_stand_outside_and_are_resources() -> None:
    p = tf.placeholder(tf.bool, [], name="p")
    tf.cond(p, lambda: tf.get_variable("made", [2]) * 1.0, lambda: tf.zeros([2]), name="q")
    assert tf.get_default_graph().get_operation_by_name("made").type == "VarHandleOp"
    assert [variable.name for variable in tf.global_variables()] == ["made:0"]


def test_a_reference_does_not_come_in() -> None:
    p = tf.placeholder(tf.bool, [], name="p")
    v = tf.Variable(1.0, name="v")
    with pytest.raises(TypeError) as refused:
        tf.cond(p, lambda: v.assign(2.0), lambda: 1.0)
    assert str(refused.value) == (
        "In op 'Assign', input types ([tf.float32, tf.float32]) are not compatible with expected types "
        "([tf.float32_ref, tf.float32])"
    )


def test_what_an_inner_body_made_is_out_of_reach_in_the_outer_one() -> None:
    p = tf.placeholder(tf.bool, [], name="p")
    kept: list[Any] = []

    def inner() -> Any:
        kept.append(tf.constant(1.0))
        return kept[0]

    def outer() -> Any:
        tf.cond(p, inner, lambda: 2.0)
        return kept[0] + 1.0

    with pytest.raises(InaccessibleTensorError, match="is out of scope and cannot be used here"):
        tf.cond(p, outer, lambda: 1.0)


# --- conditionals ---------------------------------------------------------------------------------------------------


def test_a_conditional_reads_what_its_branches_do_and_says_which_variables_it_only_reads() -> None:
    p = tf.placeholder(tf.bool, [], name="p")
    v = tf.Variable(1.0, use_resource=True, name="v")
    made = tf.cond(p, lambda: v * 2.0, lambda: tf.constant(3.0), name="mine")
    op = made.op.inputs[0].op
    assert made.name == "mine/Identity:0"
    assert op.type == "If"
    assert [tensor.name for tensor in op.inputs] == ["p:0", "v:0"]
    assert _attr(op, "_read_only_resource_inputs") == (1,)
    assert _attr(op, "_lower_using_switch_merge") is True
    assert [arg.name for arg in _body("mine_false").inputs] == ["placeholder"]


def test_what_is_waited_for_outside_is_waited_for_by_the_conditional() -> None:
    p = tf.placeholder(tf.bool, [], name="p")
    x = tf.placeholder(tf.float32, [2], name="x")

    def waits() -> Any:
        with tf.control_dependencies([x]):
            return tf.constant(2.0)

    op = tf.cond(p, waits, lambda: tf.constant(1.0)).op.inputs[0].op
    assert [control.name for control in op.control_inputs] == ["x"]
    assert _nodes(_body("cond_true")) == [("Const", "Const", ())]


def test_a_conditional_without_results_is_not_lowered() -> None:
    p = tf.placeholder(tf.bool, [], name="p")
    assert tf.cond(p, lambda: None, lambda: None) is None
    assert "_lower_using_switch_merge" not in tf.get_default_graph().get_operation_by_name("cond").node.attrs


@pytest.mark.parametrize(
    ("branch", "kind", "told"),
    [
        (lambda: 1.0, TypeError, 'Tensor("Const:0", shape=(), dtype=int32) and Tensor("Const:0", shape=(), dtype=float32)'),
        (lambda: (1, 2), AssertionError, "[1, 2]"),
        (lambda: None, ValueError, "len(graphs[0].outputs): 1\nlen(graphs[1].outputs): 0\n"),
    ],
)
def test_branches_that_differ_are_refused(branch: Any, kind: type[Exception], told: str) -> None:
    p = tf.placeholder(tf.bool, [], name="p")
    with pytest.raises(kind) as refused:
        tf.cond(p, lambda: 1, branch)
    assert told in str(refused.value)


def test_a_switch_case_is_a_case() -> None:
    x = tf.placeholder(tf.int32, [], name="x")
    made = tf.switch_case(x, [lambda: x + 1, lambda: x * 2], default=lambda: x)
    assert made.name == "switch_case/indexed_case/Identity:0"
    assert made.op.inputs[0].op.type == "StatelessCase"
    with sessions.Session() as session:
        assert [session.run(made, {x: i}) for i in (0, 1, 2, 9)] == [1, 2, 2, 9]
    with pytest.raises(ValueError, match=r"branch indices \(keys\) must form contiguous range of \[0 to 2\) but found {0,2}"):
        tf.switch_case(x, {0: lambda: x, 2: lambda: x})


# --- loops ----------------------------------------------------------------------------------------------------------


def test_a_loop_counts_and_passes_on_what_it_captures() -> None:
    x = tf.placeholder(tf.float32, [2], name="x")
    i, z = tf.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, z * x), [0, tf.ones([2])], maximum_iterations=5, name="power")
    op = tf.get_default_graph().get_operation_by_name("power")
    assert (i.name, z.name) == ("power/Identity_2:0", "power/Identity_3:0")
    assert [tensor.name for tensor in op.inputs] == [
        *("power/loop_counter:0", "power/maximum_iterations:0", "Const:0", "ones:0", "x:0")
    ]
    assert _attr(op, "_num_original_outputs") == 5
    cond_names = [arg.name for arg in _body("power_cond").inputs]
    assert cond_names[:4] == ["power_loop_counter", "power_maximum_iterations", "placeholder", "placeholder_1"]
    assert cond_names[4].endswith("___redundant_placeholder0")
    assert [node.op for node in _body("power_cond").nodes] == ["Const", "Less", "Less", "LogicalAnd"]
    assert [arg.name for arg in _body("power_body").outputs] == [*("add_1", "power_maximum_iterations", "add", "mul", "mul_x")]


def test_a_loop_in_a_body_gives_its_own_outputs() -> None:
    """Outside an Identity of each lets it be fetched; inside nothing is."""

    def outer(i: Any) -> Any:
        return tf.while_loop(lambda j: j < i, lambda j: j + 1, [0])

    tf.while_loop(lambda i: i < 3, outer, [0], name="outer")
    assert "Identity" not in {node.op for node in _body("outer_body").nodes}


def test_a_loop_variable_keeps_type_and_shape() -> None:
    x = tf.placeholder(tf.float32, [2], name="x")
    with pytest.raises(TypeError, match="enters the loop with type <dtype: 'int32'> but has type <dtype: 'float32'>"):
        tf.while_loop(lambda i: i < 3, lambda i: tf.cast(i, tf.float32), [0])
    with pytest.raises(ValueError, match=r"Input tensor `x:0` enters the loop with shape \(2,\), but has shape \(4,\)"):
        tf.while_loop(lambda z: z[0] < 3.0, lambda z: tf.concat([z, z], 0), [x])


def test_sparse_loop_variables_may_grow() -> None:
    sparse = tf.SparseTensor([[0, 1]], [1.0], [2, 2])
    _, found = tf.while_loop(
        lambda i, s: i < 3, lambda i, s: (i + 1, tf.SparseTensor(s.indices, s.values * 2.0, s.dense_shape)), (0, sparse)
    )
    assert [tensor.shape.as_list() for tensor in (found.indices, found.values)] == [[None, 2], [None]]
    with sessions.Session() as session:
        assert session.run(found.values).tolist() == [8.0]


def test_arrays_are_lists_of_tensors() -> None:
    array = tf.TensorArray(tf.float32, size=3, name="mine")
    assert array.handle is None
    assert array.flow.name == "mine:0"
    for i in range(3):
        array = array.write(i, float(i))
    assert array.stack().name == "TensorArrayV2Stack/TensorListStack:0"
    with sessions.Session() as session:
        assert session.run(array.stack()).tolist() == [0.0, 1.0, 2.0]


# --- gradients ------------------------------------------------------------------------------------------------------


def test_the_gradient_of_a_branch_reads_what_the_branch_gives_as_optionals() -> None:
    p = tf.placeholder(tf.bool, [], name="p")
    x = tf.placeholder(tf.float32, [2], name="x")
    made = tf.cond(p, lambda: tf.exp(tf.tanh(x)), lambda: x)
    grad = tf.gradients(made, x)[0]
    op = tf.get_default_graph().get_operation_by_name("cond")
    assert grad.name == "gradients/cond_grad/Identity:0"
    assert [tensor.name for tensor in grad.op.inputs[0].op.inputs] == ["p:0", "gradients/grad_ys_0:0", "cond:0", "cond:1"]
    assert _attr(op, "then_branch").name.endswith("_rewritten")
    assert [node.op for node in _body("false_").nodes] == []
    assert [node.op for node in next(f for f in _library() if "false" in f.name and "rewritten" in f.name).nodes] == [
        "OptionalNone"
    ]
    with sessions.Session() as session:
        value = np.array([0.5, -1.0], np.float32)
        slope = np.exp(np.tanh(value)) * (1 - np.tanh(value) ** 2)
        np.testing.assert_allclose(session.run(grad, {p: True, x: value}), slope, rtol=1e-6)
        assert session.run(grad, {p: False, x: value}).tolist() == [1.0, 1.0]


def test_the_gradient_of_a_loop_pops_what_its_turns_pushed() -> None:
    x = tf.placeholder(tf.float32, [2], name="x")
    _, z = tf.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, z * x), [tf.constant(0), tf.constant([1.0, 1.0])])
    grad = tf.gradients(z, x)[0]
    op = tf.get_default_graph().get_operation_by_name("while")
    assert op.inputs[-1].name == "gradients/while_grad/Placeholder_1_0/accumulator:0"
    assert _attr(op, "_num_original_outputs") == 6
    assert _body("body").nodes[-1].op == "AddV2"
    assert next(f for f in _library() if f.name.endswith("rewritten") and "body" in f.name).nodes[-1].op == "TensorListPushBack"
    with sessions.Session() as session:
        assert session.run(grad, {x: [1.0, 2.0]}).tolist() == [3.0, 12.0]


@pytest.mark.parametrize("scan", [False, True])
def test_gradients_go_through_loops_over_elements(scan: bool) -> None:
    x = tf.placeholder(tf.float32, [3], name="x")
    found = tf.scan(lambda a, e: a * e, x) if scan else tf.map_fn(lambda e: e * e, x)
    grad = tf.gradients(found, x)[0]
    with sessions.Session() as session:
        value = session.run(grad, {x: [1.0, 2.0, 3.0]})
    # of 1, ab, abc: 1 + b + bc, a + ac, ab
    assert value.tolist() == ([9.0, 4.0, 2.0] if scan else [2.0, 4.0, 6.0])


def test_second_derivatives() -> None:
    p = tf.placeholder(tf.bool, [], name="p")
    x = tf.placeholder(tf.float32, [], name="x")
    made = tf.cond(p, lambda: x * x * x, lambda: tf.exp(x))
    second = tf.gradients(tf.gradients(made, x)[0], x)[0]
    with sessions.Session() as session:
        assert session.run(second, {p: True, x: 2.0}) == 12.0
        np.testing.assert_allclose(session.run(second, {p: False, x: 2.0}), np.exp(2.0), rtol=1e-6)


# --- tf.function ----------------------------------------------------------------------------------------------------


def test_a_function_is_traced_for_each_kind_of_arguments() -> None:
    seen = []

    @traced
    def twice(a: Any, by: float = 2.0) -> Any:
        seen.append(by)
        return a * by

    x = tf.placeholder(tf.float32, [2], name="x")
    one, other, third = twice(x), twice(x), twice(x, 3.0)
    assert seen == [2.0, 3.0]
    assert [tensor.name for tensor in (one, other, third)] == [
        "PartitionedCall:0",
        "PartitionedCall_1:0",
        "PartitionedCall_2:0",
    ]
    assert _attr(one.op, "f") == _attr(other.op, "f") != _attr(third.op, "f")
    assert _nodes(_body("__inference_twice"))[-1] == ("Identity", "Identity", ("mul:z:0",))


def test_effects_keep_their_order() -> None:
    v = tf.Variable(1.0, use_resource=True, name="v")

    @traced
    def change() -> Any:
        v.assign_add(1.0)
        v.assign(v * 10.0)
        return v + 0.5

    made = change()
    assert made.op.type == "StatefulPartitionedCall"
    nodes = {name: inputs for name, _, inputs in _nodes(_body("change"))}
    assert nodes["ReadVariableOp"] == ("assignaddvariableop_v", "^AssignAddVariableOp")
    assert "^ReadVariableOp" in nodes["AssignVariableOp"]
    assert nodes["ReadVariableOp_1"] == ("assignaddvariableop_v", "^AssignVariableOp")
    with sessions.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(made) == 20.5


def test_a_signature_is_one_trace_and_the_call_knows_the_shape() -> None:
    signed: Decorator = tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])

    @signed
    def parts(t: Any) -> Any:
        return {"s": tf.reduce_sum(t), "m": t * 2.0}

    found = [parts(tf.ones([size])) for size in (2, 3)]
    assert [each["m"].shape.as_list() for each in found] == [[2], [3]]
    assert [each["m"].name for each in found] == ["PartitionedCall:0", "PartitionedCall_1:0"]
    assert len(_library()) == 1


def test_the_gradient_of_a_call_makes_it_give_what_the_gradient_reads() -> None:
    v = tf.Variable([1.0, 2.0], use_resource=True, name="v")
    x = tf.placeholder(tf.float32, [2], name="x")

    @traced
    def f(a: Any) -> Any:
        return tf.exp(a) * v

    made = f(x)
    of_x, of_v = tf.gradients(made, [x, v])
    assert of_x.name == "gradients/StatefulPartitionedCall_grad/PartitionedCall:0"
    assert _attr(made.op, "f").name.startswith("__forward_f_")
    back = _attr(of_x.op, "f").name
    assert back.startswith("__inference___backward_f_")
    assert tf.get_default_graph().functions[_attr(made.op, "f").name].attrs["backward_function_name"] == back
    with sessions.Session() as session:
        session.run(tf.global_variables_initializer())
        found = session.run([of_x, of_v], {x: [0.0, 1.0]})
    np.testing.assert_allclose(found, [[1.0, 2 * np.e], [1.0, np.e]], rtol=1e-6)


def test_python_conditions_on_tensors_are_refused_by_name() -> None:
    @traced
    def f(a: Any) -> Any:
        return a if a > 0.0 else -a

    with pytest.raises(NotImplementedError, match="AutoGraph"):
        f(tf.constant(1.0))


def test_a_signature_converts_and_refuses() -> None:
    signed: Decorator = tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="nm"), tf.TensorSpec([], tf.int32)])

    @signed
    def scaled(a: Any, b: Any) -> Any:
        return a * tf.cast(b, tf.float32)

    x = tf.placeholder(tf.float32, [2], name="x")
    assert scaled(x, 3).op.inputs[1].op.type == "Const"
    with pytest.raises(TypeError, match="failed due to `missing a required argument: 'b'`"):
        scaled(x)
    with pytest.raises(TypeError, match="Can not cast TensorSpec"):
        scaled(tf.ones([2, 2]), 1)


def test_a_function_that_gives_an_op_is_refused() -> None:
    with pytest.raises(TypeError, match="found return value of type Operation"):
        tf.function(lambda: tf.no_op())()


def test_a_method_has_traces_of_its_object() -> None:
    class Scale:
        def __init__(self, by: float) -> None:
            self.by = by

        @traced
        def call(self, a: Any) -> Any:
            return a * self.by

    x = tf.placeholder(tf.float32, [], name="x")
    found = [Scale(by).call(x) for by in (2.0, 3.0)]
    with sessions.Session() as session:
        assert session.run(found, {x: 5.0}) == [10.0, 15.0]


# --- Defun ----------------------------------------------------------------------------------------------------------


def test_a_defun_is_an_op_of_its_name() -> None:
    from placesim.tf1.functions.defun import Defun

    y = tf.placeholder(tf.float32, [2], name="y")

    @Defun(tf.float32, func_name="Named")
    def plus(a: Any) -> Any:
        return a + y

    x = tf.placeholder(tf.float32, [2], name="x")
    made = plus(x)
    assert (made.name, made.op.type) == ("Named:0", "Named")
    assert [tensor.name for tensor in made.op.inputs] == ["x:0", "y:0"]
    assert [arg.name for arg in _body("Named").inputs] == ["a", "add_placeholder"]
    assert "_construction_context" not in _body("Named").attrs
    grad = tf.gradients(made, x)[0]
    assert (grad.name, grad.op.type) == ("gradients/Named_grad/SymbolicGradient:0", "SymbolicGradient")
    with sessions.Session() as session:
        assert session.run(made, {x: [1.0, 2.0], y: [3.0, 4.0]}).tolist() == [4.0, 6.0]


def test_a_defun_keeps_switch_and_merge_and_its_own_gradient() -> None:
    from placesim.tf1.functions.defun import Defun

    tf.disable_control_flow_v2()

    @Defun(tf.float32, func_name="Chosen", python_grad_func=lambda op, grad: grad * 3.0)
    def chosen(a: Any) -> Any:
        return tf.cond(a > 0.0, lambda: a * 2.0, lambda: a)

    x = tf.placeholder(tf.float32, [], name="x")
    made = chosen(x)
    assert "Switch" in {node.op for node in _body("Chosen").nodes}
    assert tf.gradients(made, x)[0].name == "gradients/Chosen_grad/mul:0"
    with pytest.raises(ValueError, match="Expected number of arguments: 1, received: 2"):
        chosen(x, x)


def test_a_defun_without_types_has_a_function_for_each_list_of_types() -> None:
    from placesim.tf1.functions.defun import Defun

    @Defun()
    def doubled(a: Any) -> Any:
        return a * 2

    found = [doubled(tf.constant(1.5)), doubled(tf.constant(2)), doubled(tf.constant(2.5))]
    assert [tensor.dtype for tensor in found] == [tf.float32, tf.int32, tf.float32]
    assert len({tensor.op.type for tensor in found}) == 2
    with sessions.Session() as session:
        assert session.run(found) == [3.0, 4, 5.0]


def test_a_defun_says_what_it_does_not_take() -> None:
    """Types are positional: TensorFlow takes what is named for an attribute, and knows no such one."""
    from placesim.tf1.functions.defun import Defun

    @Defun(x=tf.float32)
    def named(x: Any) -> Any:
        return x

    with pytest.raises(ValueError, match=r"Unknown keyword arguments: dict_keys\(\['x'\]\)"):
        named(tf.constant(1.0))
    with pytest.raises(ValueError, match="have 2 input types, while the python function allows minimum 1 and maximum 1"):
        Defun(tf.float32, tf.float32)(lambda x: x)


def test_functions_inside_a_function_have_gradients() -> None:
    v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
    x = tf.placeholder(tf.float32, [2])
    scaled = traced(lambda x, by=2.0: tf.tanh(x * v) * by)
    both = traced(lambda x: scaled(x) + scaled(x, 3.0))
    found = tf.gradients(both(x), [x, v])
    with tf.Session() as session:
        session.run(v.initializer)
        of_x, of_v = session.run(found, {x: [0.5, -1.0]})
    expected = 5 / np.cosh([0.5, -1.0]) ** 2
    assert np.allclose(of_x, expected)
    assert np.allclose(of_v, [0.5, -1.0] * expected)


def test_a_trace_inside_a_function_serves_the_graph_around_it_too() -> None:
    inner = traced(lambda x: x * 2.0)
    x = tf.placeholder(tf.float32, [2])
    traced(lambda x: inner(x) + 1.0)(x)
    inner(x)
    assert len(_library()) == 2


def test_calls_inside_control_flow_of_version_1_have_tensorflows_edges() -> None:
    tf.disable_control_flow_v2()
    x = tf.placeholder(tf.float32, [2], name="x")
    v = tf.get_variable("v", [2], use_resource=True)
    scaled = traced(lambda x: x * v)
    tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, scaled(a)), [0, x], name="loop")
    tf.cond(tf.reduce_sum(x) > 0, lambda: scaled(x), lambda: x, name="branch")
    graph = tf.get_default_graph()
    calls = [graph.get_operation_by_name(f"{scope}/StatefulPartitionedCall") for scope in ("loop", "branch")]
    assert [([t.name for t in op.inputs], [control.name for control in op.control_inputs]) for op in calls] == [
        (["loop/Identity_1:0", "loop/Enter_2:0"], ["loop/Identity"]),
        (["branch/Switch_1:1", "branch/Switch_2:1"], []),
    ]


def test_a_branchs_gradient_makes_no_collections() -> None:
    x = tf.placeholder(tf.float32, [])
    tf.gradients(tf.cond(x > 0, lambda: x * x, lambda: x), x)
    assert "local_variables" not in tf.get_default_graph().get_all_collection_keys()
