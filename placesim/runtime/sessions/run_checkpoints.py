"""Writes the checkpoints of a run, and finds the checkpoint from which a restarted run continues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from placesim.core.checkpoints.series import Series
from placesim.core.process.deadlines import run_within
from placesim.graph.session_steps import GraphStep
from placesim.runtime.saving.device_state import find_missing_state
from placesim.runtime.saving.session_checkpoints import SavedSession, check_graph, graph_variables, read_session, write_session
from placesim.runtime.sessions.session import GraphSession

KEEP = 5
"""Default number of checkpoints that TensorFlow's `Saver` keeps."""


class RunSaver:
    """Writes the checkpoints of a run, and restores one.

    After every `every` steps and after the last step, it writes `PREFIX-STEP`; it keeps the newest `keep` checkpoints. With
    `every=0`, it writes none. With `restarts`, the run continues from the newest complete checkpoint. `tell` is called with
    messages for the user.
    """

    def __init__(self, prefix: Path, every: int, keep: int, tell: Callable[[str], None], *, restarts: bool) -> None:
        """Find the checkpoint to continue from, if requested.

        Raises UsageError if no checkpoint can be written with this prefix, and OpError for an unreadable checkpoint.
        """
        self._every = every
        self._tell = tell
        self._series = Series(prefix, keep)
        self._saved: SavedSession | None = None
        self._prefix = str(prefix)
        self._told = False
        if every:
            self._series.prepare()
        if restarts:
            self._find()

    def _find(self) -> None:
        newest = self._series.resume()
        if newest is None:
            self._tell(f"no checkpoint {self._prefix}-STEP yet: starting at the first step")
            return
        self._prefix = str(newest.prefix)
        self._saved = read_session(self._prefix)

    @property
    def done(self) -> int:
        """Number of steps that earlier runs have done."""
        return 0 if self._saved is None else self._saved.step

    def resume(self, session: GraphSession, steps: Sequence[GraphStep]) -> None:
        """Restore the checkpoint, if there is one; `steps` are the steps that earlier runs have done.

        Raises OpError, with a location, for the checkpoint of another graph.
        """
        if self._saved is None:
            return
        check_graph(self._saved, session.graph, self._prefix)
        session.restore(self._saved.records, steps)
        self._tell(f"resuming at step {self.done}, from {self._prefix}")
        self._saved = None

    def nothing_left(self, session: GraphSession) -> None:
        """Tell the user that earlier runs have done all steps. Raises the errors of `resume`."""
        if self._saved is not None:
            check_graph(self._saved, session.graph, self._prefix)
        self._tell(f"nothing left to run: all steps are done in {self._prefix}")

    def after(self, session: GraphSession, done: int, *, is_last: bool) -> None:
        """Write a checkpoint if one is due after `done` steps. Raises UsageError if it can't be written."""
        if not self._every or not (is_last or done % self._every == 0):
            return
        records = run_within(session.config.timeout_seconds, session.records)
        left = find_missing_state(records, session.graph)
        if left and not self._told:
            self._told = True
            self._tell(f"checkpoints omit state that a restart resets: {', '.join(left)}")
        saved = SavedSession(done, records, tuple(graph_variables(session.graph)))
        self._series.add(done, partial(write_session, saved=saved))
