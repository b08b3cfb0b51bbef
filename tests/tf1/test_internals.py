"""Names of TensorFlow's own modules that public packages take, as these packages use them."""

from __future__ import annotations

import functools
import inspect
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import placesim.tf1 as tf
from placesim.tf1.contrib.graph_editor import get_backward_walk_ops, get_forward_walk_ops
from placesim.tf1.graph_defs.meta_graphs import PROTO_FUNCTIONS, register_proto_function
from placesim.tf1.importing.submodule_sources import RENAMED
from placesim.tf1.internals import decorators, framework, inspection, nests
from placesim.tf1.ops import arguments
from placesim.tf1.training.evaluation import StopAfterNEvalsHook, evaluate_once, get_or_create_eval_step
from tests.processes import run_process

_TAKEN = """
from placesim.tf1.importing import import_hook
import_hook.install()
names = '''
client.session: register_session_run_conversion_functions
framework.common_shapes: broadcast_shape
framework.composite_tensor: CompositeTensor
framework.ops: _TensorLike is_dense_tensor_like register_dense_tensor_like_type register_proto_function strip_name_scope
framework.ops: prepend_name_scope EagerTensor _get_graph_from_inputs
framework.tensor_util: constant_value
layers.convolutional: Convolution1D Convolution2D Convolution3D Convolution2DTranspose SeparableConvolution2D
layers.utils: normalize_tuple normalize_padding normalize_data_format
ops.confusion_matrix: confusion_matrix remove_squeezable_dimensions
ops.control_flow_util: GraphOrParentsInXlaContext
ops.custom_gradient: custom_gradient
ops.map_fn: map_fn
ops.metrics_impl: _remove_squeezable_dimensions metric_variable
ops.resources: initialize_resources shared_resources
ops.rnn: rnn_cell_impl
ops.rnn_cell_impl: RNNCell _zero_state_tensors
ops.variables: PartitionedVariable
ops.weights_broadcast_ops: broadcast_weights
tf2: enabled
training.evaluation: _StopAfterNEvalsHook _evaluate_once _get_or_create_eval_step
training.monitored_session: _HookedSession
autograph.impl.api: do_not_convert
util.all_util: make_all remove_undocumented
util.deprecation: silence deprecated deprecated_argument_lookup
util.lazy_loader: LazyLoader
util.nest: is_sequence _is_namedtuple flatten_up_to map_structure_up_to get_traverse_shallow_structure
util.tf_contextlib: contextmanager
util.tf_decorator: make_decorator unwrap
util.tf_inspect: getargspec getfullargspec getmro isclass getdoc
'''
for line in names.strip().splitlines():
    module, _, taken = line.partition(': ')
    for name in taken.split():
        exec(f'from tensorflow.python.{module} import {name}')
        found = eval(name)
        if type(found).__name__ == '_InternalModule' and name != 'rnn_cell_impl':
            print(module, name)
print(rnn_cell_impl.RNNCell is RNNCell)
"""


def test_names_that_packages_take_are_there() -> None:
    done = run_process((sys.executable, "-c", _TAKEN))
    assert (done.complaint, done.output) == ("", "True\n")


def test_a_name_that_is_called_differently_here_is_there() -> None:
    from importlib import import_module

    assert all(hasattr(import_module("placesim.tf1." + module), name) for module, name in RENAMED.values())


@pytest.fixture
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as made:
        yield made


def test_optimizers_stand_directly_below_their_base_class() -> None:
    kinds = "GradientDescent Momentum Adam Adagrad Adadelta RMSProp Ftrl ProximalAdagrad ProximalGradientDescent AdagradDA"
    assert all(getattr(tf.train, f"{kind}Optimizer").__base__ is tf.train.Optimizer for kind in kinds.split())


# --- parameters ---


def _parameters(function: Any) -> list[str]:
    return inspection.getfullargspec(function).args


def test_functions_show_tensorflows_parameters() -> None:
    assert _parameters(tf.asin) == ["x", "name"]
    assert _parameters(tf.raw_ops.MatMul) == ["a", "b", "transpose_a", "transpose_b", "grad_a", "grad_b", "name"]
    spec = inspection.getfullargspec(tf.concat)
    assert (spec.args, spec.defaults, spec.annotations) == (["values", "axis", "name"], ("concat",), {})
    names = _parameters(tf.layers.conv2d)
    assert names[:2] + names[-3:] == ["inputs", "filters", "trainable", "name", "reuse"]
    assert tf.compat.v2.newaxis is None
    assert _parameters(tf.compat.v2.shape) == ["input", "out_type", "name"]


def test_parameters_are_those_of_the_wrapped_function() -> None:
    def original(a: int, b: int = 2, *rest: int, **options: int) -> None: ...

    def wrapper(*args: object) -> None: ...

    made = decorators.make_decorator(original, wrapper)
    assert inspection.getargspec(made) == (["a", "b"], "rest", "options", (2,))
    assert decorators.unwrap(made) == ([made], original)
    assert inspection.fn_args(functools.partial(original, 1)) == ("b",)
    assert inspection.has_kwargs(original)
    assert not inspection.has_kwargs(_parameters)
    assert inspection.isclass is inspect.isclass


# --- decorators and documentation ---


def test_a_former_name_of_an_argument_gives_its_value() -> None:
    assert arguments.renamed("new", None, "old", 1) == 1
    assert arguments.renamed("new", 2, "old", None) == 2
    with pytest.raises(ValueError, match="Cannot specify both 'old' and 'new'"):
        arguments.renamed("new", 2, "old", 1)


def test_decorators_of_deprecated_and_exported_functions_change_nothing() -> None:
    for decorate in (decorators.deprecated(None, "x"), decorators.tf_export("x", v1=[]), decorators.should_use_result):
        assert decorate(_parameters) is _parameters
    assert framework.do_not_convert()(_parameters) is framework.do_not_convert(_parameters) is _parameters


def test_documented_names_of_a_module_are_those_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("documented", "Some text.\n\n@@there\n@@missing\n")
    module.there = 1  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "documented", module)
    assert decorators.make_all("documented") == ["there"]


# --- classes and names ---


def test_classes_of_tensor_likes(graph: Any) -> None:
    tensor, variable = tf.constant(1.0), tf.Variable(1.0)
    sparse = tf.SparseTensor([[0]], [1.0], [2])
    assert isinstance(tensor, framework._TensorLike)
    assert isinstance(sparse, framework._TensorLike)
    assert isinstance(sparse, framework.CompositeTensor)
    assert [framework.is_dense_tensor_like(one) for one in (tensor, variable, sparse, 1.0)] == [True, True, False, False]

    class Own:
        pass

    framework.register_dense_tensor_like_type(Own)
    assert framework.is_dense_tensor_like(Own())


def test_scopes_of_names() -> None:
    assert framework.prepend_name_scope("a/b", "s") == "s/a/b"
    assert framework.prepend_name_scope("^a", "s/") == "^s/a"
    assert framework.prepend_name_scope("loc:@a", "s") == "loc:@s/a"
    assert framework.strip_name_scope("^s/a", "s") == "^a"
    assert framework.strip_name_scope("loc:@s/a", "s/") == "loc:@a"
    assert framework.strip_name_scope("t/a", "s") == framework.strip_name_scope("t/a", None) == "t/a"


# --- structures ---

Point = namedtuple("Point", "x y")


def test_upper_levels_of_structures() -> None:
    deep = {"b": [1, (2, 3)], "a": 4}
    assert nests.flatten_up_to({"a": 0, "b": [0, 0]}, deep) == [4, 1, (2, 3)]
    assert nests.map_structure_up_to({"a": 0, "b": 0}, lambda one, two: (one, two), deep, {"a": 5, "b": 6}) == {
        "a": (4, 5),
        "b": ([1, (2, 3)], 6),
    }
    assert nests.get_traverse_shallow_structure(lambda part: not isinstance(part, tuple), deep) == {
        "b": [True, False],
        "a": True,
    }
    assert nests.get_traverse_shallow_structure(lambda part: False, deep) is False
    with pytest.raises(ValueError, match="Input structure has length 2, while shallow structure has length 1"):
        nests.flatten_up_to([0], [1, 2])
    with pytest.raises(TypeError, match="input must also be a sequence"):
        nests.flatten_up_to([0], 1)
    with pytest.raises(TypeError, match="same sequence type"):
        nests.flatten_up_to([0], (1,))


def test_paths_to_leaves() -> None:
    deep = OrderedDict([("b", Point(1, [2])), ("a", 3)])
    assert nests.flatten_with_joined_string_paths(deep) == [("a", 3), ("b/x", 1), ("b/y/0", 2)]
    assert nests.flatten_with_tuple_paths(deep)[-1] == (("b", "y", 0), 2)
    made = nests.map_structure_with_paths(lambda path, leaf: f"{path}={leaf}", deep)
    assert made == OrderedDict([("b", Point("b/x=1", ["b/y/0=2"])), ("a", "a=3")])
    assert nests._is_namedtuple(Point(1, 2))
    assert not nests._is_namedtuple((1, 2))


# --- modules, walks, collections ---


def test_a_module_finds_its_variables_and_modules(graph: Any) -> None:
    class Inner(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable(1.0, name="w")

    class OuterNet(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.z = tf.Variable(2.0, trainable=False, name="z")
            self.parts: list[Any] = [Inner(), {"again": Inner()}]

        @tf.Module.with_name_scope  # type: ignore[untyped-decorator]
        def make(self) -> Any:
            return tf.constant(1.0, name="c")

    net = OuterNet()
    assert (net.name, net.make().name) == ("outer_net", "outer_net/c:0")
    assert [one.name for one in net.variables] == ["z:0", "w:0", "w_1:0"]
    assert [one.name for one in net.trainable_variables] == ["w:0", "w_1:0"]
    assert [one.name for one in net.non_trainable_variables] == ["z:0"]
    assert net.submodules == (net.parts[0], net.parts[1]["again"])


def test_a_refused_op_leaves_no_control_inputs(graph: Any) -> None:
    x = tf.zeros([2, 3])
    with tf.control_dependencies([tf.no_op(name="b"), tf.no_op(name="a")]), pytest.raises(ValueError, match="must be equal"):
        tf.matmul(x, x)
    assert tf.no_op().control_inputs == []


def test_walks_over_ops(graph: Any) -> None:
    a = tf.constant(1.0, name="a")
    with tf.control_dependencies([tf.no_op(name="first")]):
        b = tf.identity(a, name="b")
    c = tf.identity(b, name="c")
    names = [
        [op.name for op in walk] for walk in (get_backward_walk_ops(c), get_backward_walk_ops([c.op], control_inputs=True))
    ]
    assert names == [["c", "b", "a"], ["c", "b", "a", "first"]]
    assert [op.name for op in get_backward_walk_ops(c, inclusive=False, stop_at_ts=[a])] == ["b"]
    assert [op.name for op in get_forward_walk_ops(a)] == ["b", "c"]
    assert [op.name for op in get_forward_walk_ops(a.op, within_ops_fn=lambda op: op.name != "c")] == ["a", "b"]


def test_a_collection_is_written_by_its_own_function(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placesim.tf1.graph_defs.meta_graphs.PROTO_FUNCTIONS", PROTO_FUNCTIONS)
    register_proto_function(
        "notes",
        proto_type=tf.NodeDef,
        to_proto=lambda item: tf.NodeDef(name=item),
        from_proto=lambda message, import_scope=None: f"{import_scope or ''}{message.name}",
    )
    try:
        tf.add_to_collection("notes", "hello")
        written = tf.train.export_meta_graph()
        with tf.Graph().as_default():
            tf.train.import_meta_graph(written)
            assert tf.get_collection("notes") == ["hello"]
    finally:
        del PROTO_FUNCTIONS["notes"]
    with pytest.raises(TypeError, match="must be callable"):
        register_proto_function("notes", to_proto=1)  # type: ignore[arg-type]


# --- evaluation, estimators ---


def test_a_checkpoint_is_evaluated_for_a_number_of_steps(tmp_path: Path, graph: Any) -> None:
    variable = tf.get_variable("v", initializer=3.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.assign(variable, 5.0))
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
    total = tf.get_local_variable("total", initializer=0.0, dtype=tf.float32)
    found = evaluate_once(
        path, eval_ops=tf.assign_add(total, variable), final_ops=[total, tf.identity(total)], hooks=[StopAfterNEvalsHook(4)]
    )
    assert found == [20.0, 20.0]
    assert get_or_create_eval_step().name == "eval_step:0"
    assert tf.contrib.training.evaluate_once is evaluate_once


def test_a_model_function_returns_the_nodes_that_its_purpose_needs() -> None:
    modes = tf.estimator.ModeKeys
    assert (modes.TRAIN, modes.EVAL, modes.PREDICT) == ("train", "eval", "infer")
    spec = tf.estimator.EstimatorSpec(modes.TRAIN, loss=1, train_op=2, training_hooks=[3])
    assert (spec.loss, spec.training_hooks, spec.predictions, spec.eval_metric_ops) == (1, (3,), {}, {})
    for mode, name in ((modes.TRAIN, "train_op"), (modes.EVAL, "loss"), (modes.PREDICT, "predictions")):
        with pytest.raises(ValueError, match=f"Missing {name}"):
            tf.estimator.EstimatorSpec(mode)
    assert tf.estimator.SessionRunHook is tf.train.SessionRunHook
    with pytest.raises(NotImplementedError, match=r"tf\.estimator\.DNNClassifier is not there"):
        tf.estimator.DNNClassifier()


def test_keras_finds_a_scripts_own_objects(graph: Any) -> None:
    with tf.keras.utils.custom_object_scope({"twice": lambda x: x * 2}):
        assert tf.keras.activations.get("twice")(3) == 6
    with pytest.raises(ValueError, match="Unknown activation function: 'twice'"):
        tf.keras.activations.get("twice")


def test_a_layer_takes_a_dictionary_of_tensors(graph: Any) -> None:
    class Sum(tf.layers.Layer):  # type: ignore[misc]
        def build(self, input_shape: Any) -> None:
            assert {key: shape.as_list() for key, shape in input_shape.items()} == {"b": [2], "a": [3]}

        def call(self, inputs: Any) -> Any:
            return tf.reduce_sum(inputs["a"])

    assert Sum()({"b": tf.zeros([2]), "a": tf.ones([3])}).name == "sum/Sum:0"


def test_libraries_ask_a_graph_for_the_device_of_an_op(graph: Any) -> None:
    class Capture:
        device: str | None = None

        def _set_device(self, device: str) -> None:
            self.device = device

    def device(op: Any) -> Any:
        graph._apply_device_functions(op)
        return op.device

    with tf.device("/job:a"):
        one = tf.constant(1.0)
    assert device(Capture()) is None
    with tf.device("/gpu:0"):
        assert device(Capture()) == "/device:GPU:0"
        with tf.device(lambda op: op.device or "/job:a/cpu:1"):
            assert device(Capture()) == "/job:a/device:CPU:1"
            with tf.device("/cpu:2"):
                assert device(Capture()) == "/device:CPU:2"
        with tf.device(None):
            assert device(Capture()) is None
        with tf.colocate_with(one):
            assert device(Capture()) is None
        assert device(one.op) == "/job:a/device:GPU:0"
