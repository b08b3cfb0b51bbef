"""`slim.learning`: a training step from a loss, and the loop that runs it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.contrib import training
from placesim.tf1.contrib.training import add_gradients_summaries, clip_gradient_norms, multiply_gradients
from placesim.tf1.graphs.graph import Graph
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.optimizers.optimizer import Optimizer
from placesim.tf1.optimizers.steps import get_or_create_global_step
from placesim.tf1.session.stacks import RunningSession
from placesim.tf1.training.supervisor import Supervisor

__all__ = ["add_gradients_summaries", "clip_gradient_norms", "multiply_gradients"]
_DEFAULT = 0
"""Default of arguments for which `train` makes a value; None means no value."""


def create_train_op(
    total_loss: TensorLike,
    optimizer: Optimizer,
    global_step: TensorLike = _DEFAULT,
    update_ops: object = None,
    variables_to_train: object = None,
    clip_gradient_norm: float = 0,
    summarize_gradients: bool = False,
    gate_gradients: int = 1,
    aggregation_method: object = None,
    colocate_gradients_with_ops: bool = False,
    gradient_multipliers: Mapping[Any, Any] | None = None,
    check_numerics: bool = True,
) -> Any:
    """`tf.contrib.training.create_train_op` that first multiplies and clips the gradients."""

    def changed(pairs: list[Any]) -> list[Any]:
        if gradient_multipliers:
            with tf.name_scope("multiply_grads"):
                pairs = multiply_gradients(pairs, gradient_multipliers)
        if clip_gradient_norm > 0:
            with tf.name_scope("clip_grads"):
                pairs = clip_gradient_norms(pairs, clip_gradient_norm)
        return pairs

    settings = (summarize_gradients, gate_gradients, aggregation_method, colocate_gradients_with_ops, check_numerics)
    return training.create_train_op(total_loss, optimizer, global_step, update_ops, variables_to_train, changed, *settings)


def train_step(
    sess: RunningSession, train_op: Any, global_step: TensorLike, train_step_kwargs: Mapping[str, Any]
) -> tuple[Any, Any]:
    """Run one step.  Return the loss, and whether to stop."""
    start = time.time()
    loss, step = sess.run([train_op, global_step])
    if train_step_kwargs.get("should_log") is not None and sess.run(train_step_kwargs["should_log"]):
        tf.logging.info("global step %d: loss = %.4f (%.3f sec/step)", step, loss, time.time() - start)
    stop = train_step_kwargs.get("should_stop")
    return loss, False if stop is None else sess.run(stop)


def train(
    train_op: object,
    logdir: str | None,
    train_step_fn: Callable[..., tuple[Any, Any]] = train_step,
    train_step_kwargs: object = _DEFAULT,
    log_every_n_steps: int = 1,
    graph: Graph | None = None,
    master: str = "",
    is_chief: bool = True,
    global_step: TensorLike | None = None,
    number_of_steps: int | None = None,
    init_op: object = _DEFAULT,
    init_feed_dict: object = None,
    local_init_op: object = _DEFAULT,
    init_fn: Callable[[Any], None] | None = None,
    ready_op: object = _DEFAULT,
    summary_op: object = _DEFAULT,
    save_summaries_secs: int = 600,
    summary_writer: object = _DEFAULT,
    startup_delay_steps: int = 0,
    saver: Any = None,
    save_interval_secs: int = 600,
    sync_optimizer: object = None,
    session_config: object = None,
    session_wrapper: Callable[[Any], Any] | None = None,
    trace_every_n_steps: int | None = None,
    ignore_live_threads: bool = False,
) -> Any:
    """Run training steps under a `tf.train.Supervisor` until a step asks to stop.  Return the last loss.

    Raises ValueError, and NotImplementedError for `sync_optimizer` and `trace_every_n_steps`.
    """
    _check_train(train_op, logdir, summary_op, sync_optimizer, trace_every_n_steps)
    graph = graph or tf.get_default_graph()
    with graph.as_default():
        if global_step is None:
            global_step = get_or_create_global_step()
        saver = saver or tf.train.Saver()
        begins = _init_ops(init_op, ready_op, local_init_op)
        if summary_op is _DEFAULT:
            summary_op = tf.summary.merge_all()
        if train_step_kwargs is _DEFAULT:
            train_step_kwargs = _step_arguments(global_step, number_of_steps, log_every_n_steps, logdir)
    writing = {} if summary_writer is _DEFAULT else {"summary_writer": summary_writer}
    supervisor = tf.train.Supervisor(
        graph=graph,
        is_chief=is_chief,
        logdir=logdir,
        init_feed_dict=init_feed_dict,
        summary_op=None,
        global_step=global_step,
        saver=saver,
        save_summaries_secs=save_summaries_secs,
        save_model_secs=save_interval_secs,
        init_fn=init_fn,
        **begins,
        **writing,
    )
    with supervisor.managed_session(master, start_standard_services=False, config=session_config) as session:
        session = session_wrapper(session) if session_wrapper else session
        if is_chief and logdir:
            supervisor.start_standard_services(session)
        supervisor.start_queue_runners(session)
        loss = _last_loss(supervisor, lambda: train_step_fn(session, train_op, global_step, train_step_kwargs))
        if logdir and supervisor.is_chief:
            saver.save(session, os.path.join(logdir, "model.ckpt"), global_step=global_step)
    return loss


def _check_train(train_op: Any, logdir: str | None, summary_op: object, *not_supported: object) -> None:
    """Raise ValueError, or NotImplementedError for an argument that is not supported."""
    if train_op is None:
        raise ValueError("train_op cannot be None.")
    if logdir is None and summary_op not in (_DEFAULT, None):
        raise ValueError("Cannot provide summary_op because logdir=None")
    if any(argument is not None for argument in not_supported):
        from placesim.tf1.importing.missing_names import not_there

        raise not_there("contrib.slim.learning.train with sync_optimizer or trace_every_n_steps", "without them it is")


def _init_ops(init_op: object, ready_op: object, local_init_op: object) -> dict[str, Any]:
    """A Supervisor's initialization and readiness ops, made if not given."""
    with tf.name_scope("init_ops"):
        return {
            "init_op": tf.global_variables_initializer() if init_op is _DEFAULT else init_op,
            "ready_op": tf.report_uninitialized_variables() if ready_op is _DEFAULT else ready_op,
            "local_init_op": (
                tf.group(tf.local_variables_initializer(), tf.tables_initializer())
                if local_init_op is _DEFAULT
                else local_init_op
            ),
        }


def _last_loss(supervisor: Supervisor, step: Callable[[], tuple[Any, Any]]) -> Any:
    """Run steps until one of them, or a thread, requests a stop.  Return the last loss."""
    loss = None
    while not supervisor.should_stop():
        loss, stop = step()
        if stop:
            supervisor.request_stop()
    return loss


def _step_arguments(
    global_step: TensorLike, number_of_steps: int | None, log_every_n_steps: int, logdir: object
) -> dict[str, Any]:
    """Arguments of `train_step`: conditions to stop and to log."""
    with tf.name_scope("train_step"):
        told: dict[str, Any] = {}
        if number_of_steps:
            told["should_stop"] = tf.greater_equal(global_step, number_of_steps)
        else:
            told["should_stop"] = tf.constant(False)
        if log_every_n_steps > 0:
            told["should_log"] = tf.equal(tf.mod(global_step, log_every_n_steps), 0)
    if logdir:
        told["logdir"] = logdir
    return told
