"""Estimators beside those of TensorFlow 2.15."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placesim.tf1 as tf
from tests.tf1 import estimator_cases

RECORDED = Path("tests/data/estimators.json.gz")


@pytest.fixture
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as found:
        yield found


@pytest.mark.slow
@pytest.mark.corpus
def test_estimators_make_and_compute_what_tensorflow_does() -> None:
    expected = json.loads(gzip.decompress(RECORDED.read_bytes()))
    assert expected.pop("release") == "2.15.1"
    found = json.loads(json.dumps(estimator_cases.run(tf)))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, dict):
            assert found[name] == pytest.approx(value, rel=1e-5), name
        else:
            for ours, recorded in zip(found[name], value, strict=True):
                assert ours == recorded, name


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    weight = tf.get_variable("weight", initializer=2.0)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=features * weight)
    loss = tf.reduce_mean(tf.square(features * weight - labels))
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def batches() -> Any:
    return tf.data.Dataset.from_tensors(([1.0, 2.0], [3.0, 6.0])).repeat(3)


def test_training_goes_on_from_the_newest_checkpoint(tmp_path: Path) -> None:
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    assert estimator.train(batches).evaluate(batches)["global_step"] == 3
    again = tf.estimator.Estimator(model_fn, str(tmp_path))
    again.train(batches, max_steps=2)
    assert again.get_variable_value("global_step") == 3
    again.train(batches, steps=2)
    assert again.get_variable_value("global_step") == 5
    assert again.latest_checkpoint() == str(tmp_path / "model.ckpt-5")
    assert 2 < again.get_variable_value("weight") < 3
    assert next(iter(again.predict(batches, yield_single_examples=False)))[1] == pytest.approx(
        2 * again.get_variable_value("weight")
    )


def test_an_evaluation_writes_its_numbers(tmp_path: Path) -> None:
    tf.estimator.Estimator(model_fn, str(tmp_path)).train(batches).evaluate(batches, name="small")
    (written,) = (tmp_path / "eval_small").iterdir()
    tags = {value.tag: value for event in tf.train.summary_iterator(str(written)) for value in event.summary.value}
    assert tags.keys() == {"loss", "checkpoint_path"}
    assert tags["loss"].simple_value > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tf.estimator.Estimator(None), "model_fn must be provided"),
        (lambda: tf.estimator.Estimator(lambda labels: None), "must include features argument"),
        (lambda: tf.estimator.Estimator(lambda features, extra: None), "not expected args: {'extra'}"),
        (lambda: tf.estimator.Estimator(model_fn, params={"a": 1}), "does not include params argument"),
        (lambda: tf.estimator.Estimator(model_fn, "a", tf.estimator.RunConfig("b")), "with different values"),
        (lambda: tf.estimator.Estimator(model_fn, config=3), "must be an instance of `RunConfig`"),
        (lambda: tf.estimator.RunConfig(save_checkpoints_steps=1, save_checkpoints_secs=1), "cannot be both set"),
        (lambda: tf.estimator.RunConfig(log_step_count_steps=0), "log_step_count_steps should be > 0"),
        (lambda: tf.estimator.RunConfig().replace(master="x"), "Replacing master is not supported"),
        (lambda: tf.estimator.TrainSpec(batches, 0), "max_steps > 0, given: 0"),
        (lambda: tf.estimator.EvalSpec(batches, throttle_secs=-1), "throttle_secs >= 0, given: -1"),
        (lambda: tf.estimator.Estimator(model_fn).train(batches, steps=1, max_steps=1), "both steps and max_steps"),
        (lambda: tf.estimator.Estimator(model_fn).train(batches, steps=0), "steps > 0, given: 0"),
        (lambda: tf.estimator.Estimator(model_fn).evaluate(batches, steps=-1), "steps > 0, given: -1"),
        (lambda: tf.estimator.Estimator(model_fn).train(lambda: (1, 2, 3), steps=1), r"should return \(features, labels\)"),
        (lambda: tf.estimator.Estimator(lambda features: None).train(lambda: 1, steps=1), "should return an EstimatorSpec"),
        (lambda: tf.estimator.inputs.numpy_input_fn(np.ones(3)), "shuffle must be provided"),
        (lambda: tf.estimator.inputs.numpy_input_fn({}, shuffle=False)(), "cannot be an empty dict"),
        (lambda: tf.estimator.inputs.numpy_input_fn(np.ones(3), np.ones(2), shuffle=False)(), "Length of tensors"),
        (lambda: tf.estimator.inputs.numpy_input_fn({"a": np.ones(3)}, {"a": np.ones(3)}, shuffle=False)(), "1 duplicate keys"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_told(graph: Any, call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("surroundings", "message"),
    [
        ({"task": {"type": "ps"}}, "task type must be WORKER"),
        ({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}, 'must have one "chief" node'),
        ({"cluster": {"chief": ["a:1"]}, "task": {"index": 0}}, "task type must be set"),
        ({"cluster": {"chief": ["a:1"]}, "task": {"type": "chief"}}, "task index must be set"),
        ({"cluster": {"chief": ["a:1"]}, "task": {"type": "worker", "index": 0}}, "worker is not a valid task_type"),
        ({"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": 1}}, "1 is not a valid task_id"),
    ],
)
def test_a_wrong_cluster_is_told(monkeypatch: pytest.MonkeyPatch, surroundings: Any, message: str) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps(surroundings))
    with pytest.raises(ValueError, match=message):
        tf.estimator.RunConfig()


def test_an_evaluator_is_not_in_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"chief": ["a:1"]}, "task": {"type": "evaluator", "index": 0}}))
    config = tf.estimator.RunConfig()
    assert (config.task_type, config.num_worker_replicas, bool(config.cluster_spec)) == ("evaluator", 0, False)
    with pytest.raises(ValueError, match="train_and_evaluate"):
        tf.estimator.Estimator(model_fn, config=config).train(batches)


def test_an_evaluator_evaluates_the_newest_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = tf.estimator.TrainSpec(batches, max_steps=2)
    evaluated = tf.estimator.EvalSpec(batches)

    def evaluate() -> None:
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"chief": ["a:1"]}, "task": {"type": "evaluator", "index": 0}}))
        tf.estimator.train_and_evaluate(tf.estimator.Estimator(model_fn, str(tmp_path)), trained, evaluated)
        monkeypatch.delenv("TF_CONFIG")

    evaluate()
    assert "no other process writes one" in capsys.readouterr().err
    assert not (tmp_path / "eval").exists()
    tf.estimator.Estimator(model_fn, str(tmp_path)).train(batches)
    evaluate()
    assert (tmp_path / "eval").exists()


def test_a_tpu_is_not_there() -> None:
    def model(features: Any, params: Any) -> Any:
        return None

    tpu = tf.contrib.tpu
    with pytest.raises(NotImplementedError, match=r"use_tpu=False"):
        tpu.TPUEstimator(model, config=tpu.RunConfig())
    with pytest.raises(ValueError, match="reserved keys"):
        tpu.TPUEstimator(model, config=tpu.RunConfig(), params={"batch_size": 1}, use_tpu=False)
    with pytest.raises(ValueError, match="does not include params"):
        tpu.TPUEstimator(lambda features: None, config=tpu.RunConfig(), use_tpu=False)


def test_parameters_may_be_hparams(tmp_path: Path) -> None:
    seen = []

    def model(features: Any, labels: Any, mode: str, params: Any) -> Any:
        seen.append((params.width, params.batch_size, params.use_tpu))
        return tf.contrib.tpu.TPUEstimatorSpec(mode, predictions=features, loss=tf.constant(1.0), train_op=tf.no_op())

    tpu = tf.contrib.tpu
    params = tf.contrib.training.HParams(width=3)
    config = tpu.RunConfig(model_dir=str(tmp_path))
    estimator = tpu.TPUEstimator(model, config=config, params=params, use_tpu=False, predict_batch_size=2)
    found = estimator.predict(lambda params: tf.data.Dataset.range(4).batch(params.batch_size), yield_single_examples=False)
    assert [value.tolist() for value in found] == [[0, 1], [2, 3]]
    assert seen == [(3, 2, False)]
