"""Evaluation of a checkpoint: steps of a monitored session, counted by a local variable."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.session.stacks import FeedDict
from placesim.tf1.training.run_hooks import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues

_QUIET_FROM = 20
"""From this number of evaluations on, progress is logged only after each tenth of them."""


def get_or_create_eval_step() -> Any:
    """The variable that counts evaluation steps.  Raises ValueError if the graph has several."""
    found = tf.get_collection(GraphKeys.EVAL_STEP)
    if len(found) > 1:
        raise ValueError("Multiple tensors added to tf.GraphKeys.EVAL_STEP")
    if found:
        return found[0]
    return tf.get_variable(
        "eval_step",
        shape=[],
        dtype=tf.int64,
        initializer=tf.zeros_initializer(),
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.EVAL_STEP],
    )


class StopAfterNEvalsHook(SessionRunHook):
    """Hook that ends an evaluation after a number of steps; without a number, the end of the input ends it."""

    def __init__(self, num_evals: int | None, log_progress: bool = True) -> None:
        self._num_evals = num_evals
        self._completed: Tensor | None = None
        self._logs = log_progress
        self._log_every = 1 if num_evals is None or num_evals < _QUIET_FROM else num_evals // 10

    def _set_evals_completed_tensor(self, updated_eval_step: Tensor) -> None:
        self._completed = updated_eval_step

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs({"evals_completed": self._completed})

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        completed = run_values.results["evals_completed"]
        if self._logs and (completed % self._log_every == 0 or completed == self._num_evals):
            tf.logging.info(
                f"Evaluation [{completed}]" if self._num_evals is None else f"Evaluation [{completed}/{self._num_evals}]"
            )
        if self._num_evals is not None and completed >= self._num_evals:
            run_context.request_stop()


def evaluate_once(
    checkpoint_path: str,
    master: str = "",
    scaffold: Any = None,
    eval_ops: Any = None,
    feed_dict: FeedDict | None = None,
    final_ops: Any = None,
    final_ops_feed_dict: FeedDict | None = None,
    hooks: Sequence[SessionRunHook] | None = None,
    config: Any = None,
) -> Any:
    """Restore a checkpoint, and run `eval_ops` until a hook requests a stop.  Returns the values of `final_ops` after that."""
    step = get_or_create_eval_step()
    hooks = list(hooks or ())
    if eval_ops is not None:
        counted = tf.assign_add(step, 1, use_locking=True)
        if isinstance(eval_ops, dict):
            eval_ops["update_eval_step"] = counted
        else:
            eval_ops = [*(eval_ops if isinstance(eval_ops, list | tuple) else [eval_ops]), counted]
        with tf.control_dependencies(list(eval_ops.values()) if isinstance(eval_ops, dict) else eval_ops):
            completed = tf.identity(step.read_value())
        for hook in hooks:
            if isinstance(hook, StopAfterNEvalsHook):
                hook._set_evals_completed_tensor(completed)
    tf.logging.info(f"Starting evaluation at {time.strftime('%Y-%m-%dT%H:%M:%S')}")
    began = time.time()
    final = tf.train.FinalOpsHook(final_ops, final_ops_feed_dict)
    creator = tf.train.ChiefSessionCreator(
        scaffold=scaffold, checkpoint_filename_with_path=checkpoint_path, master=master, config=config
    )
    with tf.train.MonitoredSession(session_creator=creator, hooks=[*hooks, final]) as session:
        while eval_ops is not None and not session.should_stop():
            session.run(eval_ops, feed_dict)
    tf.logging.info(f"Inference Time : {time.time() - began:0.5f}s")
    tf.logging.info(f"Finished evaluation at {time.strftime('%Y-%m-%d-%H:%M:%S')}")
    return final.final_ops_values
