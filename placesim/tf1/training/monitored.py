"""`tf.train.MonitoredSession` and related classes: sessions with hooks, made of the layers in `session_layers`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import placesim.tf1 as tf
from placesim.tf1 import errors
from placesim.tf1.queues.queue_runners import Coordinator, start_queue_runners
from placesim.tf1.training.scaffold import Scaffold
from placesim.tf1.training.session_creators import ChiefSessionCreator, SessionCreator, WorkerSessionCreator
from placesim.tf1.training.session_layers import CoordinatedSession, HookedSession, RecoverableSession, StepContext

USE_DEFAULT: Any = object()


class _MonitoredBase:
    """Base of MonitoredSession and SingularMonitoredSession."""

    StepContext = StepContext

    def __init__(
        self, session_creator: Any, hooks: Sequence[Any] | None, should_recover: bool, stop_grace_period_secs: float = 120
    ) -> None:
        self._graph_was_finalized = tf.get_default_graph().finalized
        self._hooks = hooks or []
        for hook in self._hooks:
            # hooks may add nodes, so this comes before the scaffold finalizes the graph
            hook.begin()
        self._creator = session_creator or ChiefSessionCreator()
        self._patience_seconds = stop_grace_period_secs
        self._raw: Any = None
        self._coord: Coordinator | None = None
        # hooks see a new session after a task was lost, so `_make` calls them again
        self._sess: Any = RecoverableSession(self._make) if should_recover else self._make()

    def _make(self) -> Any:
        """Layers around a new session, which is passed to the hooks."""
        self._raw = self._creator.create_session()
        # the end of data must reach the caller as an exception, not end the threads quietly
        self._coord = Coordinator(clean_stop_exception_types=[])
        if tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS):
            start_queue_runners(sess=self._raw, coord=self._coord)
        for hook in self._hooks:
            hook.after_create_session(self._raw, self._coord)
        return CoordinatedSession(HookedSession(self._raw, self._hooks), self._coord, self._patience_seconds)

    @property
    def graph(self) -> Any:
        """The graph; None after closing."""
        return None if self._raw is None else self._raw.graph

    def run(self, fetches: object, feed_dict: object = None, options: object = None, run_metadata: object = None) -> Any:
        """Run one step like `tf.Session.run`, with calls of the hooks before and after it."""
        return self._sess.run(fetches, feed_dict=feed_dict, options=options, run_metadata=run_metadata)

    def run_step_fn(self, step_fn: Callable[..., Any]) -> Any:
        """Call `step_fn(step_context)`.  Raises ValueError for a function with other parameters."""
        arguments = inspect.getfullargspec(step_fn).args
        is_bound = inspect.ismethod(step_fn) or "self" in arguments
        if "step_context" not in arguments or len(arguments) != (2 if is_bound else 1):
            raise ValueError(
                "`step_fn` may either have one `step_context` argument, or `self` and `step_context` arguments if it's an "
                f"instance method. Got {tuple(arguments)} instead."
            )
        if isinstance(self._sess, RecoverableSession):
            return self._sess.run_step_fn(step_fn, lambda: self._raw, None)
        return self._sess.run_step_fn(step_fn, self._raw, None)

    def should_stop(self) -> bool:
        """Whether the loop should end."""
        return self._sess is None or self._sess.should_stop()

    def close(self) -> None:
        """Call the hooks' `end`, and close the session."""
        self._close(None)

    def _is_closed(self) -> bool:
        return self._raw is None

    def _close(self, failure: object) -> None:
        try:
            # hooks do not see the end of a session that failed
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
                # a script may build on after training
                if not self._graph_was_finalized:
                    tf.get_default_graph()._unsafe_unfinalize()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        # the end of the data ends training without an error
        if kind in (errors.OutOfRangeError, StopIteration):
            kind = None
        self._close(kind)
        return kind is None


class MonitoredSession(_MonitoredBase):
    """A session with hooks that recovers from lost tasks."""

    __module__ = "tensorflow.python.training.monitored_session"

    def __init__(
        self,
        session_creator: SessionCreator | None = None,
        hooks: Sequence[Any] | None = None,
        stop_grace_period_secs: float = 120,
    ) -> None:
        super().__init__(session_creator, hooks, True, stop_grace_period_secs)


class SingularMonitoredSession(_MonitoredBase):
    """A session with hooks that does not recover from errors."""

    __module__ = "tensorflow.python.training.monitored_session"

    def __init__(
        self,
        hooks: Sequence[Any] | None = None,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: str | None = None,
        stop_grace_period_secs: float = 120,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:
        creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir, checkpoint_filename_with_path)
        super().__init__(creator, hooks, False, stop_grace_period_secs)

    def raw_session(self) -> Any:
        """The session without hooks."""
        return self._raw


def MonitoredTrainingSession(  # noqa: N802 (TensorFlow's name)
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: str | None = None,
    scaffold: Scaffold | None = None,
    hooks: Sequence[Any] | None = None,
    chief_only_hooks: Sequence[Any] | None = None,
    save_checkpoint_secs: object = USE_DEFAULT,
    save_summaries_steps: object = USE_DEFAULT,
    save_summaries_secs: object = USE_DEFAULT,
    config: object = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: int | None = 100,
    max_wait_secs: float = 7200,
    save_checkpoint_steps: object = USE_DEFAULT,
    summary_dir: object = None,
    save_graph_def: bool = True,
) -> MonitoredSession:
    """MonitoredSession for training; the chief's session saves checkpoints and summaries if a directory is given."""
    # if one of the two intervals is given, the other one has no default
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


def _settled(steps: object, secs: object, default: tuple[int | None, int | None]) -> tuple[Any, Any]:
    """Steps and seconds between saves: `default` if both are USE_DEFAULT; otherwise, None replaces USE_DEFAULT."""
    if steps is USE_DEFAULT and secs is USE_DEFAULT:
        return default
    return (None if steps is USE_DEFAULT else steps, None if secs is USE_DEFAULT else secs)
