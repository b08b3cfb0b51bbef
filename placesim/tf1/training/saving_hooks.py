"""Hooks that write files: checkpoints, summaries, and timelines of steps."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.formats.tensorflow.messages import message_class
from placesim.tf1.files.events import FileWriter
from placesim.tf1.graphs.graph import Graph
from placesim.tf1.queues.queue_runners import Coordinator
from placesim.tf1.saving.saver import Saver
from placesim.tf1.session import watching
from placesim.tf1.session.stacks import RunningSession
from placesim.tf1.training.own_steps import read_step
from placesim.tf1.training.run_hooks import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from placesim.tf1.training.scaffold import Scaffold
from placesim.tf1.training.step_hooks import SecondOrStepTimer, step_reader


class CheckpointSaverListener:
    """Listener for checkpoints of a CheckpointSaverHook."""

    def begin(self) -> None:
        """Called before the session is made."""

    def before_save(self, session: RunningSession, global_step_value: int) -> None:
        """Called before a checkpoint."""

    def after_save(self, session: RunningSession, global_step_value: int) -> Any:
        """Called after a checkpoint; True requests the end of the loop."""

    def end(self, session: RunningSession, global_step_value: int) -> None:
        """Called at the end of the session."""


class CheckpointSaverHook(SessionRunHook):
    """Saves a checkpoint at the beginning, periodically, and at the end.  Raises ValueError for conflicting arguments."""

    def __init__(
        self,
        checkpoint_dir: str,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Saver | None = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Scaffold | None = None,
        listeners: Sequence[CheckpointSaverListener] | None = None,
        save_graph_def: bool = True,
    ) -> None:
        tf.logging.info("Create CheckpointSaverHook.")
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold.")
        self._saver, self._scaffold = saver, scaffold
        self._folder = checkpoint_dir
        self._path = os.path.join(checkpoint_dir, checkpoint_basename)
        self._timer = SecondOrStepTimer(save_secs, save_steps)
        self._listeners = listeners or []
        # a TPU loop would count several steps in one run
        self._steps_per_run = 1
        self._save_graph_def = save_graph_def

    def begin(self) -> None:
        """Find the global step.  Raises RuntimeError if there is none."""
        self._writer = tf.summary.FileWriterCache.get(self._folder)
        self._step = step_reader("CheckpointSaverHook")
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: RunningSession, coord: Coordinator) -> None:
        """Write the graph and the first checkpoint."""
        if not watching.computes_steps():
            return
        step = read_step(session, self._step)
        graph = tf.get_default_graph()
        if self._save_graph_def:
            tf.train.write_graph(graph.as_graph_def(add_shapes=True), self._folder, "graph.pbtxt")
        # here and not in `begin`: later hooks may still have added nodes then
        add_graphs(self._writer, graph, self._found_saver())
        self._save(session, step)
        self._timer.update_last_triggered_step(step)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Request the global step."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Save a checkpoint if one is due.  The global step is read again, because the first read may precede its update."""
        if not self._timer.should_trigger_for_step(run_values.results + self._steps_per_run):
            return
        step = read_step(run_context.session, self._step)
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            if self._save(run_context.session, step):
                run_context.request_stop()

    def end(self, session: RunningSession) -> None:
        """Save a checkpoint of the last step, unless there is one."""
        if not watching.computes_steps():
            return
        step = read_step(session, self._step)
        # the last step may have been saved already
        if step != self._timer.last_triggered_step():
            self._save(session, step)
        for listener in self._listeners:
            listener.end(session, step)

    def _save(self, session: RunningSession, step: int) -> bool:
        """Save a checkpoint; return whether a listener requests the end of the loop."""
        tf.logging.info("Calling checkpoint listeners before saving checkpoint %d...", step)
        for listener in self._listeners:
            listener.before_save(session, step)
        tf.logging.info("Saving checkpoints for %d into %s.", step, self._path)
        with watching.internal_steps():
            self._found_saver().save(session, self._path, global_step=step, write_meta_graph=self._save_graph_def)
        log = message_class("SessionLog")(status=CHECKPOINT, checkpoint_path=self._path)
        self._writer.add_session_log(log, step)
        tf.logging.info("Calling checkpoint listeners after saving checkpoint %d...", step)
        is_over = False
        for listener in self._listeners:
            if listener.after_save(session, step):
                tf.logging.info("A CheckpointSaverListener requested that training be stopped. listener: %s", listener)
                is_over = True
        return is_over

    def _found_saver(self) -> Any:
        """The given Saver, else the scaffold's Saver, else the only Saver in the graph's collection."""
        if self._saver is not None:
            return self._saver
        if self._scaffold is not None:
            return self._scaffold.saver
        key = tf.GraphKeys.SAVERS
        found = tf.get_collection(key)
        if not found:
            raise RuntimeError(
                f"No items in collection {key}. Please add a saver to the collection or provide a saver or scaffold."
            )
        if len(found) > 1:
            raise RuntimeError(
                f"More than one item in collection {key}. Please indicate which one to use by passing it to the constructor."
            )
        self._saver = found[0]
        return self._saver


START, STOP, CHECKPOINT = 1, 2, 3
"""Statuses of a SessionLog."""


def add_graphs(writer: FileWriter, graph: Graph, saver: Saver | None) -> None:
    """Write a graph to an event file, as a GraphDef and as a MetaGraphDef with the saver."""
    writer.add_graph(graph)
    meta_graph = message_class("MetaGraphDef")()
    definition = graph.as_graph_def(add_shapes=True)
    saver_def = saver.saver_def if saver else None
    meta_graph.CopyFrom(tf.train.export_meta_graph(graph=graph, graph_def=definition, saver_def=saver_def))
    writer.add_meta_graph(meta_graph)


class SummarySaverHook(SessionRunHook):
    """Writes summaries periodically.  Raises ValueError for conflicting arguments."""

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: Any = None,
        summary_writer: FileWriter | None = None,
        scaffold: Any = None,
        summary_op: object = None,
    ) -> None:
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be provided.")
        self._summary_op, self._scaffold = summary_op, scaffold
        self._writer, self._folder = summary_writer, output_dir
        self._timer = SecondOrStepTimer(save_secs, save_steps)

    def begin(self) -> None:
        """Find the global step.  Raises RuntimeError if there is none."""
        if self._writer is None and self._folder:
            self._writer = tf.summary.FileWriterCache.get(self._folder)
        self._next_step: Any = None
        self._step = step_reader("SummarySaverHook")

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Request the global step and, if due, the summaries."""
        fetches = {"global_step": self._step}
        self._is_due = self._next_step is None or self._timer.should_trigger_for_step(self._next_step)
        if self._is_due:
            summaries = self._summaries()
            if summaries is not None:
                fetches["summary"] = summaries
        return SessionRunArgs(fetches)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Write the summaries."""
        if not self._writer:
            return
        step = run_values.results["global_step"]
        # the value fetched with the step may be older than the update in the same step
        if self._next_step is None or self._is_due:
            step = read_step(run_context.session, self._step)
        if self._next_step is None:
            self._writer.add_session_log(message_class("SessionLog")(status=START), step)
        if self._is_due:
            self._timer.update_last_triggered_step(step)
            for summary in run_values.results.get("summary", ()):
                self._writer.add_summary(summary, step)
        self._next_step = step + 1

    def end(self, session: object = None) -> None:
        """Flush the writer."""
        if self._writer:
            self._writer.flush()

    def _summaries(self) -> Any:
        """List of the summary ops; None if there are none."""
        found = self._summary_op
        if found is None and self._scaffold.summary_op is not None:
            found = self._scaffold.summary_op
        if found is None:
            return None
        return found if isinstance(found, list) else [found]


class ProfilerHook(SessionRunHook):
    """Writes the timeline of a step periodically: `timeline-STEP.json`, in Chrome's trace format."""

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str = "",
        show_dataflow: bool = True,
        show_memory: bool = False,
    ) -> None:
        self._folder = output_dir
        self._show_dataflow, self._show_memory = show_dataflow, show_memory
        self._timer = SecondOrStepTimer(save_secs, save_steps)

    def begin(self) -> None:
        """Find the global step.  Raises RuntimeError if there is none."""
        self._writer = tf.summary.FileWriterCache.get(self._folder)
        self._next_step: Any = None
        self._step = step_reader("ProfilerHook")

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Request the global step and, if due, a full trace."""
        self._is_due = self._next_step is not None and self._timer.should_trigger_for_step(self._next_step)
        options = message_class("RunOptions")
        return SessionRunArgs(self._step, options=options(trace_level=options.FULL_TRACE) if self._is_due else None)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Write the timeline of the step, if it was traced."""
        step = run_values.results
        if self._next_step is None:
            self._timer.update_last_triggered_step(step)
        if self._is_due:
            from placesim.tf1.session.timeline import Timeline

            step = read_step(run_context.session, self._step)
            self._timer.update_last_triggered_step(step)
            path = os.path.join(self._folder, f"timeline-{step}.json")
            tf.logging.info("Saving timeline for %d into '%s'.", step, path)
            trace = Timeline(run_values.run_metadata.step_stats).generate_chrome_trace_format(
                self._show_dataflow, self._show_memory
            )
            with open(path, "w", encoding="utf-8") as file:
                file.write(trace)
            self._writer.add_run_metadata(run_values.run_metadata, f"step_{step}")
        self._next_step = step + 1
