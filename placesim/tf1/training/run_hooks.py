"""Hooks of a training session, their arguments and their requests: `tf.train.SessionRunHook` and the records around it."""

from __future__ import annotations

from typing import Any, NamedTuple

from placesim.tf1.queues.queue_runners import Coordinator
from placesim.tf1.session.stacks import RunningSession


class SessionRunArgs(NamedTuple):
    """Additions to the caller's request: fetches in any structure, feeds, and RunOptions."""

    fetches: Any
    feed_dict: Any = None
    options: Any = None


class SessionRunValues(NamedTuple):
    """Results of a step: the values of a hook's own fetches, and the options and statistics of the step."""

    results: Any
    options: Any
    run_metadata: Any


class SessionRunContext:
    """Context of one step for its hooks; any of them may ask for the end of the loop."""

    def __init__(self, original_args: SessionRunArgs, session: RunningSession) -> None:
        self._original_args, self._session = original_args, session
        self._stop_requested = False

    @property
    def original_args(self) -> SessionRunArgs:
        """Request of the caller."""
        return self._original_args

    @property
    def session(self) -> Any:
        return self._session

    @property
    def stop_requested(self) -> bool:
        """Whether a hook requested a stop."""
        return self._stop_requested

    def request_stop(self) -> None:
        """Request the end of the loop, which `should_stop` reports."""
        self._stop_requested = True


class SessionRunHook:
    """Is called around the steps of a training session; each method does nothing unless it is overridden."""

    def begin(self) -> None:
        """Before the session is made: the graph may still be added to."""

    def after_create_session(self, session: RunningSession, coord: Coordinator) -> None:
        """After the session was made, or made again; the graph is finalized."""

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Called before a step; returns additional fetches and feeds."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """After a step that raised nothing."""

    def end(self, session: RunningSession) -> None:
        """At the end of a session that ends without an exception."""
