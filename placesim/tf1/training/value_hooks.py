"""Hooks about values: NaN losses, feeds for each step, and final ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.session import watching
from placesim.tf1.session.stacks import FeedDict, RunningSession
from placesim.tf1.training.run_hooks import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from placesim.tf1.types.read_only import read_only


class NanLossDuringTrainingError(RuntimeError):
    """Raised for a loss that is NaN."""

    __module__ = "tensorflow.python.training.basic_session_run_hooks"

    def __str__(self) -> str:
        return "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Ends training if a loss is NaN, by NanLossDuringTrainingError or by requesting a stop."""

    def __init__(self, loss_tensor: Tensor, fail_on_nan_loss: bool = True) -> None:
        self._loss, self._raises = loss_tensor, fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Request the loss."""
        return SessionRunArgs(self._loss)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Raise or request a stop for a NaN loss."""
        if not np.isnan(run_values.results):
            return
        if self._raises:
            tf.logging.error("Model diverged with loss = NaN.")
            raise NanLossDuringTrainingError
        tf.logging.warning("Model diverged with loss = NaN.")
        run_context.request_stop()


class FinalOpsHook(SessionRunHook):
    """Fetches final ops at the end of the session."""

    def __init__(self, final_ops: object, final_ops_feed_dict: FeedDict | None = None) -> None:
        self._final_ops, self._feeds = final_ops, final_ops_feed_dict
        self._values: Any = None

    final_ops_values = read_only("_values", "Values of the final ops; None before the end.")

    def end(self, session: RunningSession) -> None:
        """Run the final ops."""
        if self._final_ops is None or not watching.computes_steps():
            return
        try:
            self._values = session.run(self._final_ops, feed_dict=self._feeds)
        except (tf.errors.OutOfRangeError, StopIteration) as error:
            tf.logging.warning(
                "An OutOfRangeError or StopIteration exception is raised by the code in FinalOpsHook. This typically means "
                "the Ops running by the FinalOpsHook have a dependency back to some input source, which should not happen. "
                "For example, for metrics in tf.estimator.Estimator, all metrics functions return two Ops: `value_op` and "
                "`update_op`. Estimator.evaluate calls the `update_op` for each batch of the data in input source and, once "
                "it is exhausted, it call the `value_op` to get the metric values. The `value_op` here should have dependency "
                "back to variables reading only, rather than reading another batch from input. Otherwise, the `value_op`, "
                "executed by `FinalOpsHook`, triggers another data reading, which ends OutOfRangeError/StopIteration. Please "
                "fix that."
            )
            raise error


class FeedFnHook(SessionRunHook):
    """Feeds each step with the result of a function."""

    def __init__(self, feed_fn: Callable[[], Any]) -> None:
        self.feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Request without fetches, with the feeds of the step."""
        return SessionRunArgs(fetches=None, feed_dict=self.feed_fn())
