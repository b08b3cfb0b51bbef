"""Coordinators, and the threads that fill queues."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.formats.tensorflow.messages import message_class
from placesim.tf1 import errors
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.queues.queues import QueueBase
from placesim.tf1.session import watching
from placesim.tf1.session.stacks import FeedDict, RunningSession
from placesim.tf1.types.read_only import read_only


class Coordinator:
    """Stops several threads together; `join` raises their exceptions."""

    def __init__(self, clean_stop_exception_types: Any = None) -> None:
        self._clean = tuple(clean_stop_exception_types or (errors.OutOfRangeError,))
        self._lock = threading.Lock()
        self._stop_event = threading.Event()
        self._raised: Any = None
        self._joined = False
        self._threads: set[threading.Thread] = set()

    def request_stop(self, ex: Any = None) -> None:
        """Ask the threads to stop; `ex` is the reason: an exception or `sys.exc_info()`."""
        with self._lock:
            error = ex[1] if isinstance(ex, tuple) else ex
            if error is not None and isinstance(error, self._clean):
                error = None
            if self._joined:
                if error is not None:
                    raise error
                return
            if not self._stop_event.is_set():
                if error is not None:
                    self._raised = error
                self._stop_event.set()

    def clear_stop(self) -> None:
        """Withdraw the request to stop."""
        with self._lock:
            self._joined, self._raised = False, None
            self._stop_event.clear()

    def should_stop(self) -> bool:
        """Whether a stop was requested."""
        return self._stop_event.is_set()

    @contextlib.contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Request a stop on an exception inside."""
        try:
            yield
        except Exception as error:
            self.request_stop(error)

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait, in seconds, until a stop is requested."""
        return self._stop_event.wait(timeout)

    def register_thread(self, thread: threading.Thread) -> None:
        """Add a thread that `join` waits for."""
        with self._lock:
            self._threads.add(thread)

    def join(
        self, threads: Sequence[Any] | None = None, stop_grace_period_secs: float = 120, ignore_live_threads: bool = False
    ) -> None:
        """Wait for the threads.  Raises the exception that stopped them, or RuntimeError if some do not end in time."""
        waited = [*self._threads.union(threads or ())]
        while any(thread.is_alive() for thread in waited) and not self.wait_for_stop(1.0):
            pass
        until = time.monotonic() + stop_grace_period_secs
        while any(thread.is_alive() for thread in waited) and time.monotonic() < until:
            for thread in waited:
                thread.join(0.01)
        left = [thread.name for thread in waited if thread.is_alive()]
        self._joined = True
        self._threads = set()
        if self._raised is not None:
            raise self._raised
        if left and not ignore_live_threads:
            raise RuntimeError(f"Coordinator stopped with threads still running: {' '.join(left)}")

    joined: bool = read_only("_joined")

    def raise_requested_exception(self) -> None:
        """Raise the exception that requested the stop, if there is one."""
        if self._raised is not None:
            raise self._raised


class LooperThread(threading.Thread):
    """Calls a function periodically, or continuously, until its coordinator requests a stop."""

    def __init__(
        self,
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., object] | None = None,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
    ) -> None:
        if not isinstance(coord, Coordinator):
            raise ValueError(f"'coord' argument must be a Coordinator: {coord}")
        super().__init__(daemon=True)
        self._coord, self._interval = coord, timer_interval_secs
        self._call, self._call_args, self._call_kwargs = target, args or (), kwargs or {}
        coord.register_thread(self)

    @staticmethod
    def loop(
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., object] | None,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
    ) -> Any:
        """Make and start a thread."""
        found = LooperThread(coord, timer_interval_secs, target, args, kwargs)
        found.start()
        return found

    def run(self) -> None:
        """Body of the thread."""
        with self._coord.stop_on_exception():
            self.start_loop()
            if self._interval is None:
                while not self._coord.should_stop():
                    self.run_loop()
            else:
                due = time.time()
                while not self._coord.wait_for_stop(due - time.time()):
                    due += self._interval
                    self.run_loop()
            self.stop_loop()

    def start_loop(self) -> None:
        """Start hook."""

    def stop_loop(self) -> None:
        """Stop hook."""

    def run_loop(self) -> None:
        """Call the function once."""
        if self._call:
            self._call(*self._call_args, **self._call_kwargs)


class QueueRunner:
    """Runs enqueue ops, each in a thread, until the queue is closed or a stop is requested."""

    def __init__(
        self,
        queue: QueueBase | None = None,
        enqueue_ops: Any = None,
        close_op: Any = None,
        cancel_op: Any = None,
        queue_closed_exception_types: Any = None,
        queue_runner_def: object = None,
        import_scope: str | None = None,
    ) -> None:
        if queue_runner_def is not None:
            if queue or enqueue_ops:
                raise ValueError("queue_runner_def and queue are mutually exclusive.")
            self._take(queue_runner_def, import_scope)
        else:
            if not queue or not enqueue_ops:
                raise ValueError("Must provide queue and enqueue_ops.")
            if not isinstance(queue_closed_exception_types, tuple | None):
                raise TypeError(
                    "queue_closed_exception_types, when provided, must be a tuple of tf.error types, but saw: "
                    f"{queue_closed_exception_types}"
                )
            self._queue, self._enqueue_ops = queue, enqueue_ops
            self._close_op = queue.close() if close_op is None else close_op
            self._cancel_op = queue.close(cancel_pending_enqueues=True) if cancel_op is None else cancel_op
            self._closed_types = queue_closed_exception_types or (errors.OutOfRangeError,)
            self._name = queue.name
        self._lock = threading.Lock()
        self._runs: dict[Any, int] = {}
        self._exceptions_raised: list[BaseException] = []

    def _take(self, given: Any, scope: str | None) -> None:
        graph = get_default_graph()

        def element(name: str) -> Any:
            return graph.as_graph_element(f"{scope}/{name}" if scope else name)

        self._queue = element(given.queue_name)
        self._enqueue_ops = [element(name) for name in given.enqueue_op_name]
        self._close_op, self._cancel_op = element(given.close_op_name), element(given.cancel_op_name)
        self._closed_types = tuple(
            errors.exception_type_from_error_code(code) for code in given.queue_closed_exception_types
        ) or (errors.OutOfRangeError,)
        self._name = self._queue.op.name if hasattr(self._queue, "op") else self._queue.name

    queue = read_only("_queue")
    enqueue_ops = read_only("_enqueue_ops")
    close_op = read_only("_close_op")
    cancel_op = read_only("_cancel_op")
    queue_closed_exception_types = read_only("_closed_types")
    exceptions_raised: list[BaseException] = read_only("_exceptions_raised")

    @property
    def name(self) -> str:
        """The queue's name."""
        return str(self._name)

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The QueueRunnerDef."""
        found = message_class("QueueRunnerDef")(queue_name=self._name)
        found.enqueue_op_name.extend(op.name for op in self._enqueue_ops)
        found.close_op_name, found.cancel_op_name = self._close_op.name, self._cancel_op.name
        found.queue_closed_exception_types.extend(errors.error_code_from_exception_type(kind) for kind in self._closed_types)
        return found

    @staticmethod
    def from_proto(queue_runner_def: object, import_scope: str | None = None) -> QueueRunner:
        """Make the QueueRunner of a QueueRunnerDef, from ops of the graph."""
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)

    def create_threads(
        self, sess: RunningSession, coord: Coordinator | None = None, daemon: bool = False, start: bool = False
    ) -> list[threading.Thread]:
        """One thread per op, and one that closes the queue when a stop is requested."""
        with self._lock:
            if self._runs.get(sess, 0) > 0:
                return []
            self._runs[sess] = len(self._enqueue_ops)
            self._exceptions_raised = []
        name = "QueueRunnerThread-{}-{}".format
        if not watching.computes_steps():
            # one step records what each thread would do, so no thread runs
            with watching.background_steps():
                for op in self._enqueue_ops:
                    sess.run(op, self._feeds(op))
            start, coord = False, None
        found = [
            threading.Thread(target=self._run, args=(sess, op, coord), name=name(self._name, op.name))
            for op in self._enqueue_ops
        ]
        if coord is not None:
            closing = (coord, sess, self._cancel_op)
            found.append(threading.Thread(target=self._close_on_stop, args=closing, name=name(self._name, "close_on_stop")))
        for thread in found:
            if coord is not None:
                coord.register_thread(thread)
            if daemon:
                thread.daemon = True
            if start:
                thread.start()
        return found

    def _feeds(self, enqueue_op: Any) -> FeedDict | None:
        """Feeds of the next run of an enqueue op."""
        return None

    def _run(self, sess: RunningSession, enqueue_op: Any, coord: Coordinator) -> None:
        if not watching.computes_steps():
            return
        counted = True
        try:
            while coord is None or not coord.should_stop():
                try:
                    sess.run(enqueue_op, self._feeds(enqueue_op))
                except self._closed_types:
                    with self._lock:
                        self._runs[sess] -= 1
                        counted = False
                        is_last = not self._runs[sess]
                    if is_last:
                        with contextlib.suppress(Exception):
                            sess.run(self._close_op)
                    return
        except Exception as error:
            if coord is not None:
                if not coord.joined:  # else the session was closed while the op waited
                    coord.request_stop(error)
                return
            sys.stderr.write(f"ERROR:tensorflow:Exception in QueueRunner: {error}\n")
            with self._lock:
                self._exceptions_raised.append(error)
            raise
        finally:
            if counted:
                with self._lock:
                    self._runs[sess] -= 1

    def _close_on_stop(self, coord: Coordinator, sess: RunningSession, cancel_op: Any) -> None:
        coord.wait_for_stop()
        with contextlib.suppress(Exception):  # the session may be closed by now
            sess.run(cancel_op)


def add_queue_runner(qr: QueueRunner, collection: str = GraphKeys.QUEUE_RUNNERS) -> None:
    """Add a QueueRunner to the collection that `start_queue_runners` starts."""
    tf.add_to_collection(collection, qr)


def start_queue_runners(
    sess: object = None,
    coord: object = None,
    daemon: bool = True,
    start: bool = True,
    collection: str = GraphKeys.QUEUE_RUNNERS,
) -> list[threading.Thread]:
    """Start the threads of the graph's QueueRunners.  Raises ValueError without a session, TypeError for an invalid one."""
    if sess is None:
        sess = tf.get_default_session()
        if not sess:
            raise ValueError(
                "Cannot start queue runners: No default session is registered. Use `with sess.as_default()` or pass an "
                "explicit session to tf.start_queue_runners(sess=sess)"
            )
    if not hasattr(sess, "run") or not hasattr(sess, "graph"):
        raise TypeError(f"sess must be a `tf.Session` object. Given class: {sess.__class__}")
    with sess.graph.as_default():
        runners: list[Callable[..., Any]] = tf.get_collection(collection)
        found: list[threading.Thread] = []
        for runner in runners:
            found.extend(runner.create_threads(sess, coord=coord, daemon=daemon, start=start))  # type: ignore[attr-defined]
        return found
