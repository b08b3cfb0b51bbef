"""`tf.estimator.train_and_evaluate`: training with an evaluation of its checkpoints, or this process's part of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import placesim.tf1 as tf
from placesim.tf1.estimators.estimator import Estimator
from placesim.tf1.estimators.run_config import CHIEF, EVALUATOR, MASTER, PS, WORKER
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.session import watching
from placesim.tf1.session.stacks import RunningSession
from placesim.tf1.training.saving_hooks import CheckpointSaverListener
from placesim.tf1.training.servers import tell
from placesim.tf1.training.step_hooks import SecondOrStepTimer


class _Training(NamedTuple):
    input_fn: Callable[..., Any]
    max_steps: int | None
    hooks: tuple[Any, ...]
    saving_listeners: tuple[Any, ...]


class TrainSpec(_Training):
    """The training of `train_and_evaluate`.  Raises ValueError for a number of steps that is not positive."""

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        max_steps: int | None = None,
        hooks: Sequence[Any] | None = None,
        saving_listeners: Sequence[Any] | None = None,
    ) -> TrainSpec:
        """Make the training."""
        if max_steps is not None and max_steps <= 0:
            raise ValueError(f"Must specify max_steps > 0, given: {max_steps}")
        return super().__new__(cls, input_fn, max_steps, tuple(hooks or ()), tuple(saving_listeners or ()))


class _Evaluation(NamedTuple):
    input_fn: Callable[..., Any]
    steps: int | None
    name: str | None
    hooks: tuple[Any, ...]
    exporters: tuple[Any, ...]
    start_delay_secs: float
    throttle_secs: float


class EvalSpec(_Evaluation):
    """The evaluations of `train_and_evaluate`.  Raises ValueError for numbers out of range."""

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        steps: int | None = 100,
        name: str | None = None,
        hooks: Sequence[Any] | None = None,
        exporters: Any = None,
        start_delay_secs: float = 120,
        throttle_secs: float = 600,
    ) -> EvalSpec:
        """Make the evaluations."""
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        for label, seconds in (("start_delay_secs", start_delay_secs), ("throttle_secs", throttle_secs)):
            if seconds < 0:
                raise ValueError(f"Must specify {label} >= 0, given: {seconds}")
        found = () if exporters is None else tuple(exporters) if isinstance(exporters, list | tuple) else (exporters,)
        return super().__new__(cls, input_fn, steps, name, tuple(hooks or ()), found, start_delay_secs, throttle_secs)


class _EvaluatingListener(CheckpointSaverListener):
    """Evaluates each checkpoint but the first, which is not trained yet, at most once in `throttle_secs`."""

    def __init__(self, estimator: Estimator, spec: EvalSpec, max_steps: int | None) -> None:
        self._estimator, self._spec, self._max_steps = estimator, spec, max_steps
        self.metrics: dict[str, Any] | None = None
        self.exports: list[Any] = []

    def begin(self) -> None:
        self._timer = SecondOrStepTimer(every_secs=self._spec.throttle_secs)
        self._is_first = True

    def after_save(self, session: RunningSession, global_step_value: int) -> None:
        if self._is_first:
            self._is_first = False
        elif self._timer.should_trigger_for_step(global_step_value):
            self._evaluate(global_step_value)
        else:
            tf.logging.info(f"Skip the current checkpoint eval due to throttle secs ({self._spec.throttle_secs} secs).")

    def end(self, session: RunningSession, global_step_value: int) -> None:
        if watching.computes_steps() and global_step_value != self._timer.last_triggered_step():
            self._evaluate(global_step_value)

    def _evaluate(self, step: int) -> None:
        self._timer.update_last_triggered_step(step)
        checkpoint = self._estimator.latest_checkpoint()
        self.metrics = self._estimator.evaluate(
            self._spec.input_fn, self._spec.steps, self._spec.hooks, checkpoint, self._spec.name
        )
        is_last = self._max_steps is not None and self.metrics[GraphKeys.GLOBAL_STEP] >= self._max_steps
        self.exports = [
            exporter.export(
                estimator=self._estimator,
                export_path=f"{self._estimator.model_dir}/export/{exporter.name}",
                checkpoint_path=checkpoint,
                eval_result=self.metrics,
                is_the_final_export=is_last,
            )
            for exporter in self._spec.exporters
        ]


def train_and_evaluate(estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec) -> Any:
    """Train and evaluate here; in a cluster of TF_CONFIG, do the part of this process's task.

    Returns the last metrics and the exports, and nothing in a cluster.  Raises ValueError for a task without a part.
    """
    config = estimator.config
    if not config.cluster_spec and config.task_type != EVALUATOR:
        tf.logging.info("Running training and evaluation locally (non-distributed).")
        listener = _EvaluatingListener(estimator, eval_spec, train_spec.max_steps)
        _train(estimator, train_spec, listener)
        return listener.metrics, listener.exports
    if config.task_type == EVALUATOR:
        _evaluate_newest(estimator, eval_spec)
        return None
    if config.task_type not in (CHIEF, MASTER, WORKER, PS):
        raise ValueError(
            f"Task type {config.task_type} is not supported. Supported task types are {[CHIEF, EVALUATOR, MASTER, PS, WORKER]}"
        )
    server = _start_server(config)
    if config.task_type == PS:
        server.join()
    listeners = [_EvaluatingListener(estimator, eval_spec, train_spec.max_steps)] if config.task_type == MASTER else []
    _train(estimator, train_spec, *listeners)
    return None


def _train(estimator: Estimator, spec: TrainSpec, *listeners: CheckpointSaverListener) -> None:
    estimator.train(
        spec.input_fn, hooks=spec.hooks, max_steps=spec.max_steps, saving_listeners=(*spec.saving_listeners, *listeners)
    )


def _start_server(config: Any) -> Any:
    """The server of this process's task; None in a cluster of one task, which trains in a session of its own."""
    if not config.master:
        tf.logging.info("Skip starting Tensorflow server as there is only one node in the cluster.")
        return None
    tf.logging.info("Start Tensorflow server.")
    return tf.train.Server(config.cluster_spec, job_name=config.task_type, task_index=config.task_id, protocol=config.protocol)


def _evaluate_newest(estimator: Estimator, spec: EvalSpec) -> None:
    """Evaluate the newest checkpoint, if there is one: no other process trains further ones."""
    if watching.computes_steps() and estimator.latest_checkpoint() is None:
        tell(f"the evaluator would wait for a checkpoint in {estimator.model_dir}; here no other process writes one")
        return
    estimator.evaluate(spec.input_fn, spec.steps, spec.hooks, name=spec.name)
