"""`tf.estimator.tpu`, which `tf.contrib.tpu` has too: estimators for TPUs, as they run without one (`use_tpu=False`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import placesim.tf1 as tf
from placesim.tf1.estimators import estimator, run_config
from placesim.tf1.estimators.specs import EstimatorSpec, ModeKeys
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.internals.inspection import fn_args
from placesim.tf1.training.run_hooks import SessionRunArgs, SessionRunContext, SessionRunHook
from placesim.tf1.training.step_hooks import StepCounterHook, report_rate
from placesim.tf1.types.read_only import read_only

_BATCH_SIZE, _CONTEXT = "batch_size", "context"
"""Parameters that the estimator adds itself."""


class InputPipelineConfig:
    """Numbers of the ways to feed a TPU."""

    PER_SHARD_V1, PER_HOST_V1, PER_HOST_V2, BROADCAST, SLICED = range(1, 6)


class TPUConfig(NamedTuple):
    """Settings of a TPU, none of which counts without one but `iterations_per_loop`, by which logging is thinned out."""

    iterations_per_loop: int = 2
    num_shards: int | None = None
    num_cores_per_replica: int | None = None
    per_host_input_for_training: int = True
    tpu_job_name: str | None = None
    initial_infeed_sleep_secs: int | None = None
    input_partition_dims: object = None
    eval_training_input_configuration: int = InputPipelineConfig.PER_HOST_V1
    experimental_host_call_every_n_steps: int = 1
    experimental_allow_per_host_v2_parallel_get_next: bool = False
    experimental_feed_hook: object = None


class RunConfig(run_config.RunConfig):
    """Settings of an estimator for TPUs.  Raises NotImplementedError for the cluster of a TPU."""

    def __init__(
        self,
        tpu_config: TPUConfig | None = None,
        evaluation_master: str | None = None,
        master: str | None = None,
        cluster: object = None,
        **kwargs: Any,
    ) -> None:
        if cluster is not None:
            raise not_there("estimator.tpu.RunConfig(cluster=...)", "without a TPU there is no cluster: cluster=None")
        super().__init__(**kwargs)
        self._tpu_config, self._cluster = tpu_config or TPUConfig(), None
        if master is not None:
            self._master = master
        if evaluation_master is not None:
            self._evaluation_master = evaluation_master
        elif not self._evaluation_master and self.task_type != run_config.EVALUATOR:
            self._evaluation_master = self._master

    tpu_config = read_only("_tpu_config", "The settings of the TPU.")
    cluster = read_only("_cluster", "None: there is no TPU.")

    def replace(self, **kwargs: Any) -> Any:
        """A copy with other settings.  Raises ValueError for a property that can't be replaced."""
        chosen = kwargs.pop("tpu_config", self._tpu_config)
        found: Any = super().replace(**kwargs)
        found._tpu_config = chosen
        return found


class _Fields(NamedTuple):
    mode: str
    predictions: Any
    loss: Any
    train_op: Any
    eval_metrics: Any
    export_outputs: Any
    scaffold_fn: Callable[[], Any] | None
    host_call: Any
    training_hooks: tuple[Any, ...]
    evaluation_hooks: tuple[Any, ...]
    prediction_hooks: tuple[Any, ...]


class TPUEstimatorSpec(_Fields):
    """Result of a model function, whose metrics and host calls are pairs of a function and its tensors."""

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metrics: Any = None,
        export_outputs: Any = None,
        scaffold_fn: Callable[[], Any] | None = None,
        host_call: Any = None,
        training_hooks: Iterable[Any] | None = None,
        evaluation_hooks: Iterable[Any] | None = None,
        prediction_hooks: Iterable[Any] | None = None,
    ) -> TPUEstimatorSpec:
        """Make the result."""
        hooks = (tuple(one or ()) for one in (training_hooks, evaluation_hooks, prediction_hooks))
        return super().__new__(
            cls, mode, predictions, loss, train_op, eval_metrics, export_outputs, scaffold_fn, host_call, *hooks
        )

    def as_estimator_spec(self) -> EstimatorSpec:
        """The result without a TPU: metrics and host calls are called here."""
        metrics = None if self.eval_metrics is None else _called(*self.eval_metrics)
        hooks = () if self.host_call is None else (_HostCallHook(_called(*self.host_call)),)
        return EstimatorSpec(
            self.mode,
            predictions=self.predictions,
            loss=self.loss,
            train_op=self.train_op,
            eval_metric_ops=metrics,
            export_outputs=self.export_outputs,
            scaffold=self.scaffold_fn() if self.scaffold_fn else None,
            training_hooks=self.training_hooks + hooks,
            evaluation_hooks=self.evaluation_hooks + hooks,
            prediction_hooks=self.prediction_hooks + hooks,
        )


def _called(function: Callable[..., Any], tensors: Mapping[str, Any] | Sequence[Any]) -> Any:
    return function(**tensors) if isinstance(tensors, Mapping) else function(*tensors)


class _HostCallHook(SessionRunHook):
    """Runs the ops of a host call in each step."""

    def __init__(self, ops: Any) -> None:
        self._ops = ops

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Request the ops."""
        return SessionRunArgs(self._ops)


class ExamplesPerSecondHook(StepCounterHook):
    """Logs the steps and the examples of a second."""

    def __init__(self, batch_size: int | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._batch_size = batch_size

    def _report(self, rate: float, step: int) -> None:
        report_rate(self._summary_writer, self._tag, rate, step)
        report_rate(self._summary_writer, "examples/sec", (self._batch_size or 0) * rate, step)


class TPUEstimator(estimator.Estimator):
    """Estimator whose functions get the size of their batches in `params["batch_size"]`.

    Raises ValueError for settings of another kind and for parameters with a reserved name, NotImplementedError for a TPU.
    """

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: Any = None,
        config: Any = None,
        params: Mapping[str, Any] | None = None,
        use_tpu: bool = True,
        train_batch_size: int | None = None,
        eval_batch_size: int | None = None,
        predict_batch_size: int | None = None,
        batch_axis: object = None,
        eval_on_tpu: bool = True,
        export_to_tpu: bool = True,
        export_to_cpu: bool = True,
        warm_start_from: object = None,
        **kwargs: object,
    ) -> None:
        if not isinstance(config, RunConfig):
            raise ValueError("`config` must be provided with type `tpu_config.RunConfig`")
        if params is not None and (_BATCH_SIZE in params or _CONTEXT in params):
            raise ValueError(f"{[_BATCH_SIZE, _CONTEXT]} are reserved keys but existed in params {params}.")
        if use_tpu:
            raise not_there("estimator.tpu.TPUEstimator(use_tpu=True)", "placesim has CPUs and GPUs: use_tpu=False")
        if "params" not in fn_args(model_fn):
            raise ValueError(
                f"model_fn ({model_fn}) does not include params argument, required by TPUEstimator to pass batch size as "
                "params['batch_size']"
            )
        steps = config.log_step_count_steps
        self._log_steps = None if steps is None else -(-steps // config.tpu_config.iterations_per_loop)
        self._batch_sizes = {
            ModeKeys.TRAIN: train_batch_size, ModeKeys.EVAL: eval_batch_size, ModeKeys.PREDICT: predict_batch_size
        }  # fmt: skip
        super().__init__(model_fn, model_dir, config.replace(log_step_count_steps=None), params, warm_start_from)

    def _create_global_step(self) -> Any:
        with tf.name_scope(None):
            return tf.get_variable(
                GraphKeys.GLOBAL_STEP, [], tf.int64, tf.zeros_initializer(), trainable=False, use_resource=True,
                collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP],
            )  # fmt: skip

    def _call_params(self, mode: str) -> Any:
        """The parameters of a function's call: those of the script, which may be `HParams`, and the estimator's own."""
        found, size = self.params, self._batch_sizes[mode]
        for name, value in (("use_tpu", False), *([] if size is None else [(_BATCH_SIZE, size)])):
            if not hasattr(found, "add_hparam"):
                found[name] = value
            elif name in found:
                found.set_hparam(name, value)
            else:
                found.add_hparam(name, value)
        return found

    def _call_input_fn(self, input_fn: Callable[..., Any], mode: str, input_context: Any = None) -> Any:
        if "params" not in fn_args(input_fn):
            raise ValueError(
                f"input_fn ({input_fn}) does not include params argument, required by TPUEstimator to pass batch size as "
                'params["batch_size"]'
            )
        return super()._call_input_fn(input_fn, mode, input_context)

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        tf.logging.info(f"Running {mode} on CPU/GPU")
        found = super()._call_model_fn(features, labels, mode, config)
        if self._log_steps is None:
            return found
        hook = ExamplesPerSecondHook(
            self._batch_sizes[mode],
            every_n_steps=self._log_steps,
            output_dir=self.model_dir if config.save_summary_steps else None,
        )
        return found._replace(training_hooks=(*found.training_hooks, hook))

    def _as_spec(self, result: Any) -> Any:
        return result.as_estimator_spec() if isinstance(result, TPUEstimatorSpec) else result
