"""Training sessions: what monitored ones and Supervisors do around the steps, their hooks, and servers of a simulated cluster.

What is expected was found with TensorFlow 2.21.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placesim.tf1 as tf
from placesim.tf1 import errors
from placesim.tf1.training import session_layers


@pytest.fixture(autouse=True)
def _graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    with tf.Graph().as_default() as graph:
        yield graph
    tf.summary.FileWriterCache.clear()


def _counting() -> tuple[Any, Any]:
    """A global step and the op that counts it."""
    step = tf.train.get_or_create_global_step()
    return step, step.assign_add(1)


def _events(folder: str) -> list[tuple[int, str]]:
    found = []
    for name in sorted(os.listdir(folder)):
        if "tfevents" in name:
            found += [(event.step, event.WhichOneof("what")) for event in tf.train.summary_iterator(os.path.join(folder, name))]
    return found


class _NoteHook(tf.train.SessionRunHook):  # type: ignore[misc]
    def __init__(self, notes: list[str], stops_after: int = 100) -> None:
        self.notes, self.left = notes, stops_after

    def begin(self) -> None:
        self.notes.append(f"begin {tf.get_default_graph().finalized}")

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.notes.append(f"created {session.graph.finalized}")

    def before_run(self, run_context: Any) -> Any:
        self.notes.append(f"before {run_context.original_args.fetches.name}")
        return tf.train.SessionRunArgs({"doubled": tf.get_default_graph().get_tensor_by_name("doubled:0")})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.notes.append(f"after {run_values.results['doubled']}")
        self.left -= 1
        if not self.left:
            run_context.request_stop()

    def end(self, session: Any) -> None:
        self.notes.append("end")


def test_hooks_are_called_around_steps() -> None:
    x = tf.constant(2.0, name="x")
    tf.multiply(x, 2, name="doubled")
    notes: list[str] = []
    with tf.train.MonitoredSession(hooks=[_NoteHook(notes, 2)]) as session:
        while not session.should_stop():
            assert session.run(x) == 2
    assert notes == ["begin False", "created True", *["before x:0", "after 4.0"] * 2, "end"]
    assert not tf.get_default_graph().finalized
    with pytest.raises(RuntimeError, match="Session is already closed"):
        session.close()


def test_a_monitored_session_makes_what_is_missing_in_the_graph() -> None:
    tf.get_variable("w", [2])
    before = len(tf.get_default_graph().get_operations())
    with tf.train.MonitoredSession():
        pass
    names = [op.name for op in tf.get_default_graph().get_operations()[before:]]
    assert [name for name in names if "/" not in name] == [
        *("init", "init_1", "group_deps", "concat", "concat_1", "init_2", "init_all_tables", "init_3", "group_deps_1")
    ]
    keys = tf.get_default_graph().get_all_collection_keys()
    assert {"init_op", "ready_op", "ready_for_local_init_op", "local_init_op", "savers"} <= set(keys)


def test_training_stops_at_a_step_and_goes_on_from_its_checkpoint() -> None:
    w = tf.get_variable("w", [2], initializer=tf.ones_initializer())
    _, count = _counting()
    train = tf.group(count, w.assign_add([1.0, 1.0]))
    tf.summary.scalar("w0", w[0])
    for last in (3, 5):
        hooks = [tf.train.StopAtStepHook(last_step=last)]
        with tf.train.MonitoredTrainingSession(checkpoint_dir="ckpt", hooks=hooks, save_summaries_steps=1) as session:
            while not session.should_stop():
                session.run(train)
        tf.summary.FileWriterCache.clear()
        assert tf.train.load_variable("ckpt", "w").tolist() == [last + 1.0] * 2
        assert tf.train.latest_checkpoint("ckpt") == f"ckpt/model.ckpt-{last}"
        if last == 3:
            kinds = [kind for _, kind in _events("ckpt")]
            assert kinds[:5] == ["file_version", "graph_def", "meta_graph_def", "graph_def", "meta_graph_def"]
            assert kinds.count("summary") == 3
    assert os.path.exists("ckpt/graph.pbtxt")


def test_a_loss_that_is_no_number_ends_training() -> None:
    x = tf.placeholder(tf.float32, [])
    raised = pytest.raises(tf.train.NanLossDuringTrainingError, match="NaN loss during training")
    with raised, tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(x)]) as session:
        session.run(x, {x: np.nan})
    with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(x, fail_on_nan_loss=False)]) as session:
        session.run(x, {x: np.nan})
        assert session.should_stop()


def test_tensors_are_logged(capfd: pytest.CaptureFixture[str]) -> None:
    _, count = _counting()
    loss = tf.constant(0.5, name="loss")
    before = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.INFO)
    try:
        with tf.train.MonitoredSession(hooks=[tf.train.LoggingTensorHook({"loss": loss}, every_n_iter=2)]) as session:
            for _ in range(3):
                session.run(count)
    finally:
        tf.logging.set_verbosity(before)
    logged = [line for line in capfd.readouterr().err.splitlines() if "loss" in line]
    assert logged[0] == "INFO:tensorflow:loss = 0.5"
    assert re.fullmatch(r"INFO:tensorflow:loss = 0\.5 \(\d+\.\d{3} sec\)", logged[1])
    assert len(logged) == 2


WRONG_HOOKS = {
    "One of num_steps or last_step must be specified.": lambda: tf.train.StopAtStepHook(),
    "Only one of num_steps or last_step can be specified.": lambda: tf.train.StopAtStepHook(1, 1),
    "invalid every_n_iter=-1.": lambda: tf.train.LoggingTensorHook([], every_n_iter=-1),
    "exactly one of every_n_steps and every_n_secs should be provided.": lambda: tf.train.StepCounterHook(1, 1),
    "Can not provide both every_secs and every_steps.": lambda: tf.train.SecondOrStepTimer(1, 1),
    "Exactly one of scaffold or summary_op must be provided.": lambda: tf.train.SummarySaverHook(save_steps=1),
    "You cannot provide both saver and scaffold.": lambda: tf.train.CheckpointSaverHook("a", 1, saver=1, scaffold=1),
}


@pytest.mark.parametrize("message", WRONG_HOOKS)
def test_hooks_that_contradict_themselves_are_refused(message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        WRONG_HOOKS[message]()


def test_a_lost_task_makes_another_session() -> None:
    tf.constant(1.0, name="doubled")
    notes: list[str] = []

    class LossyHook(_NoteHook):
        def before_run(self, run_context: Any) -> Any:
            if len(self.notes) == 4:
                self.notes.append("lost")
                raise errors.AbortedError(None, None, "gone")
            return super().before_run(run_context)

    with tf.train.MonitoredSession(hooks=[LossyHook(notes)]) as session:
        for _ in range(2):
            session.run(tf.get_default_graph().get_tensor_by_name("doubled:0"))
    steps = ["before doubled:0", "after 1.0"]
    assert notes == ["begin False", "created True", *steps, "lost", "created True", *steps, "end"]


def test_a_function_may_run_several_steps() -> None:
    step, count = _counting()

    def twice(step_context: Any) -> Any:
        step_context.session.run(count)
        return step_context.run_with_hooks(count)

    with tf.train.SingularMonitoredSession() as session:
        assert session.run_step_fn(twice) == 2
        assert session.raw_session().run(step) == 2
        with pytest.raises(ValueError, match="`step_fn` may either have one `step_context` argument"):
            session.run_step_fn(lambda a: a)


def test_a_supervisor_saves_and_summarizes() -> None:
    _, count = _counting()
    tf.summary.scalar("one", tf.constant(1.0))
    supervisor = tf.train.Supervisor(logdir="log", save_model_secs=0, save_summaries_secs=0)
    assert tf.get_default_graph().finalized
    with supervisor.managed_session() as session:
        for expected in (1, 2):
            assert session.run(count) == expected
        supervisor.summary_computed(session, session.run(supervisor.summary_op))
    assert supervisor.should_stop()
    kinds = [kind for _, kind in _events("log")]
    assert kinds == ["file_version", "graph_def", "meta_graph_def", "session_log", "summary", "session_log"]
    with pytest.raises(KeyError), supervisor.managed_session():
        raise KeyError("x")


def test_a_workers_variables_need_devices() -> None:
    tf.get_variable("w", [2])
    with pytest.raises(ValueError, match="When using replicas, all Variables must have their device set"):
        tf.train.Supervisor(is_chief=False)


def test_fetched_reference_variables_are_as_the_step_leaves_them() -> None:
    w = tf.Variable([1.0, 2.0])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = session.run([w, w.value(), tf.reshape(w, [2, 1]), w * 1.0, w.assign_add([1.0, 1.0])])
    assert [value.ravel().tolist() for value in found] == [[2, 3], [2, 3], [2, 3], [1, 2], [2, 3]]


def test_what_follows_an_update_sees_it() -> None:
    w = tf.Variable([1.0, 2.0])
    added = w.assign_add([1.0, 1.0])
    with tf.control_dependencies([added]):
        after = w * 1.0
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(after).tolist() == [2.0, 3.0]


@pytest.mark.slow
@pytest.mark.parametrize(("aggregated", "runs"), [(1, 6), (2, 11)])
def test_replicas_are_synchronized(aggregated: int, runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # the thread that fills the queue of tokens ends with the session only
    monkeypatch.setattr(session_layers, "_PATIENCE_SECONDS", 0.1)
    w = tf.get_variable("w", [2], initializer=tf.ones_initializer())
    step = tf.train.get_or_create_global_step()
    sync = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), aggregated, aggregated)
    train = sync.minimize(tf.reduce_sum(w), global_step=step)
    hooks = [sync.make_session_run_hook(True), tf.train.StopAtStepHook(last_step=5)]
    done = 0
    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        while not session.should_stop() and done < 50:
            session.run(train)
            done += 1
    assert aggregated * 4 <= done <= runs


# --- servers --------------------------------------------------------------------------------------------------------


def _cluster(first_port: int) -> Any:
    ports = [f"localhost:{first_port + i}" for i in range(3)]
    return tf.train.ClusterSpec({"ps": ports[:1], "worker": ports[1:]})


def test_sessions_of_a_cluster_share_variables() -> None:
    cluster = _cluster(31000)
    servers = [tf.train.Server(cluster, "worker", index) for index in range(2)]
    assert servers[1].target == "grpc://localhost:31002"
    with tf.device(tf.train.replica_device_setter(cluster=cluster)):
        v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
    with tf.Session(servers[0].target) as session:
        session.run(v.initializer)
        session.run(v.assign_add([1.0, 1.0]))
        assert session.list_devices()[0].name == "/job:worker/replica:0/task:0/device:CPU:0"
    with tf.Session(servers[1].target) as session:
        assert session.run(v).tolist() == [2.0, 2.0]
        assert session.list_devices()[0].name == "/job:worker/replica:0/task:1/device:CPU:0"
    tf.Session.reset(servers[0].target)
    with tf.Session(servers[1].target) as session, pytest.raises(errors.FailedPreconditionError):
        session.run(v)


def test_servers_that_are_none() -> None:
    cluster = _cluster(31010)
    tf.train.Server(cluster, "ps", 0)
    wrongs: list[tuple[Any, type[Exception], str]] = [
        (lambda: tf.train.Server(cluster), ValueError, "Must specify an explicit `job_name`."),
        (lambda: tf.train.Server(cluster, "worker"), ValueError, "Must specify an explicit `task_index`."),
        (lambda: tf.train.Server(cluster, "x", 0), errors.InternalError, 'Job "x" was not defined in cluster'),
        (lambda: tf.train.Server(cluster, "worker", 5), errors.InternalError, 'Task 5 was not defined in job "worker"'),
        (lambda: tf.train.Server(cluster, "ps", 0), errors.UnknownError, "Could not start gRPC server"),
        (lambda: tf.Session("grpc://localhost:1"), errors.NotFoundError, "No server of this process"),
    ]
    for wrong, kind, message in wrongs:
        with pytest.raises(kind, match=re.escape(message)):
            wrong()


def test_a_parameter_server_ends_and_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as found:
        tf.train.Server.create_local_server().join()
    assert found.value.code == 0
    assert "would serve other processes till it is ended" in capfd.readouterr().err


def test_a_worker_alone_initializes_the_model(capfd: pytest.CaptureFixture[str]) -> None:
    server = tf.train.Server(_cluster(31020), "worker", 1)
    with tf.device("/job:ps/task:0"):
        _, count = _counting()
    with tf.train.MonitoredTrainingSession(server.target, is_chief=False) as session:
        assert session.run(count) == 1
    assert "no chief runs beside this task" in capfd.readouterr().err


def test_gradients_are_accumulated() -> None:
    dense = tf.ConditionalAccumulator(tf.float32, shape=[2])
    rows = tf.SparseConditionalAccumulator(tf.float32, shape=[4, 2])
    slices = tf.IndexedSlices(tf.constant([[1.0, 2.0]]), tf.constant([1]))
    with tf.Session() as session:
        adding = [dense.apply_grad([1.0, 2.0]), dense.apply_grad([3.0, 2.0]), rows.apply_indexed_slices_grad(slices)]
        taken = dense.take_grad(2)
        counted = dense.num_accumulated()
        found = rows.take_indexed_slices_grad(1)
        session.run(adding)
        assert session.run(counted) == 2
        assert session.run(taken).tolist() == [2.0, 2.0]
        value = session.run(found)
        assert (value.indices.tolist(), value.values.tolist()) == ([1], [[1.0, 2.0]])


def test_checkpoints_come_until_nobody_makes_more(tmp_path: Path) -> None:
    """When TensorFlow 2.21 asks `timeout_fn`: after each checkpoint, and after each wait in vain."""

    def put(number: int) -> None:
        (tmp_path / f"model.ckpt-{number}.index").write_bytes(b"")
        (tmp_path / "checkpoint").write_text(f'model_checkpoint_path: "model.ckpt-{number}"\n')

    put(1)
    told: list[str] = []

    def is_over() -> bool:
        told.append("asked")
        if len(told) == 2:
            put(5)
        return len(told) > 4

    told.extend(Path(path).name for path in tf.train.checkpoints_iterator(str(tmp_path), timeout=0, timeout_fn=is_over))
    assert told == ["model.ckpt-1", "asked", "model.ckpt-5", "asked", "asked"]
    assert [Path(path).name for path in tf.train.checkpoints_iterator(str(tmp_path), timeout=0)] == ["model.ckpt-5"]


def test_a_basic_train_loop_goes_on_until_it_is_asked_to_stop(tmp_path: Path) -> None:
    supervisor_step = tf.Variable(0, name="global_step", trainable=False)
    count = supervisor_step.assign_add(1)
    supervisor = tf.train.Supervisor(logdir=str(tmp_path), global_step=supervisor_step)
    seen: list[tuple[int, int, int]] = []

    def step(session: Any, a: int, b: int = 0) -> None:
        seen.append((int(session.run(count)), a, b))
        if len(seen) == 3:
            supervisor.request_stop()

    tf.train.basic_train_loop(supervisor, step, args=(7,), kwargs={"b": 2})
    assert seen == [(1, 7, 2), (2, 7, 2), (3, 7, 2)]
