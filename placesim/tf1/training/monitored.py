"""`tf.train.MonitoredSession` and its like: sessions with hooks, which are made anew when a task is lost.

A session of these is built in layers, each with `run`, `should_stop` and `close`: `_Hooked` calls the hooks around a step,
`_Coordinated` ends the threads of queues with it, and `_Recoverable` makes all of that again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import placesim.tf1 as tf
from placesim.formats.tensorflow.messages import message_class
from placesim.tf1 import errors
from placesim.tf1.training.queue_runners import Coordinator, start_queue_runners
from placesim.tf1.training.run_hooks import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from placesim.tf1.training.scaffold import Scaffold
from placesim.tf1.training.session_creators import ChiefSessionCreator, SessionCreator, WorkerSessionCreator

USE_DEFAULT: Any = object()
_LOST = (errors.AbortedError, errors.UnavailableError)
"""What a step raises whose task is gone: another session may do it."""
_PATIENCE_SECONDS = 2.0
"""How long threads are waited for at most; TensorFlow's two minutes are for steps of other machines."""
_MAKING_LOST = (
    "An error was raised while a session was being created. This may be due to a preemption of a connected worker or parameter "
    "server. A new session will be created. This error may also occur due to a gRPC failure caused by high memory or network "
    "bandwidth usage in the parameter servers. If this error occurs repeatedly, try increasing the number of parameter servers "
    "assigned to the job. Error: %s"
)
_RUNNING_LOST = (
    "An error was raised. This may be due to a preemption in a connected worker or parameter server. The current session will "
    "be closed and a new session will be created. This error may also occur due to a gRPC failure caused by high memory or "
    "network bandwidth usage in the parameter servers. If this error occurs repeatedly, try increasing the number of parameter "
    "servers assigned to the job. Error: %s"
)


class _Layer:
    """A session around another one."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._inner_can_stop = isinstance(inner, _Layer)

    @property
    def graph(self) -> Any:
        return self._inner.graph

    @property
    def sess_str(self) -> Any:
        return self._inner.sess_str

    def should_stop(self) -> bool:
        """Whether this layer or one inside wants the loop to end."""
        if self._wants_end():
            return True
        if self._inner is None:
            return True
        return self._inner_can_stop and bool(self._inner.should_stop())

    def _wants_end(self) -> bool:
        return False

    def close(self) -> None:
        """Ends the session inside."""
        if self._inner is not None:
            try:
                self._inner.close()
            except _LOST as error:
                tf.logging.error("An error occurred when attempting to close the session. This may be due to %s", error)
            finally:
                self._inner = None

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """One step."""
        return self._inner.run(*args, **kwargs)

    def run_step_fn(self, step_fn: Callable[..., Any], raw_session: Any, run_with_hooks: Any) -> Any:
        """A function of a StepContext, which may run several steps."""
        run = self.run if run_with_hooks is None else run_with_hooks
        return step_fn(MonitoredSession.StepContext(raw_session, run))


class _Hooked(_Layer):
    def __init__(self, session: Any, hooks: Sequence[SessionRunHook]) -> None:
        super().__init__(session)
        self._hooks = hooks
        self._stops = False

    def _wants_end(self) -> bool:
        return self._stops

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """One step with what the hooks want run beside it."""
        if self.should_stop():
            raise RuntimeError("Run called even after should_stop requested.")
        asked: dict[Any, Any] = {"caller": fetches}
        context = SessionRunContext(SessionRunArgs(fetches, feed_dict), session=self._inner)
        options = message_class("RunOptions")() if options is None else options
        feeds = self._ask_hooks(context, asked, feed_dict, options)
        metadata = message_class("RunMetadata")() if run_metadata is None else run_metadata
        found = self._inner.run(asked, feed_dict=feeds, options=options, run_metadata=metadata)
        for hook in self._hooks:
            hook.after_run(context, SessionRunValues(results=found.get(hook), options=options, run_metadata=metadata))
        self._stops = self._stops or context.stop_requested
        return found["caller"]

    def _ask_hooks(self, context: SessionRunContext, asked: dict[Any, Any], feed_dict: Any, options: Any) -> Any:
        """Adds the hooks' fetches and options; all feeds."""
        feeds: dict[Any, Any] = {}
        for hook in self._hooks:
            request = hook.before_run(context)
            if request is None:
                continue
            if request.fetches is not None:
                asked[hook] = request.fetches
            if request.feed_dict:
                _check_feeds(feeds, request.feed_dict, "Same tensor is fed by two hooks.")
                feeds.update(request.feed_dict)
            if request.options:
                _join_options(options, request.options)
        if not feeds:
            return feed_dict
        if feed_dict:
            _check_feeds(feed_dict, feeds, "Same tensor is fed by a SessionRunHook and user.")
            feeds.update(feed_dict)
        return feeds


def _check_feeds(first: Any, second: Any, message: str) -> None:
    both = [key for key in first if key in second]
    if both:
        raise RuntimeError(f"{message} Conflict(s): {both}")


def _join_options(options: Any, more: Any) -> None:
    for name in ("trace_level", "timeout_in_ms", "inter_op_thread_pool"):
        setattr(options, name, max(getattr(options, name), getattr(more, name)))
    options.output_partition_graphs = options.output_partition_graphs or more.output_partition_graphs


class _Coordinated(_Layer):
    def __init__(self, session: Any, coord: Coordinator, patience_seconds: float) -> None:
        super().__init__(session)
        self._coord, self._patience_seconds = coord, patience_seconds

    def _wants_end(self) -> bool:
        self._coord.raise_requested_exception()
        return self._coord.should_stop()

    def close(self) -> None:
        """Ends the threads, then the session."""
        self._coord.request_stop()
        try:
            # a thread whose step waits for something that will not come ends with the session, which is closed next
            patience = min(self._patience_seconds, _PATIENCE_SECONDS)
            self._coord.join(stop_grace_period_secs=patience, ignore_live_threads=True)
        finally:
            super().close()

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """One step; where it fails because a thread has failed, the thread's exception."""
        try:
            return self._inner.run(*args, **kwargs)
        except _LOST:
            raise
        except Exception as error:
            try:
                self._coord.raise_requested_exception()
            except Exception as raised:
                if raised is not error:
                    raise raised from None
            raise


class _Recoverable(_Layer):
    def __init__(self, create: Callable[[], Any]) -> None:
        self._create = create
        super().__init__(self._created())

    def _created(self) -> Any:
        while True:
            try:
                return self._create()
            except _LOST as error:
                tf.logging.info(_MAKING_LOST, error)

    def _wants_end(self) -> bool:
        try:
            return bool(self._inner is not None and self._inner._wants_end())
        except _LOST as error:
            self._renew(error)
            return False

    def _renew(self, error: Exception) -> None:
        tf.logging.info(_RUNNING_LOST, error)
        self.close()
        self._inner = None

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """One step, again in a new session where its task is lost."""
        return self._persevering(lambda: self._inner.run(*args, **kwargs))

    def run_step_fn(self, step_fn: Callable[..., Any], raw_session: Any, run_with_hooks: Any) -> Any:
        """The function's steps, all of them again in a new session where a task is lost."""
        return self._persevering(lambda: self._inner.run_step_fn(step_fn, raw_session(), run_with_hooks))

    def _persevering(self, run: Callable[[], Any]) -> Any:
        while True:
            if self._inner is None:
                self._inner = self._created()
            try:
                return run()
            except _LOST as error:
                self._renew(error)


class _Monitored:
    """What MonitoredSession and SingularMonitoredSession share."""

    class StepContext:
        """What a function that `run_step_fn` calls is given: the session without hooks, and steps with them."""

        def __init__(self, session: Any, run_with_hooks_fn: Callable[..., Any]) -> None:
            self._session, self._run_with_hooks = session, run_with_hooks_fn

        @property
        def session(self) -> Any:
            return self._session

        def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
            """One step with the hooks."""
            return self._run_with_hooks(*args, **kwargs)

        def request_stop(self) -> None:
            """Leaves the function, and asks for the end."""
            raise StopIteration("step_fn has requested the iterations to stop.")

    def __init__(self, session_creator: Any, hooks: Any, should_recover: bool, stop_grace_period_secs: float = 120) -> None:
        self._graph_was_finalized = tf.get_default_graph().finalized
        self._hooks = hooks or []
        for hook in self._hooks:
            hook.begin()
        self._creator = session_creator or ChiefSessionCreator()
        self._patience_seconds = stop_grace_period_secs
        self._raw: Any = None
        self._coord: Coordinator | None = None
        self._sess: Any = _Recoverable(self._make) if should_recover else self._make()

    def _make(self) -> Any:
        """The layers around a new session; its hooks know of it."""
        self._raw = self._creator.create_session()
        self._coord = Coordinator(clean_stop_exception_types=[])
        if tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS):
            start_queue_runners(sess=self._raw, coord=self._coord)
        for hook in self._hooks:
            hook.after_create_session(self._raw, self._coord)
        return _Coordinated(_Hooked(self._raw, self._hooks), self._coord, self._patience_seconds)

    @property
    def graph(self) -> Any:
        """The graph; None once it is closed."""
        return None if self._raw is None else self._raw.graph

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """One step, as `tf.Session.run`, with the hooks called around it."""
        return self._sess.run(fetches, feed_dict=feed_dict, options=options, run_metadata=run_metadata)

    def run_step_fn(self, step_fn: Callable[..., Any]) -> Any:
        """Calls a function with a StepContext.  Raises ValueError for one that takes something else."""
        arguments = inspect.getfullargspec(step_fn).args
        is_bound = inspect.ismethod(step_fn) or "self" in arguments
        if "step_context" not in arguments or len(arguments) != (2 if is_bound else 1):
            raise ValueError(
                "`step_fn` may either have one `step_context` argument, or `self` and `step_context` arguments if it's an "
                f"instance method. Got {arguments} instead."
            )
        if isinstance(self._sess, _Recoverable):
            return self._sess.run_step_fn(step_fn, lambda: self._raw, None)
        return self._sess.run_step_fn(step_fn, self._raw, None)

    def should_stop(self) -> bool:
        """Whether the loop is to end."""
        return self._sess is None or self._sess.should_stop()

    def close(self) -> None:
        """Ends the session; its hooks are called."""
        self._close(None)

    def _is_closed(self) -> bool:
        return self._raw is None

    def _close(self, failure: Any) -> None:
        try:
            if failure is None and self._raw is not None:
                for hook in self._hooks:
                    hook.end(self._raw)
        finally:
            try:
                if self._sess is None:
                    raise RuntimeError("Session is already closed.")
                self._sess.close()
            finally:
                self._sess = self._raw = self._coord = None
                if not self._graph_was_finalized:
                    tf.get_default_graph()._unsafe_unfinalize()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if kind in (errors.OutOfRangeError, StopIteration):
            kind = None
        self._close(kind)
        return kind is None


class MonitoredSession(_Monitored):
    """A session with hooks that is made anew when a task is lost."""

    __module__ = "tensorflow.python.training.monitored_session"

    def __init__(
        self, session_creator: SessionCreator | None = None, hooks: Any = None, stop_grace_period_secs: float = 120
    ) -> None:
        super().__init__(session_creator, hooks, True, stop_grace_period_secs)


class SingularMonitoredSession(_Monitored):
    """A session with hooks; what its steps raise is raised."""

    __module__ = "tensorflow.python.training.monitored_session"

    def __init__(
        self,
        hooks: Any = None,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: Any = None,
        stop_grace_period_secs: float = 120,
        checkpoint_filename_with_path: Any = None,
    ) -> None:
        creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir, checkpoint_filename_with_path)
        super().__init__(creator, hooks, False, stop_grace_period_secs)

    def raw_session(self) -> Any:
        """The session without hooks."""
        return self._raw


def MonitoredTrainingSession(  # noqa: N802 (TensorFlow's name)
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: Any = None,
    scaffold: Scaffold | None = None,
    hooks: Any = None,
    chief_only_hooks: Any = None,
    save_checkpoint_secs: Any = USE_DEFAULT,
    save_summaries_steps: Any = USE_DEFAULT,
    save_summaries_secs: Any = USE_DEFAULT,
    config: Any = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: int | None = 100,
    max_wait_secs: float = 7200,
    save_checkpoint_steps: Any = USE_DEFAULT,
    summary_dir: Any = None,
    save_graph_def: bool = True,
) -> MonitoredSession:
    """A MonitoredSession for training: the chief's saves checkpoints and summaries, where there is a directory for them."""
    summary_steps, summary_secs = _settled(save_summaries_steps, save_summaries_secs, (100, None))
    saving_steps, saving_secs = _settled(save_checkpoint_steps, save_checkpoint_secs, (None, 600))
    scaffold = scaffold or Scaffold()
    if not is_chief:
        worker = WorkerSessionCreator(scaffold, master, config, max_wait_secs)
        return MonitoredSession(worker, hooks or [], stop_grace_period_secs)
    from placesim.tf1.training.saving_hooks import CheckpointSaverHook, SummarySaverHook
    from placesim.tf1.training.step_hooks import StepCounterHook

    used = list(chief_only_hooks or ())
    folder = summary_dir or checkpoint_dir
    if folder:
        if log_step_count_steps and log_step_count_steps > 0:
            used.append(StepCounterHook(output_dir=folder, every_n_steps=log_step_count_steps))
        if (summary_steps or 0) > 0 or (summary_secs or 0) > 0:
            used.append(
                SummarySaverHook(scaffold=scaffold, save_steps=summary_steps, save_secs=summary_secs, output_dir=folder)
            )
    if checkpoint_dir and ((saving_secs or 0) > 0 or (saving_steps or 0) > 0):
        used.append(
            CheckpointSaverHook(
                checkpoint_dir,
                save_steps=saving_steps,
                save_secs=saving_secs,
                scaffold=scaffold,
                save_graph_def=save_graph_def,
            )
        )
    chief = ChiefSessionCreator(scaffold, master, config, checkpoint_dir)
    return MonitoredSession(chief, [*used, *(hooks or ())], stop_grace_period_secs)


def _settled(steps: Any, secs: Any, default: tuple[int | None, int | None]) -> tuple[Any, Any]:
    """How often something is saved: one that is left out is none where the other is given."""
    if steps is USE_DEFAULT and secs is USE_DEFAULT:
        return default
    return (None if steps is USE_DEFAULT else steps, None if secs is USE_DEFAULT else secs)
