"""What estimators make and compute, with placesim's `tf` or TensorFlow's.

    PYTHON -m tests.tf1.estimator_cases > tests/data/estimators.json

records it with a Python that has TensorFlow 2.15, the last one with `tf.estimator`.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

CLUSTER = {"chief": ["localhost:2221"], "worker": ["localhost:2222"], "ps": ["localhost:2223", "localhost:2224"]}
ROWS = np.random.RandomState(0).randn(60, 4).astype(np.float32)
KINDS = ((ROWS.sum(1) > 0).astype(np.int32) + (ROWS[:, 0] > 1)).astype(np.int32)


def nodes_of(graph: Any) -> list[list[Any]]:
    """Name, op, inputs, device and shapes of each node; control inputs in order of their names, which releases change."""
    return [
        [
            op.name,
            op.type,
            [tensor.name for tensor in op.inputs] + sorted(f"^{one.name}" for one in op.control_inputs),
            op.device,
            [str(tensor.shape) for tensor in op.outputs],
        ]
        for op in graph.get_operations()
    ]


def run(tf: Any) -> dict[str, Any]:
    """All cases: lists of nodes, and values."""
    found: dict[str, Any] = {}

    class Nodes(tf.train.SessionRunHook):  # type: ignore[misc]
        """Takes down the nodes of a session's graph; with `stops`, before there is a session."""

        def __init__(self, name: str, stops: bool = False) -> None:
            self._name, self._stops = name, stops

        def begin(self) -> None:
            if self._stops:
                found[self._name] = nodes_of(tf.get_default_graph())
                raise StopIteration

        def after_create_session(self, session: Any, coord: Any) -> None:
            found[self._name] = nodes_of(session.graph)

    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        hidden = tf.layers.dense(features["x"], params.get("hidden", 8), tf.nn.relu, name="hidden")
        logits = tf.layers.dense(hidden, 3, name="logits")
        chosen = tf.argmax(logits, 1)
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions={"kind": chosen, "chances": tf.nn.softmax(logits)})
        loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
        if mode == tf.estimator.ModeKeys.EVAL:
            return tf.estimator.EstimatorSpec(
                mode, loss=loss, eval_metric_ops={"accuracy": tf.metrics.accuracy(labels, chosen)}
            )
        train_op = tf.train.AdamOptimizer(0.01).minimize(loss, global_step=tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def model_for_tpus(features: Any, labels: Any, mode: str, params: Any) -> Any:
        found[f"parameters for {mode}"] = sorted(params.items())
        spec = model_fn(features, labels, mode, params)
        logits = tf.get_default_graph().get_tensor_by_name("logits/BiasAdd:0")

        def metric_fn(labels: Any, logits: Any) -> Any:
            return {"accuracy": tf.metrics.accuracy(labels, tf.argmax(logits, 1))}

        return tf.estimator.tpu.TPUEstimatorSpec(
            mode,
            predictions=spec.predictions,
            loss=spec.loss,
            train_op=spec.train_op,
            eval_metrics=(metric_fn, [labels, logits]) if mode == tf.estimator.ModeKeys.EVAL else None,
        )

    def replica_metrics() -> Any:
        numbers, kinds, guesses = tf.constant([1.0, 2.0]), tf.constant([1, 0]), tf.constant([1, 1])
        metrics = tf.metrics
        made = [
            metrics.mean(numbers),
            metrics.mean_tensor(numbers),
            metrics.root_mean_squared_error(numbers, numbers + 1.0),
            metrics.false_negatives_at_thresholds(tf.constant([True, False]), tf.constant([0.3, 0.4]), [0.2, 0.5]),
            metrics.mean_iou(kinds, guesses, 2),
            metrics.mean_per_class_accuracy(kinds, guesses, 2),
            *(make(kinds, guesses) for make in (metrics.accuracy, metrics.precision, metrics.recall, metrics.true_positives)),
        ]
        return [value for value, _ in made], [update for _, update in made]

    def batches(repeats: Any, size: int = 10) -> Any:
        return tf.data.Dataset.from_tensor_slices(({"x": ROWS}, KINDS)).repeat(repeats).batch(size, drop_remainder=size != 10)

    def numbers(values: Any) -> dict[str, float]:
        return {name: float(value) for name, value in sorted(values.items())}

    once: Callable[[], Any] = partial(batches, 1)
    always: Callable[[], Any] = partial(batches, None)
    settings = {"tf_random_seed": 1, "log_step_count_steps": 5}
    with tempfile.TemporaryDirectory() as folder:
        config = tf.estimator.RunConfig(save_checkpoints_steps=10, **settings)
        one = tf.estimator.Estimator(model_fn, f"{folder}/one", config, {"hidden": 6})
        one.train(always, steps=12, hooks=[Nodes("training")])
        found["metrics"] = numbers(one.evaluate(once, hooks=[Nodes("evaluation")]))
        one.evaluate(once, steps=2, hooks=[Nodes("evaluation of two steps")], name="two")
        found["kinds"] = [int(each["kind"]) for each in one.predict(once, hooks=[Nodes("prediction")])]
        arrays = tf.estimator.inputs.numpy_input_fn
        one.train(arrays({"x": ROWS}, KINDS, 10, 2, shuffle=False), steps=50, hooks=[Nodes("arrays")])
        found["after arrays"] = numbers(one.evaluate(arrays({"x": ROWS}, KINDS, 7, 3, shuffle=False), steps=20))
        found["variables"] = one.get_variable_names()
        spec = tf.estimator.EvalSpec(once, throttle_secs=0)
        metrics, _ = tf.estimator.train_and_evaluate(one, tf.estimator.TrainSpec(always, max_steps=40), spec)
        found["trained and evaluated"] = numbers(metrics)
        # the last, since it trains with other rows each time
        one.train(arrays({"x": ROWS}, KINDS, 10, None, shuffle=True), max_steps=45, hooks=[Nodes("shuffled arrays")])

        strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
        session = tf.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True)
        config = tf.estimator.RunConfig(train_distribute=strategy, session_config=session, **settings)
        tf.estimator.Estimator(model_fn, f"{folder}/mirrored", config, {}).train(always, steps=3, hooks=[Nodes("mirrored")])

        with tf.Graph().as_default(), strategy.scope():
            values, updates = strategy.run(replica_metrics)
            found["metrics of replicas"] = nodes_of(tf.get_default_graph())
            with tf.Session(config=session) as running:
                running.run(tf.local_variables_initializer())
                running.run([strategy.experimental_local_results(update) for update in updates])
                last = [running.run(strategy.experimental_local_results(value)[0]) for value in values]
                found["values of replicas"] = dict(
                    enumerate(np.ravel(np.concatenate([np.ravel(one) for one in last])).tolist())
                )

        for task, index in (("chief", 0), ("worker", 0)):
            os.environ["TF_CONFIG"] = json.dumps({"cluster": CLUSTER, "task": {"type": task, "index": index}})
            config = tf.estimator.RunConfig(**settings)
            names = "num_ps_replicas num_worker_replicas global_id_in_cluster master is_chief task_type task_id"
            found[f"settings of {task}"] = [getattr(config, name) for name in names.split()]
            found[f"filters of {task}"] = list(config.session_config.device_filters)
            try:
                of_task = tf.estimator.Estimator(model_fn, f"{folder}/cluster", config, {})
                of_task.train(always, steps=3, hooks=[Nodes(f"cluster's {task}", stops=True)])
            except StopIteration:
                pass
            finally:
                del os.environ["TF_CONFIG"]

        tpu = tf.estimator.tpu
        config = tpu.RunConfig(model_dir=f"{folder}/tpu", tf_random_seed=2, tpu_config=tpu.TPUConfig(iterations_per_loop=10))
        sizes = {"train_batch_size": 12, "eval_batch_size": 20, "predict_batch_size": 5}
        without = tpu.TPUEstimator(model_for_tpus, config=config, use_tpu=False, **sizes)

        def sized(params: Any) -> Any:
            return batches(1, params["batch_size"])

        without.train(sized, max_steps=4, hooks=[Nodes("without a TPU")])
        found["metrics without a TPU"] = numbers(without.evaluate(sized, steps=2, hooks=[Nodes("evaluation without a TPU")]))
        found["kinds without a TPU"] = [int(each["kind"]) for each in without.predict(sized)]
    return found


if __name__ == "__main__":
    import tensorflow.compat.v1 as recorded

    recorded.disable_v2_behavior()
    folded = {"release": recorded.__version__, **run(recorded)}
    Path("/dev/stdout").write_text(json.dumps(folded, separators=(",", ":")), encoding="utf-8")
