"""Sessions: what they are asked for, what they are fed, what they refuse, and steps of several threads."""

from __future__ import annotations

import pickle
import threading
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest

import placesim
import placesim.tf1 as tf
from placesim.tf1.errors import CancelledError, InvalidArgumentError, NotFoundError, OpError, OutOfRangeError
from placesim.tf1.session import sessions
from placesim.tf1.session.devices import gpu_device_name, is_gpu_available, list_local_devices
from placesim.tf1.session.stacks import get_default_session
from placesim.tf1.session.timeline import Timeline

Pair = namedtuple("Pair", "first second")


@pytest.fixture(autouse=True)
def _graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


def test_results_have_the_structure_of_what_is_asked_for() -> None:
    c = tf.constant(3.0, name="c")
    row = tf.constant([1.0, 2.0])
    with sessions.Session() as session:
        assert session.run(c) == np.float32(3.0)
        assert isinstance(session.run(c), np.float32)
        assert session.run(Pair(c, {"k": [c.op, (c,)]})) == Pair(3.0, {"k": [None, (3.0,)]})
        found = session.run(OrderedDict([("b", c), ("a", "c:0"), ("op", "c")]))
        assert list(found.items()) == [("b", 3.0), ("a", 3.0), ("op", None)]
        assert session.run([]) == []
        assert session.run([row, row])[1].tolist() == [1.0, 2.0]
        assert session.run(tf.constant(["x", "y"])).tolist() == [b"x", b"y"]
        assert session.run(tf.constant("x")) == b"x"


def test_what_is_fed_takes_the_place_of_a_tensor() -> None:
    x = tf.placeholder(tf.float32, [None], name="x")
    y = x * 2.0
    z = y + 1.0
    text = tf.placeholder(tf.string, [], name="text")
    with sessions.Session() as session:
        assert session.run(z, {x: [1.0]}).tolist() == [3.0]
        assert session.run(z, {"x:0": [1]}).tolist() == [3.0]
        assert session.run([y, z], {y: [5.0]})[1].tolist() == [6.0]
        assert session.run(z, {(x, text): (np.array([2.0]), "a")}).tolist() == [5.0]
        assert session.run(tf.identity(text), {text: "ü"}) == "ü".encode()
        call = session.make_callable([z], feed_list=[x])
        assert call([4.0])[0].tolist() == [9.0]


REFUSED: tuple[tuple[Any, Any, type[Exception], str], ...] = (
    (None, None, TypeError, 'Argument `fetch` = None has invalid type "NoneType". Cannot be None'),
    (3, None, TypeError, 'Argument `fetch` = 3 has invalid type "int" must be a string or Tensor. (Can not convert a int into'),
    (
        "zz",
        None,
        ValueError,
        "Argument `fetch` = zz cannot be interpreted as a Tensor. (\"The name 'zz' refers to an Operation not",
    ),
    ("c:1", None, ValueError, "Argument `fetch` = c:1 cannot be interpreted as a Tensor. (\"The name 'c:1' refers to a Tensor"),
    ("c:0", {"x:0": [[1.0]]}, ValueError, "Cannot feed value of shape (1, 1) for Tensor x:0, which has shape (?,)"),
    (
        "c:0",
        {"n:0": 2**40},
        TypeError,
        "Type of feed value 1099511627776 with type <class 'int'> is not compatible with Tensor",
    ),
    ("c:0", {"x:0": "ab"}, ValueError, "could not convert string to float: np.str_('ab')"),
    (
        "c:0",
        {"x": 1.0},
        TypeError,
        "Cannot interpret feed_dict key as Tensor: The name 'x' refers to an Operation, not a Tensor.",
    ),
    (
        "c:0",
        {"no:0": 1.0},
        TypeError,
        "Cannot interpret feed_dict key as Tensor: The name 'no:0' refers to a Tensor which does",
    ),
    (
        "c:0",
        [1],
        TypeError,
        "FlattenDictItems: 'dict' must be a dictionary or collection.Mapping type object, instead of 'list'.",
    ),
)


@pytest.mark.parametrize(("fetch", "feeds", "kind", "message"), REFUSED)
def test_what_is_no_fetch_or_feed(fetch: Any, feeds: Any, kind: type[Exception], message: str) -> None:
    tf.constant(3.0, name="c")
    tf.placeholder(tf.float32, [None], name="x")
    tf.placeholder(tf.int32, [], name="n")
    with sessions.Session() as session, pytest.raises(kind) as caught:
        session.run(fetch, feeds)
    assert str(caught.value).startswith(message)


def test_sessions_that_are_closed_or_empty() -> None:
    session = sessions.Session()
    with pytest.raises(RuntimeError, match="The Session graph is empty"):
        session.run("c:0")
    tf.constant(1.0, name="c")
    session.close()
    with pytest.raises(RuntimeError, match="Attempted to use a closed Session"):
        session.run("c:0")
    with pytest.raises(CancelledError, match="Session has been closed"):
        session.list_devices()
    wrong: list[dict[str, Any]] = [{"config": 3}, {"graph": 3}, {"target": 3}]
    for arguments in wrong:
        with pytest.raises(TypeError, match=f"Argument `{next(iter(arguments))}` must be"):
            sessions.Session(**arguments)
    with pytest.raises(NotFoundError, match="No session factory registered"):
        sessions.Session("nowhere")
    with pytest.raises(NotImplementedError, match="partial_run_setup is not there"):
        sessions.Session().partial_run_setup([])


def test_the_default_session_is_that_of_the_innermost_block() -> None:
    c = tf.constant(2.0)
    with pytest.raises(ValueError, match="No default session is registered"):
        c.eval()
    with sessions.Session() as outer:
        with sessions.Session() as inner:
            assert get_default_session() is inner
        assert get_default_session() is outer
        assert c.eval() == 2.0
        seen = []
        thread = threading.Thread(target=lambda: seen.append(get_default_session()))
        thread.start()
        thread.join()
        assert seen == [None]
    with tf.Graph().as_default() as other:
        d = tf.constant(1.0)
    with sessions.Session(graph=other):
        assert tf.get_default_graph() is other
        assert d.eval() == 1.0
        with pytest.raises(ValueError, match="the tensor's graph is different from the session's graph"):
            c.eval()
    interactive = sessions.InteractiveSession()
    assert c.eval() == 2.0
    assert interactive._opened.config.place_pruned_graph
    assert not interactive._opened.config.do_constant_folding
    interactive.close()
    assert get_default_session() is None
    refused: list[str] = []

    def crossed() -> None:
        with pytest.raises(AssertionError) as raised, sessions.Session() as first, sessions.Session():
            first.__exit__(None, None, None)
        refused.append(str(raised.value))

    thread = threading.Thread(target=crossed)  # the default sessions are those of a thread
    thread.start()
    thread.join()
    assert refused == [f"Nesting violated for default stack of {sessions.Session} objects"]


def test_a_graph_that_grows_is_placed_and_logged_again(capsys: pytest.CaptureFixture[str]) -> None:
    a = tf.constant(1.0, name="a")
    with placesim.machine(gpu=1, log_placement=True), sessions.Session() as session:
        session.run(a)
        b = tf.add(a, 1.0, name="b")
        assert session.run(b) == 2.0
        session.run(b)
    lines = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()[2:]]
    assert lines == ["a", "b", "a", "b/y"]


def test_the_machine_is_the_innermost_one() -> None:
    with placesim.machine(cpu=2, gpu=1):
        with placesim.machine(gpu=2, gpu_model="Tesla K40c"):
            names = [device.name.rpartition("device:")[2] for device in sessions.Session().list_devices()]
            assert names == ["CPU:0", "GPU:0", "GPU:1"]
            config = tf.ConfigProto(device_count={"GPU": 1, "CPU": 2})
            fewer = [device.device_type for device in sessions.Session(config=config).list_devices()]
            assert fewer == ["CPU", "CPU", "GPU"]
            assert [device.name for device in list_local_devices()] == ["/device:CPU:0", "/device:GPU:0", "/device:GPU:1"]
            assert gpu_device_name() == "/device:GPU:0"
            assert is_gpu_available(min_cuda_compute_capability=(3, 5))
            assert not is_gpu_available(min_cuda_compute_capability=(7, 0))
        assert len(sessions.Session().list_devices()) == 3
    assert gpu_device_name() == ""
    with pytest.raises(placesim.UsageError), placesim.machine(gpus=2):  # type: ignore[call-arg]
        pass


def test_errors_are_tensorflows_classes() -> None:
    x = tf.placeholder(tf.float32, [2], name="x")
    with sessions.Session() as session, pytest.raises(InvalidArgumentError) as caught:
        session.run(x + 1.0)
    error = caught.value
    assert [kind.__name__ for kind in type(error).__mro__[:3]] == ["InvalidArgumentError", "OpError", "Exception"]
    message = "Node: 'x'\nYou must feed a value for placeholder tensor 'x' with dtype float and shape [2]\n\t [[{{node x}}]]"
    place = x.op.traceback[0] if x.op.traceback else None
    told = "" if place is None else f'    File "{place.filename}", line {place.lineno}, in <module>\n'
    head = "Graph execution error:\n\nDetected at node 'x' defined at (most recent call last):\n"
    assert (error.message, error.error_code, error.op, error.node_def.op) == (head + told + message, 3, x.op, "Placeholder")
    assert "Original stack trace for 'x':" in str(error)
    again = pickle.loads(pickle.dumps(OutOfRangeError(None, None, "at the end")))
    assert (type(again), again.message, str(again)) == (OutOfRangeError, "at the end", "at the end")
    with placesim.machine(gpu=1), sessions.Session() as session, tf.device("/gpu:4"):
        with pytest.raises(OpError) as refused:
            session.run(tf.constant(1.0))
        assert refused.value.op is None


def test_a_step_that_waits_lets_those_of_other_threads() -> None:
    queue = tf.raw_ops.FIFOQueueV2(component_types=[tf.float32], capacity=2, shapes=[tf.TensorShape([])])
    x = tf.placeholder(tf.float32, [])
    put = tf.raw_ops.QueueEnqueueV2(handle=queue, components=[x])
    take = tf.raw_ops.QueueDequeueV2(handle=queue, component_types=[tf.float32])[0]
    close = tf.raw_ops.QueueCloseV2(handle=queue)
    session = sessions.Session()

    def fill() -> None:
        for i in range(6):
            session.run(put, {x: i})
        session.run(close)

    filling = threading.Thread(target=fill)
    filling.start()
    taken: list[object] = []
    with pytest.raises(OutOfRangeError, match="is closed and has insufficient elements"):
        taken.extend(map(session.run, [take] * 7))
    filling.join()
    assert taken == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_closing_a_session_cancels_a_step_that_waits() -> None:
    queue = tf.raw_ops.FIFOQueueV2(component_types=[tf.float32], capacity=2, shapes=[tf.TensorShape([])])
    take = tf.raw_ops.QueueDequeueV2(handle=queue, component_types=[tf.float32])[0]
    session = sessions.Session()
    session.run(tf.constant(1.0))
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            session.run(take)
        except OpError as error:
            caught.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not session._session._turns.running:  # type: ignore[union-attr]
        pass
    session.close()
    waiting.join(20)
    assert [type(error) for error in caught] == [CancelledError]


def test_metadata_holds_what_really_ran() -> None:
    x = tf.placeholder(tf.float32, [2, 2], name="x")
    y = tf.matmul(x, x, name="y")
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)
    with placesim.machine(gpu=1), sessions.Session() as session:
        session.run(y, {x: np.eye(2)}, options=options, run_metadata=metadata)
        plain = tf.RunMetadata()
        session.run(y, {x: np.eye(2)}, run_metadata=plain)
    assert not plain.step_stats.dev_stats
    ran = {stats.node_name: device.device[-5:] for device in metadata.step_stats.dev_stats for stats in device.node_stats}
    assert ran["y"] == "GPU:0"
    assert any(node.op == "MatMul" for graph in metadata.partition_graphs for node in graph.node)
    assert '"name": "MatMul"' in Timeline(metadata.step_stats).generate_chrome_trace_format()


def test_a_config_folds_constants() -> None:
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.do_constant_folding = True
    with sessions.Session(config=config) as session:
        root = tf.sqrt(tf.constant([4.0, 9.0]))
        for _ in range(2):
            found = session.run(root)
            assert found.tolist() == [2.0, 3.0]
            found += 1  # it is the caller's own
        assert session._opened.config.do_constant_folding


def test_configs_are_messages() -> None:
    config = tf.ConfigProto(device_count={"CPU": 2}, gpu_options=tf.GPUOptions(per_process_gpu_memory_fraction=0.5))
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    copy = tf.ConfigProto()
    copy.CopyFrom(config)
    assert copy == config
    assert (copy.HasField("gpu_options"), copy.HasField("graph_options"), copy.HasField("cluster_def")) == (True, True, False)
    assert str(config.gpu_options) == "per_process_gpu_memory_fraction: 0.5\n"
    assert tf.ConfigProto.FromString(config.SerializeToString()).device_count["CPU"] == 2
    with pytest.raises(ValueError, match='no "gpus" field'):
        tf.ConfigProto(gpus=1)


def test_an_unset_variable_is_told_by_the_input_that_passes_it_on() -> None:
    ops = tf.raw_ops
    variable = ops.VariableV2(shape=None, dtype=tf.float32, name="v")
    assert variable.shape.rank is None
    same, switched = ops.RefIdentity(input=variable), ops.RefSwitch(data=variable, pred=True)[1]
    expected = {
        tf.identity(variable): "v",
        same: "RefIdentity",
        ops.RefIdentity(input=same) + 1.0: "RefIdentity_1",
        switched * 2.0: "RefSwitch:1",
        ops.AssignAdd(ref=same, value=1.0): "RefIdentity",
    }
    with tf.Session() as session:
        for tensor, name in expected.items():
            with pytest.raises(tf.errors.FailedPreconditionError, match=f"Attempting to use uninitialized value {name}\n"):
                session.run(tensor)
    partial = ops.VariableV2(shape=[None, 2], dtype=tf.float32)
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=r"Shape \[\?,2\] is not fully defined\n"):
        session.run(ops.IsVariableInitialized(ref=partial))
