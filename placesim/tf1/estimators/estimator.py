"""`tf.estimator.Estimator`: a model function, and the graphs and sessions that train, evaluate and use it."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NoReturn

import numpy as np

import placesim.tf1 as tf
from placesim.tf1.estimators.input_functions import InitializerHook, Inputs, as_inputs
from placesim.tf1.estimators.replicas import build_replicas
from placesim.tf1.estimators.run_config import EVALUATOR, MASTER, PS, WORKER, RunConfig
from placesim.tf1.estimators.specs import EstimatorSpec, ModeKeys
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.internals.inspection import fn_args, has_kwargs
from placesim.tf1.optimizers.steps import read_global_step
from placesim.tf1.session import watching
from placesim.tf1.training.evaluation import StopAfterNEvalsHook, evaluate_once, get_or_create_eval_step
from placesim.tf1.training.run_hooks import SessionRunHook
from placesim.tf1.types.read_only import read_only

_LOSS = "loss"
"""Name of the metric that each evaluation has."""


class Estimator:
    """A model function with its directory and settings.

    Raises ValueError for a function without the needed parameters, and for two different directories.
    """

    def __init__(
        self,
        model_fn: Callable[..., EstimatorSpec],
        model_dir: Any = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | None = None,
        warm_start_from: object = None,
    ) -> None:
        if model_fn is None:
            raise ValueError("model_fn must be provided to Estimator.")
        if warm_start_from is not None:
            raise not_there("estimator.Estimator(warm_start_from=...)", "tf.train.init_from_checkpoint restores variables")
        self._config = _settled(config, model_dir)
        _check_model_fn(model_fn, params)
        self._model_fn, self._params = model_fn, copy.deepcopy(params or {})
        self._device_fn = self._config.device_fn or _replica_device_setter(self._config)

    config = read_only("_config", "The settings.")

    @property
    def model_dir(self) -> str:
        """Directory of the checkpoints."""
        return str(self._config.model_dir)

    @property
    def params(self) -> Any:
        """A copy of the model function's parameters."""
        return copy.deepcopy(self._params)

    @property
    def model_fn(self) -> Callable[..., EstimatorSpec]:
        """The model function, called by keyword with features, labels, mode and config."""
        return lambda features, labels, mode, config: self._call_model_fn(features, labels, mode, config)

    def latest_checkpoint(self) -> str | None:
        """Path of the newest checkpoint."""
        return tf.train.latest_checkpoint(self.model_dir)  # type: ignore[no-any-return]

    def get_variable_names(self) -> list[str]:
        """Names of the newest checkpoint's variables."""
        return [name for name, _ in tf.train.list_variables(self.model_dir)]

    def get_variable_value(self, name: str) -> Any:
        """Value of a variable in the newest checkpoint."""
        return tf.train.load_variable(self.model_dir, name)

    def eval_dir(self, name: str | None = None) -> str:
        """Directory of an evaluation's summaries."""
        return os.path.join(self.model_dir, f"eval_{name}" if name else "eval")

    # --- training ---

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[SessionRunHook] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Sequence[Any] | None = None,
    ) -> Estimator:
        """Train for `steps`, until the global step is `max_steps`, or until the input ends.

        Raises ValueError for both numbers or one that is not positive, and for a task that does not train.
        """
        if self._config.task_type in (EVALUATOR, PS):
            raise ValueError(
                "Train has been called wrong configuration. Please use tf.estimator.train_and_evaluate which calls proper "
                f"API according to given configuration. Current configuration: {self._config}."
            )
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        for name, number in (("steps", steps), ("max_steps", max_steps)):
            if number is not None and number <= 0:
                raise ValueError(f"Must specify {name} > 0, given: {number}")
        if max_steps is not None and max_steps <= self._saved_step():
            tf.logging.info("Skipping training since max_steps has already saved.")
            return self
        used = list(hooks or ())
        if steps is not None or max_steps is not None:
            used.append(tf.train.StopAtStepHook(steps, max_steps))
        strategy = self._config.train_distribute
        with tf.Graph().as_default() as graph, ExitStack() as scopes:
            if strategy:
                scopes.enter_context(strategy.scope())
                scopes.enter_context(strategy.averaged_losses())
            else:
                scopes.enter_context(graph.device(self._device_fn))
            tf.set_random_seed(self._config.tf_random_seed)
            spec, inputs = self._build_replicas(input_fn, strategy) if strategy else self._build_training(input_fn)
            loss = self._run_training(spec, inputs, used, tuple(saving_listeners or ()))
        tf.logging.info(f"Loss for final step: {loss!s}.")
        return self

    def _saved_step(self) -> int:
        latest = self.latest_checkpoint()
        return 0 if latest is None else int(tf.train.load_variable(latest, GraphKeys.GLOBAL_STEP))

    def _build_training(self, input_fn: Callable[..., Any]) -> tuple[EstimatorSpec, list[SessionRunHook]]:
        """The training graph without a strategy, and the hooks of its input."""
        self._create_global_step()
        read_global_step()
        features, labels, hooks = self._inputs(input_fn, ModeKeys.TRAIN)
        return self._call_model_fn(features, labels, ModeKeys.TRAIN, self._config), hooks

    def _build_replicas(self, input_fn: Callable[..., Any], strategy: Any) -> tuple[EstimatorSpec, list[SessionRunHook]]:
        """The training graph of a strategy, and the hooks of its input."""
        iterator = strategy.make_input_fn_iterator(lambda context: self._call_input_fn(input_fn, ModeKeys.TRAIN, context))

        def call(features: Any, labels: Any) -> EstimatorSpec:
            return self._call_model_fn(features, labels, ModeKeys.TRAIN, self._config)

        return build_replicas(strategy, iterator, self._create_global_step(), call), [InitializerHook(iterator)]

    def _run_training(
        self, spec: EstimatorSpec, inputs: list[SessionRunHook], hooks: Sequence[SessionRunHook], listeners: tuple[Any, ...]
    ) -> Any:
        """Train in a monitored session; return the last loss.  Raises ValueError for listeners where nothing is saved."""
        config = self._config
        if not any(one.op.name == _LOSS for one in tf.get_collection(GraphKeys.SUMMARIES)):
            tf.summary.scalar(_LOSS, spec.loss)
        tf.add_to_collection(GraphKeys.LOSSES, spec.loss)
        used = [*inputs, *hooks, tf.train.NanTensorHook(spec.loss)]
        if config.log_step_count_steps is not None:
            told = {"loss": spec.loss, "step": tf.train.get_global_step()}
            used.append(tf.train.LoggingTensorHook(told, every_n_iter=config.log_step_count_steps))
        used.extend(spec.training_hooks)
        if not (spec.scaffold.saver or tf.get_collection(GraphKeys.SAVERS)):
            saver = tf.train.Saver(
                sharded=True,
                max_to_keep=config.keep_checkpoint_max,
                keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours,
                defer_build=True,
                save_relative_paths=True,
            )
            tf.add_to_collection(GraphKeys.SAVERS, saver)
        savers = [hook for hook in (*used, *spec.training_chief_hooks) if isinstance(hook, tf.train.CheckpointSaverHook)]
        of_chief = []
        if (config.save_checkpoints_secs or config.save_checkpoints_steps) and not savers:
            saving = (config.save_checkpoints_secs, config.save_checkpoints_steps)
            savers = of_chief = [tf.train.CheckpointSaverHook(self.model_dir, *saving, scaffold=spec.scaffold)]
        if listeners:
            if not savers:
                raise ValueError(
                    "There should be a CheckpointSaverHook to use saving_listeners. Please set one of the "
                    "RunConfig.save_checkpoints_steps or RunConfig.save_checkpoints_secs."
                )
            savers[0]._listeners.extend(one for one in listeners if one not in savers[0]._listeners)
        told_steps, summary_steps = config.log_step_count_steps, config.save_summary_steps
        if MASTER in config.cluster_spec.jobs and WORKER in config.cluster_spec.jobs:
            # the master evaluates too, so the first worker writes the summaries
            if config.task_type == WORKER and config.task_id == 0:
                if summary_steps:
                    used.append(tf.train.SummarySaverHook(summary_steps, output_dir=self.model_dir, scaffold=spec.scaffold))
                if told_steps:
                    used.append(tf.train.StepCounterHook(told_steps, output_dir=self.model_dir))
            told_steps, summary_steps = None, 0
        with tf.train.MonitoredTrainingSession(
            master=config.master,
            is_chief=config.is_chief,
            checkpoint_dir=self.model_dir,
            scaffold=spec.scaffold,
            hooks=used,
            chief_only_hooks=[*of_chief, *spec.training_chief_hooks],
            save_checkpoint_secs=0,
            save_summaries_steps=summary_steps,
            config=config.session_config,
            max_wait_secs=config.session_creation_timeout_secs,
            log_step_count_steps=told_steps,
        ) as session:
            loss = None
            while not session.should_stop():
                _, loss = session.run([spec.train_op, spec.loss])
            if loss is None:
                tf.logging.warning("Training with estimator made no steps. Perhaps input is empty or misspecified.")
        return loss

    # --- evaluation and prediction ---

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Sequence[SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Metrics of a checkpoint over `steps`, or until the input ends: by name, with "loss" and "global_step".

        Without a checkpoint, of freshly initialized variables.  Raises ValueError for a number that is not positive.
        """
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        used = [*(hooks or ()), *([] if steps is None else [StopAfterNEvalsHook(steps)])]
        checkpoint = self._checkpoint(checkpoint_path, "evaluate")
        strategy = self._config.eval_distribute
        with tf.Graph().as_default():
            if strategy:
                raise not_there("estimator.RunConfig(eval_distribute=...)", "an evaluation runs on one device")
            tf.set_random_seed(self._config.tf_random_seed)
            self._create_global_step()
            features, labels, inputs = self._inputs(input_fn, ModeKeys.EVAL)
            spec = self._call_model_fn(features, labels, ModeKeys.EVAL, self._config)
            update, metrics = _metrics(spec)
            metrics[GraphKeys.GLOBAL_STEP] = tf.train.get_global_step()
            found = evaluate_once(
                checkpoint,
                self._config.evaluation_master,
                _with_local_variables(spec.scaffold),
                update,
                final_ops=metrics,
                hooks=[*inputs, *used, *spec.evaluation_hooks],
                config=self._config.session_config,
            )
        if not watching.computes_steps():
            return dict.fromkeys(metrics, 0)
        self._write_metrics(found, self.eval_dir(name), checkpoint)
        return found  # type: ignore[no-any-return]

    def _write_metrics(self, metrics: Mapping[str, Any], folder: str, checkpoint: str | None) -> None:
        """Write an evaluation's numbers, and the path of its checkpoint, as summaries."""
        step = metrics[GraphKeys.GLOBAL_STEP]
        shown = ", ".join(f"{name} = {value!s}" for name, value in sorted(metrics.items()) if not isinstance(value, bytes))
        tf.logging.info(f"Saving dict for global step {step}: {shown}")
        summary = tf.Summary()
        for name, value in metrics.items():
            if name != GraphKeys.GLOBAL_STEP and isinstance(value, float | np.floating | int | np.integer):
                summary.value.add(tag=name, simple_value=float(value))
        writer = tf.summary.FileWriterCache.get(folder)
        writer.add_summary(summary, step)
        if checkpoint:
            tf.logging.info(f"Saving 'checkpoint_path' summary for global step {step}: {checkpoint}")
            told = tf.Summary()
            told.value.add(tag="checkpoint_path", tensor=tf.make_tensor_proto(checkpoint, dtype=tf.string))
            writer.add_summary(told, step)
        writer.flush()

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Iterable[str] | None = None,
        hooks: Sequence[SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """Predictions for the examples of an input, or for its batches.

        Raises ValueError for keys that the predictions lack, and for predictions of several batch sizes.
        """
        checkpoint = self._checkpoint(checkpoint_path, "predict")
        with tf.Graph().as_default():
            tf.set_random_seed(self._config.tf_random_seed)
            self._create_global_step()
            features, _, inputs = self._inputs(input_fn, ModeKeys.PREDICT)
            spec = self._call_model_fn(features, None, ModeKeys.PREDICT, self._config)
            predictions = _chosen(spec.predictions, predict_keys)
            creator = tf.train.ChiefSessionCreator(
                checkpoint_filename_with_path=checkpoint,
                master=self._config.master,
                scaffold=spec.scaffold,
                config=self._config.session_config,
            )
            used = [*inputs, *(hooks or ()), *spec.prediction_hooks]
            with tf.train.MonitoredSession(session_creator=creator, hooks=used) as session:
                while not session.should_stop():
                    batch = session.run(predictions)
                    if not yield_single_examples:
                        yield batch
                    elif isinstance(predictions, dict):
                        for at in range(_batch_length(batch)):
                            yield {name: value[at] for name, value in batch.items()}
                    else:
                        yield from batch

    def export_saved_model(self, *args: object, **kwargs: object) -> NoReturn:
        """Raise NotImplementedError."""
        raise not_there("estimator.Estimator.export_saved_model", "tf.saved_model.simple_save writes a session's graph")

    export_savedmodel = export_saved_model

    def _checkpoint(self, path: str | None, purpose: str) -> Any:
        found = path or self.latest_checkpoint()
        if not found:
            tf.logging.info(
                f"Could not find trained model in model_dir: {self.model_dir}, running initialization to {purpose}."
            )
        return found

    # --- the functions of the script ---

    def _create_global_step(self) -> Any:
        return tf.train.create_global_step()

    def _call_params(self, mode: str) -> Any:
        """The parameters of a function's call."""
        return self.params

    def _inputs(self, input_fn: Callable[..., Any], mode: str) -> Inputs:
        found = as_inputs(self._call_input_fn(input_fn, mode))
        # only the features count for predictions
        return found._replace(labels=None) if mode == ModeKeys.PREDICT else found

    def _call_input_fn(self, input_fn: Callable[..., Any], mode: str, input_context: Any = None) -> Any:
        """Call an input function on the CPU, with those of the known parameters that it has."""
        known = {"mode": mode, "params": self._call_params(mode), "config": self._config}
        if input_context is not None:
            known["input_context"] = input_context
        names = fn_args(input_fn)
        with tf.device("/cpu:0"):
            return input_fn(**{name: value for name, value in known.items() if name in names})

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
        """Call the model function with those of the known parameters that it has.  Raises ValueError for other results."""
        names = fn_args(self._model_fn)
        known = {"labels": labels, "mode": mode, "params": self._call_params(mode), "config": config}
        if labels is not None and "labels" not in names:
            raise ValueError("model_fn does not take labels, but input_fn returns labels.")
        tf.logging.info("Calling model_fn.")
        found = self._as_spec(
            self._model_fn(features=features, **{name: value for name, value in known.items() if name in names})
        )
        tf.logging.info("Done calling model_fn.")
        if not isinstance(found, EstimatorSpec):
            raise ValueError("model_fn should return an EstimatorSpec.")
        return found

    def _as_spec(self, result: Any) -> Any:
        """The EstimatorSpec of a model function's result."""
        return result


def _settled(config: RunConfig | None, model_dir: Any) -> RunConfig:
    """Settings with a directory and options of sessions."""
    if config is None:
        config = RunConfig()
        tf.logging.info("Using default config.")
    if not isinstance(config, RunConfig):
        raise ValueError(f"config must be an instance of `RunConfig`, but provided {config}.")
    folder = None if model_dir is None else os.fspath(model_dir)
    if folder is not None and config.model_dir is not None and config.model_dir != folder:
        raise ValueError(
            "`model_dir` are set both in constructor and `RunConfig`, but with different values. In constructor: "
            f"'{folder}', in `RunConfig`: '{config.model_dir}' "
        )
    if config.session_config is None:
        config = config.replace(session_config=tf.ConfigProto(allow_soft_placement=True))
    if not folder and config.model_dir is None:
        folder = tempfile.mkdtemp()
        tf.logging.warning(f"Using temporary folder as model directory: {folder}")
    config = config.replace(model_dir=folder) if folder else config
    tf.logging.info(f"Using config: {vars(config)}")
    return config


def _check_model_fn(model_fn: Callable[..., Any], params: object) -> None:
    names = fn_args(model_fn)
    if "features" not in names:
        raise ValueError(f"model_fn ({model_fn}) must include features argument.")
    if params is not None and "params" not in names and not has_kwargs(model_fn):
        raise ValueError(
            f"model_fn ({model_fn}) does not include params argument, but params ({params}) is passed to Estimator."
        )
    if unknown := set(names) - {"features", "labels", "mode", "params", "self", "config"}:
        raise ValueError(f"model_fn ({model_fn}) has following not expected args: {unknown}")


def _replica_device_setter(config: RunConfig) -> Any:
    """Device function that puts variables on the cluster's parameter servers; None without any."""
    if not config.num_ps_replicas:
        return None
    return tf.train.replica_device_setter(
        ps_tasks=config.num_ps_replicas,
        worker_device=f"/job:{config.task_type}/task:{config.task_id}",
        merge_devices=True,
        cluster=config.cluster_spec,
    )


def _metrics(spec: EstimatorSpec) -> tuple[Any, dict[str, Any]]:
    """Op that updates all metrics of an evaluation, and their values by name."""
    given = dict(spec.eval_metric_ops)
    for name in (_LOSS, GraphKeys.GLOBAL_STEP):
        if name in given:
            raise ValueError(
                f'Metric with name "{name}" is not allowed, because Estimator already defines a default metric with the '
                "same name."
            )
    given[_LOSS] = tf.metrics.mean(spec.loss)
    values, updates = {}, []
    for name, (value, update) in sorted(given.items()):
        values[name] = value
        updates.append(update)
    return tf.group(*updates), values


def _with_local_variables(scaffold: Any) -> Any:
    """The scaffold, whose own op for local variables is joined by the default one: the metrics need both."""
    if not (scaffold and scaffold.local_init_op):
        return scaffold
    get_or_create_eval_step()
    both = tf.group(scaffold.local_init_op, tf.train.Scaffold.default_local_init_op())
    return tf.train.Scaffold(local_init_op=both, copy_from_scaffold=scaffold)


def _chosen(predictions: Any, keys: Iterable[str] | None) -> Any:
    """Predictions of some keys; without keys all."""
    if not keys:
        return predictions
    if not isinstance(predictions, dict):
        raise ValueError("predict_keys argument is not valid in case of non-dict predictions.")
    found = {name: value for name, value in predictions.items() if name in keys}
    if not found:
        raise ValueError(f"Expected to run at least one output from {predictions.keys()}, provided {keys}.")
    return found


def _batch_length(batch: Mapping[str, Any]) -> int:
    lengths = {name: value.shape[0] for name, value in batch.items()}
    first = next(iter(lengths.values()))
    for name, length in lengths.items():
        if length != first:
            raise ValueError(f"Batch length of predictions should be same. {name} has different batch length than others.")
    return int(first)
