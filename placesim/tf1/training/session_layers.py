"""Layers of a monitored session, each with `run`, `should_stop` and `close`.

`HookedSession` calls the hooks around a step.  `CoordinatedSession` also ends the threads of queues.  `RecoverableSession`
makes a new session after a task was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.formats.tensorflow.messages import message_class
from placesim.tf1 import errors
from placesim.tf1.queues.queue_runners import Coordinator
from placesim.tf1.session.stacks import FeedDict
from placesim.tf1.training.run_hooks import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from placesim.tf1.types.read_only import read_only

_LOST = (errors.AbortedError, errors.UnavailableError)
"""Errors of a lost task, after which another session may continue."""
_PATIENCE_SECONDS = 2.0
"""Maximum wait for threads, in seconds; TensorFlow waits two minutes, since other machines may still run steps."""
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


class StepContext:
    """Argument of the functions that `run_step_fn` calls: the session without hooks, and steps with hooks."""

    def __init__(self, session: Any, run_with_hooks_fn: Callable[..., Any]) -> None:
        self._session, self._run_with_hooks = session, run_with_hooks_fn

    session = read_only("_session")

    def run_with_hooks(self, *args: object, **kwargs: object) -> Any:
        """Run one step with the hooks."""
        return self._run_with_hooks(*args, **kwargs)

    def request_stop(self) -> None:
        """Leave the step function and request a stop."""
        raise StopIteration("step_fn has requested the iterations to stop.")


class _Layer:
    """A session that wraps another session."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._inner_can_stop = isinstance(inner, _Layer)

    graph = read_only("_inner.graph")
    sess_str = read_only("_inner.sess_str")

    def should_stop(self) -> bool:
        """Whether this layer or an inner one requests the end of the loop."""
        if self._wants_end() or self._inner is None:
            return True
        return self._inner_can_stop and bool(self._inner.should_stop())

    def _wants_end(self) -> bool:
        return False

    def close(self) -> None:
        """Close the inner session."""
        if self._inner is not None:
            try:
                self._inner.close()
            except _LOST as error:
                tf.logging.error("An error occurred when attempting to close the session. This may be due to %s", error)
            finally:
                self._inner = None

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run one step."""
        return self._inner.run(*args, **kwargs)

    def run_step_fn(self, step_fn: Callable[..., Any], raw_session: Any, run_with_hooks: Callable[..., Any] | None) -> Any:
        """Call `step_fn(StepContext)`, which may run several steps."""
        run = self.run if run_with_hooks is None else run_with_hooks
        return step_fn(StepContext(raw_session, run))


class HookedSession(_Layer):
    """Calls hooks before and after each step, and adds the hooks' fetches and feeds to the step."""

    def __init__(self, session: Any, hooks: Sequence[SessionRunHook]) -> None:
        super().__init__(session)
        self._hooks = hooks
        self._stops = False

    def _wants_end(self) -> bool:
        return self._stops

    def run(
        self, fetches: object, feed_dict: FeedDict | None = None, options: object = None, run_metadata: object = None
    ) -> Any:
        """Run a step with the hooks' additional fetches."""
        if self.should_stop():
            raise RuntimeError("Run called even after should_stop requested.")
        asked: dict[Any, Any] = {"caller": fetches}
        context = SessionRunContext(SessionRunArgs(fetches, feed_dict), session=self._inner)
        # hooks may set options even if the caller has none
        options = message_class("RunOptions")() if options is None else options
        feeds = self._ask_hooks(context, asked, feed_dict, options)
        metadata = message_class("RunMetadata")() if run_metadata is None else run_metadata
        found = self._inner.run(asked, feed_dict=feeds, options=options, run_metadata=metadata)
        for hook in self._hooks:
            hook.after_run(context, SessionRunValues(results=found.get(hook), options=options, run_metadata=metadata))
        self._stops = self._stops or context.stop_requested
        return found["caller"]

    def _ask_hooks(self, context: SessionRunContext, asked: dict[Any, Any], feed_dict: FeedDict | None, options: object) -> Any:
        """Add the hooks' fetches to `asked`, and their options to `options`.  Return all feeds."""
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


def _check_feeds(first: FeedDict, second: FeedDict, message: str) -> None:
    both = [key for key in first if key in second]
    if both:
        raise RuntimeError(f"{message} Conflict(s): {both}")


def _join_options(options: Any, more: Any) -> None:
    for name in ("trace_level", "timeout_in_ms", "inter_op_thread_pool"):
        # the larger of both: the higher level of tracing, the longer timeout
        setattr(options, name, max(getattr(options, name), getattr(more, name)))
    options.output_partition_graphs = options.output_partition_graphs or more.output_partition_graphs


class CoordinatedSession(_Layer):
    """Session that ends when a Coordinator stops its threads, and that raises the threads' exceptions."""

    def __init__(self, session: Any, coord: Coordinator, patience_seconds: float) -> None:
        super().__init__(session)
        self._coord, self._patience_seconds = coord, patience_seconds

    def _wants_end(self) -> bool:
        # asking whether to stop is where the exception of a thread reaches the caller
        self._coord.raise_requested_exception()
        return self._coord.should_stop()

    def close(self) -> None:
        """End the threads, then close the session."""
        self._coord.request_stop()
        try:
            # A thread whose step waits in vain ends when the session is closed below.
            patience = min(self._patience_seconds, _PATIENCE_SECONDS)
            self._coord.join(stop_grace_period_secs=patience, ignore_live_threads=True)
        finally:
            super().close()

    def run(self, *args: object, **kwargs: object) -> Any:
        """Run a step; if it fails because a thread failed, raise the thread's exception."""
        try:
            return self._inner.run(*args, **kwargs)
        except _LOST:
            raise
        except Exception as error:
            try:
                self._coord.raise_requested_exception()
            except Exception as raised:
                # a thread's error is the cause: the step only saw a closed queue
                if raised is not error:
                    raise raised from None
            raise


class RecoverableSession(_Layer):
    """Makes a new session after a task was lost, and runs the step again."""

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

    def run(self, *args: object, **kwargs: object) -> Any:
        """Run one step, and again in a new session if a task is lost."""
        return self._persevering(lambda: self._inner.run(*args, **kwargs))

    def run_step_fn(self, step_fn: Callable[..., Any], raw_session: Any, run_with_hooks: Callable[..., Any] | None) -> Any:
        """Run the steps of a function, and all of them again in a new session if a task is lost."""
        return self._persevering(lambda: self._inner.run_step_fn(step_fn, raw_session(), run_with_hooks))

    def _persevering(self, run: Callable[[], Any]) -> Any:
        while True:
            if self._inner is None:
                self._inner = self._created()
            try:
                return run()
            except _LOST as error:
                self._renew(error)
