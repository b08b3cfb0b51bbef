"""`tf.train.Supervisor`: prepares a graph for training, makes its session, and saves and summarizes in threads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.formats.tensorflow.messages import message_class
from placesim.tf1.graphs.graph import Graph
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.queues.queue_runners import Coordinator, LooperThread, QueueRunner
from placesim.tf1.session import watching
from placesim.tf1.session.stacks import RunningSession
from placesim.tf1.training import initializing
from placesim.tf1.training.own_steps import read_step
from placesim.tf1.training.saving_hooks import CHECKPOINT, START, STOP, add_graphs
from placesim.tf1.training.session_manager import SessionManager
from placesim.tf1.training.supervisor_threads import PeriodicThread, StepCounter
from placesim.tf1.types.read_only import read_only

_REFERENCES = ("Variable", "VariableV2")


class Supervisor:
    """Supervises the training of a graph in this process, which may be one of several that train together.

    Raises ValueError if the graph of a worker has variables without a requested device.
    """

    __module__ = "tensorflow.python.training.supervisor"
    USE_DEFAULT: Any = 0  # as in TensorFlow, so that an argument of 0 means the default too

    def __init__(
        self,
        graph: Graph | None = None,
        ready_op: Any = USE_DEFAULT,
        ready_for_local_init_op: Any = USE_DEFAULT,
        is_chief: bool = True,
        init_op: Any = USE_DEFAULT,
        init_feed_dict: object = None,
        local_init_op: Any = USE_DEFAULT,
        logdir: Any = None,
        summary_op: Any = USE_DEFAULT,
        saver: Any = USE_DEFAULT,
        global_step: TensorLike = USE_DEFAULT,
        save_summaries_secs: float = 120,
        save_model_secs: float = 600,
        recovery_wait_secs: float = 30,
        stop_grace_secs: float = 120,
        checkpoint_basename: str = "model.ckpt",
        session_manager: SessionManager | None = None,
        summary_writer: object = USE_DEFAULT,
        init_fn: Callable[[Any], Any] | None = None,
        local_init_run_options: object = None,
    ) -> None:
        self._graph = tf.get_default_graph() if graph is None else graph
        self._is_chief = is_chief
        self._coord = Coordinator()
        self._recovery_wait_secs, self._stop_grace_secs = recovery_wait_secs, stop_grace_secs
        self._init_fn, self._init_feed_dict, self._local_init_run_options = init_fn, init_feed_dict, local_init_run_options
        self._save_model_secs, self._save_summaries_secs = save_model_secs, save_summaries_secs
        self._started_threads: list[Any] = []
        with self._graph.as_default():
            self._ready_op = self._given(ready_op, GraphKeys.READY_OP, tf.report_uninitialized_variables)
            self._ready_for_local_init_op = self._given(ready_for_local_init_op, GraphKeys.READY_FOR_LOCAL_INIT_OP, None)
            self._init_op = self._given(init_op, GraphKeys.INIT_OP, tf.global_variables_initializer)
            self._local_init_op = self._given(local_init_op, GraphKeys.LOCAL_INIT_OP, _local_init_op)
            self._saver = self._given(saver, GraphKeys.SAVERS, lambda: tf.train.Saver() if tf.global_variables() else None)
            self._summary_op = self._given(summary_op, GraphKeys.SUMMARY_OP, tf.summary.merge_all)
            self._global_step = self._given(global_step, GraphKeys.GLOBAL_STEP, tf.train.get_global_step)
            self._logdir = logdir
            self._save_path = os.path.join(logdir, checkpoint_basename) if logdir else None
            if not is_chief:
                # only the chief writes files
                self._save_path = None
                self._summary_writer: Any = None
                self._check_devices()
            elif summary_writer is self.USE_DEFAULT:
                self._summary_writer = tf.summary.FileWriter(logdir) if logdir else None
            else:
                self._summary_writer = summary_writer
            self._graph_added = False
        self._session_manager = session_manager or self._new_manager()
        self._session_manager.initializes_here(self._init_op)
        # threads will use the graph from here on
        self._graph.finalize()

    def _given(self, value: TensorLike, collection: str, make: Callable[[], Any] | None) -> Any:
        """The given value, also None; for USE_DEFAULT, the collection's first item, else a new one, added to the collection."""
        if value is not self.USE_DEFAULT:
            return value
        found = self._graph.get_collection(collection)
        if found:
            return found[0]
        made = make() if make is not None else None
        # a global step is in its collection already
        if made is not None and collection != GraphKeys.GLOBAL_STEP:
            self._graph.add_to_collection(collection, made)
        return made

    def _check_devices(self) -> None:
        """Raise ValueError for a variable without a requested device."""
        for op in self._graph.get_operations():
            if op.type in _REFERENCES and not op.device:
                raise ValueError(f"When using replicas, all Variables must have their device set: {op}")

    def _new_manager(self) -> SessionManager:
        return SessionManager(
            local_init_op=self._local_init_op,
            ready_op=self._ready_op,
            ready_for_local_init_op=self._ready_for_local_init_op,
            graph=self._graph,
            recovery_wait_secs=self._recovery_wait_secs,
            local_init_run_options=self._local_init_run_options,
        )

    # --- read-only properties

    init_op = read_only("_init_op")
    init_feed_dict = read_only("_init_feed_dict")
    ready_op = read_only("_ready_op")
    ready_for_local_init_op = read_only("_ready_for_local_init_op")
    summary_writer = read_only("_summary_writer")
    summary_op = read_only("_summary_op")
    global_step = read_only("_global_step")
    saver = read_only("_saver")
    save_path = read_only("_save_path")
    is_chief: bool = read_only("_is_chief")
    session_manager: SessionManager = read_only("_session_manager")
    coord: Coordinator = read_only("_coord")
    save_summaries_secs: float = read_only("_save_summaries_secs")
    save_model_secs: float = read_only("_save_model_secs")

    # --- sessions

    @contextlib.contextmanager
    def managed_session(
        self,
        master: str = "",
        config: object = None,
        start_standard_services: bool = True,
        close_summary_writer: bool = True,
    ) -> Iterator[Any]:
        """Context of a session.  Its end stops all threads and raises their exceptions."""
        try:
            yield self.prepare_or_wait_for_session(master, config=config, start_standard_services=start_standard_services)
        except Exception as error:
            self.request_stop(error)
        finally:
            try:
                # A thread may wait for something that happens only when another thread ends.
                self.stop(close_summary_writer=close_summary_writer)
            finally:
                # the error of the block matters, not that of closing
                with contextlib.suppress(Exception):
                    self._session.close()

    def prepare_or_wait_for_session(
        self,
        master: str = "",
        config: object = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        start_standard_services: bool = True,
    ) -> Any:
        """Session with a ready model.  The chief initializes or restores the model, and the other tasks wait for it."""
        # a supervisor may manage several sessions, one after another
        self._coord.clear_stop()
        if self._summary_writer:
            self._summary_writer.reopen()
        if self._is_chief:
            session = self._session_manager.prepare_session(
                master,
                init_op=self._init_op,
                saver=self._saver,
                checkpoint_dir=self._logdir,
                wait_for_checkpoint=wait_for_checkpoint,
                max_wait_secs=max_wait_secs,
                config=config,
                init_feed_dict=self._init_feed_dict,
                init_fn=self._init_fn,
            )
            self._write_graph()
            if start_standard_services:
                tf.logging.info("Starting standard services.")
                self.start_standard_services(session)
        else:
            session = self._session_manager.wait_for_session(master, config=config, max_wait_secs=max_wait_secs)
        self._session = session
        if start_standard_services:
            tf.logging.info("Starting queue runners.")
            self.start_queue_runners(session)
        return session

    _session: Any = None

    def _write_graph(self) -> None:
        if self._logdir:
            tf.train.write_graph(self._graph.as_graph_def(add_shapes=True), self._logdir, "graph.pbtxt")
        # each writer gets the graph once
        if self._summary_writer and not self._graph_added:
            add_graphs(self._summary_writer, self._graph, self._saver)
            self._graph_added = True

    def start_standard_services(self, sess: RunningSession) -> list[Any] | None:
        """Start the threads that save and summarize.  Raises RuntimeError unless this is the chief."""
        if not self._is_chief:
            raise RuntimeError(
                "Only chief supervisor can start standard services. Because only chief supervisors can write events."
            )
        if not self._logdir:
            tf.logging.warning("Standard services need a 'logdir' passed to the SessionManager")
            return None
        if not watching.computes_steps():
            return []
        if self._global_step is not None and self._summary_writer:
            self._log_session(START, read_step(sess, self._global_step))
        found: list[LooperThread] = []
        if self._save_summaries_secs and self._summary_writer:
            if self._summary_op is not None:
                found.append(PeriodicThread(self, self._save_summaries_secs, lambda: self._write_summary(sess)))
            if self._global_step is not None:
                found.append(StepCounter(self, sess, self._save_summaries_secs))
        if self.saver and self._save_model_secs:
            found.append(PeriodicThread(self, self._save_model_secs, lambda: self._save(sess)))
        for thread in found:
            thread.start()
        self._started_threads.extend(found)
        return found

    def start_queue_runners(self, sess: RunningSession, queue_runners: Sequence[QueueRunner] | None = None) -> list[Any]:
        """Start the threads of the graph's queue runners, or of the given ones."""
        runners = self._graph.get_collection(GraphKeys.QUEUE_RUNNERS) if queue_runners is None else queue_runners
        found = [thread for runner in runners for thread in runner.create_threads(sess, self._coord, daemon=True, start=True)]
        self._started_threads.extend(found)
        return found

    # --- actions of the threads

    def _log_session(self, status: int, step: int | None, **more: object) -> None:
        self._summary_writer.add_session_log(message_class("SessionLog")(status=status, **more), step)

    def _write_summary(self, session: RunningSession) -> None:
        if self._global_step is None:
            summary, step = session.run(self._summary_op), None
        else:
            summary, step = session.run([self._summary_op, self._global_step])
        if self._summary_writer:
            tf.logging.info("Recording summary at step %s.", step)
            self._summary_writer.add_summary(summary, step)

    def _save(self, session: RunningSession) -> None:
        tf.logging.info("Saving checkpoint to path %s", self._save_path)
        with watching.internal_steps():
            self._saver.save(session, self._save_path, global_step=self._global_step)
        if self._summary_writer and self._global_step is not None:
            self._log_session(CHECKPOINT, read_step(session, self._global_step), checkpoint_path=self._save_path)

    # --- starting and stopping threads

    def loop(
        self,
        timer_interval_secs: float | None,
        target: Callable[..., object] | None,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
    ) -> Any:
        """Start a thread that calls a function every `timer_interval_secs` seconds, or without pause if that is None."""
        found = LooperThread(self._coord, timer_interval_secs, target=target, args=args, kwargs=kwargs)
        found.start()
        return found

    def stop(
        self, threads: Sequence[Any] | None = None, close_summary_writer: bool = True, ignore_live_threads: bool = False
    ) -> None:
        """Stop all threads and raise their exceptions."""
        self._coord.request_stop()
        try:
            self._coord.join(threads, stop_grace_period_secs=self._stop_grace_secs, ignore_live_threads=ignore_live_threads)
        finally:
            if close_summary_writer and self._summary_writer:
                self._log_session(STOP, None)
                self._summary_writer.close()
                self._graph_added = False

    def request_stop(self, ex: object = None) -> None:
        """Request all threads to stop."""
        self._coord.request_stop(ex=ex)

    def should_stop(self) -> bool:
        """Whether a stop was requested."""
        return self._coord.should_stop()

    def stop_on_exception(self) -> Any:
        """Context in which an exception requests a stop."""
        return self._coord.stop_on_exception()

    def wait_for_stop(self) -> None:
        """Wait until a stop is requested."""
        self._coord.wait_for_stop()

    def summary_computed(self, sess: RunningSession, summary: object, global_step: int | None = None) -> None:
        """Write a summary.  Raises TypeError for a value that is no summary, RuntimeError without a writer."""
        if not self._summary_writer:
            raise RuntimeError("Writing a summary requires a summary writer.")
        if global_step is None and self.global_step is not None:
            global_step = read_step(sess, self.global_step)
        self._summary_writer.add_summary(summary, global_step)

    # older names
    PrepareSession = prepare_or_wait_for_session
    StartQueueRunners = start_queue_runners
    StartStandardServices = start_standard_services
    Stop = stop
    RequestStop = request_stop
    Loop = loop
    ShouldStop = should_stop
    StopOnException = stop_on_exception
    WaitForStop = wait_for_stop
    SummaryComputed = summary_computed


def _local_init_op() -> Any:
    return tf.group(tf.local_variables_initializer(), initializing.tables_initializer())
