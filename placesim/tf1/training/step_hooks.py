"""Hooks that count steps: timers, stopping, speed and logging."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import placesim.tf1 as tf
from placesim.formats.tensorflow.messages import message_class
from placesim.tf1.files.events import FileWriter
from placesim.tf1.optimizers import steps
from placesim.tf1.queues.queue_runners import Coordinator
from placesim.tf1.session import watching
from placesim.tf1.session.stacks import RunningSession
from placesim.tf1.training.own_steps import read_step
from placesim.tf1.training.run_hooks import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues


def step_reader(hook: str) -> Any:
    """Tensor from which a hook reads the global step.  Raises RuntimeError without one."""
    found = steps.read_global_step()
    if found is None:
        raise RuntimeError(f"Global step should be created to use {hook}.")
    return found


class SecondOrStepTimer:
    """Timer by seconds or by steps. Raises ValueError unless exactly one of the two is given."""

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if every_secs is not None and every_steps is not None:
            raise ValueError("Can not provide both every_secs and every_steps.")
        self._every_secs, self._every_steps = every_secs, every_steps
        self.reset()

    def reset(self) -> None:
        """Forget the last trigger."""
        self._last_step: int | None = None
        self._last_time: float | None = None

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether to trigger at a step: always at the first step, never twice at the same step."""
        # the first step always triggers: a run of any length leaves something behind
        if self._last_step is None:
            return True
        if self._last_step == step:
            return False
        if self._every_secs is not None:
            assert self._last_time is not None
            return time.time() >= self._last_time + self._every_secs
        assert self._every_steps is not None
        return step >= self._last_step + self._every_steps

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Record a trigger.  Return the seconds and steps since the previous one, None at the first."""
        now = time.time()
        if self._last_step is None or self._last_time is None:
            passed: tuple[float | None, int | None] = (None, None)
        else:
            passed = (now - self._last_time, step - self._last_step)
        self._last_time, self._last_step = now, step
        return passed

    def last_triggered_step(self) -> int | None:
        """Step of the last trigger."""
        return self._last_step


class LoggingTensorHook(SessionRunHook):
    """Logs values of tensors periodically or at the end.  Raises ValueError for conflicting intervals."""

    def __init__(
        self,
        tensors: Any,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[Any], str] | None = None,
    ) -> None:
        only_at_end = at_end and every_n_iter is None and every_n_secs is None
        if not only_at_end and (every_n_iter is None) == (every_n_secs is None):
            raise ValueError("either at_end and/or exactly one of every_n_iter and every_n_secs must be provided.")
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        if isinstance(tensors, dict):
            self._tensors, self._order = tensors, list(tensors)
        else:
            self._tensors, self._order = {item: item for item in tensors}, list(tensors)
        self._formatter, self._at_end = formatter, at_end
        self._timer = None if only_at_end else SecondOrStepTimer(every_n_secs, every_n_iter)
        self._count, self._is_due = 0, False

    def begin(self) -> None:
        """Find the tensors, which may be given by name."""
        if self._timer is not None:
            self._timer.reset()
        self._count = 0
        self._fetched = {tag: _named_tensor(tensor) for tag, tensor in self._tensors.items()}

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Request the tensors if they will be logged."""
        self._is_due = self._timer is not None and self._timer.should_trigger_for_step(self._count)
        return SessionRunArgs(self._fetched) if self._is_due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Log the tensors if they were requested."""
        if self._is_due:
            self._log(run_values.results)
        self._count += 1

    def end(self, session: RunningSession) -> None:
        """Log the values at the end if requested."""
        if self._at_end and watching.computes_steps():
            self._log(session.run(self._fetched))

    def _log(self, values: Any) -> None:
        seconds = None if self._timer is None else self._timer.update_last_triggered_step(self._count)[0]
        # as TensorFlow does: 0.0001 and not 1e-04
        with np.printoptions(suppress=True):
            if self._formatter:
                tf.logging.info(self._formatter(values))
                return
            shown = ", ".join(f"{tag} = {values[tag]!s}" for tag in self._order)
        if seconds is None:
            tf.logging.info("%s", shown)
        else:
            tf.logging.info("%s (%.3f sec)", shown, seconds)


def _named_tensor(given: object) -> Any:
    """The tensor of a name, which may be that of an op with one output; others are returned.  Raises KeyError, ValueError."""
    graph = tf.get_default_graph()
    if not isinstance(given, str):
        if getattr(given, "graph", None) is not graph:
            raise ValueError(f"Passed {given} should have graph attribute that is equal to current graph {graph}.")
        return given
    if ":" in given:
        return graph.as_graph_element(given)
    found = graph.as_graph_element(f"{given}:0")
    if len(found.op.outputs) > 1:
        raise ValueError(f"Name {given} is ambiguous, as this `Operation` has multiple outputs (at least 2).")
    return found


class StopAtStepHook(SessionRunHook):
    """Ends the loop at a global step, or after a number of steps.  Raises ValueError unless exactly one is given."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified.")
        if num_steps is not None and last_step is not None:
            raise ValueError("Only one of num_steps or last_step can be specified.")
        self._num_steps, self._last_step = num_steps, last_step

    def begin(self) -> None:
        """Find the global step.  Raises RuntimeError if there is none."""
        self._step = step_reader("StopAtStepHook")

    def after_create_session(self, session: RunningSession, coord: Coordinator) -> None:
        """Compute the last step from the first step of the session."""
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = read_step(session, self._step) + self._num_steps

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Request the global step."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Request a stop at the last step; the step is read again, since the first read may precede its update."""
        assert self._last_step is not None
        # another read costs a step, so it happens only near the end
        if run_values.results + 1 >= self._last_step and read_step(run_context.session, self._step) >= self._last_step:
            run_context.request_stop()


class StepCounterHook(SessionRunHook):
    """Logs global steps per second, and writes them as a summary.  Raises ValueError unless exactly one interval is given."""

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: Any = None,
        summary_writer: FileWriter | None = None,
    ) -> None:
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError("exactly one of every_n_steps and every_n_secs should be provided.")
        self._timer = SecondOrStepTimer(every_n_secs, every_n_steps)
        self._summary_writer, self._output_dir = summary_writer, output_dir
        self._last_seen: int | None = None
        self._steps_per_run = 1

    def begin(self) -> None:
        """Find the global step.  Raises RuntimeError if there is none."""
        if self._summary_writer is None and self._output_dir:
            self._summary_writer = tf.summary.FileWriterCache.get(self._output_dir)
        self._step = step_reader("StepCounterHook")
        self._tag = f"{tf.train.get_global_step().op.name}/sec"

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Request the global step."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Log the rate if it is due."""
        seen = run_values.results
        if self._timer.should_trigger_for_step(seen + self._steps_per_run):
            step = read_step(run_context.session, self._step)
            if self._timer.should_trigger_for_step(step):
                seconds, passed = self._timer.update_last_triggered_step(step)
                if seconds is not None and passed is not None:
                    self._report(passed / seconds, step)
        if seen == self._last_seen:
            tf.logging.log_first_n(
                tf.logging.WARN,
                "It seems that global step (tf.train.get_global_step) has not been increased. Current value (could be stable): "
                "%s vs previous value: %s. You could increase the global step by passing tf.train.get_global_step() to "
                "Optimizer.apply_gradients or Optimizer.minimize.",
                5,
                seen,
                self._last_seen,
            )
        self._last_seen = seen

    def _report(self, rate: float, step: int) -> None:
        """Tell the steps of a second."""
        report_rate(self._summary_writer, self._tag, rate, step)


def report_rate(writer: FileWriter | None, tag: str, rate: float, step: int) -> None:
    """Log a rate of steps, and write it as a summary."""
    if writer:
        summary = message_class("Summary")()
        summary.value.add(tag=tag, simple_value=rate)
        writer.add_summary(summary, step)
    tf.logging.info("%s: %g", tag, rate)


class GlobalStepWaiterHook(SessionRunHook):
    """Delays the first step until another task has reached a global step."""

    def __init__(self, wait_until_step: int) -> None:
        self._wait_until_step = wait_until_step
        self._is_over = False

    def begin(self) -> None:
        """Find the global step.  Raises RuntimeError if there is none."""
        self._is_over = False
        self._step = step_reader("_GlobalStepWaiterHook")

    def before_run(self, run_context: SessionRunContext) -> None:
        """Wait for the step; if no other task could advance it, say so and continue."""
        if self._is_over or self._wait_until_step <= 0 or not watching.computes_steps():
            self._is_over = True
            return
        from placesim.tf1.training.servers import is_alone, tell

        tf.logging.info("Waiting for global step %d before starting training.", self._wait_until_step)
        last_logged = 0
        while (step := read_step(run_context.session, self._step)) < self._wait_until_step:
            if is_alone(run_context.session.sess_str.decode()):
                tell(f"no other task counts up to global step {self._wait_until_step}, so that this one does not wait for it")
                break
            if step - last_logged > 1000:
                tf.logging.info(
                    "Waiting for global step %d before starting training. Current step is %d.", self._wait_until_step, step
                )
                last_logged = step
            time.sleep(0.5)
        self._is_over = True
