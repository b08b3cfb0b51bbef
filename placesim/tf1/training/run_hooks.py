"""`tf.train.SessionRunHook`: hooks of training sessions, with the records of their requests and results."""

from __future__ import annotations

from typing import Any, NamedTuple

from placesim.tf1.queues.queue_runners import Coordinator
from placesim.tf1.session.stacks import RunningSession
from placesim.tf1.types.read_only import read_only


class SessionRunArgs(NamedTuple):
    """A hook's additions to the step that the caller requests: fetches in any structure, feeds, and RunOptions."""

    fetches: Any
    feed_dict: Any = None
    options: Any = None


class SessionRunValues(NamedTuple):
    """Results of a step: the values of a hook's own fetches, and the options and statistics of the step."""

    results: Any
    options: Any
    run_metadata: Any


class SessionRunContext:
    """Context of one step for its hooks, in which a hook can request a stop."""

    def __init__(self, original_args: SessionRunArgs, session: RunningSession) -> None:
        self._original_args, self._session = original_args, session
        self._stop_requested = False

    original_args: SessionRunArgs = read_only("_original_args", "Fetches, feeds and options of the caller.")
    session = read_only("_session")
    stop_requested: bool = read_only("_stop_requested", "Whether a hook requested a stop.")

    def request_stop(self) -> None:
        """Request the end of the loop, which `should_stop` reports."""
        self._stop_requested = True


class SessionRunHook:
    """Base of hooks, which are called around the steps of a training session.  Its methods do nothing."""

    def begin(self) -> None:
        """Called before the session is made, while nodes can still be added to the graph."""

    def after_create_session(self, session: RunningSession, coord: Coordinator) -> None:
        """Called after the session was made, or made again.  The graph is finalized."""

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Called before a step; returns additional fetches and feeds."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Called after a step that raised no exception."""

    def end(self, session: RunningSession) -> None:
        """Called at the end of a session that ends without an exception."""
