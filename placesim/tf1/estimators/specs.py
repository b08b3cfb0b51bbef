"""Purposes and results of a model function of `tf.estimator`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.training.scaffold import Scaffold


class ModeKeys:
    """Purposes for which a model function builds its graph."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


class LearnModeKeys:
    """`tf.contrib.learn.ModeKeys`: the same purposes, under that module's names."""

    TRAIN = ModeKeys.TRAIN
    EVAL = ModeKeys.EVAL
    INFER = ModeKeys.PREDICT


class _Fields(NamedTuple):
    mode: str
    predictions: TensorLike | Mapping[str, TensorLike]
    loss: TensorLike | None
    train_op: Operation | Tensor | None
    eval_metric_ops: dict[str, Any]
    export_outputs: Mapping[str, Any] | None
    training_chief_hooks: tuple[Any, ...]
    training_hooks: tuple[Any, ...]
    scaffold: Any
    evaluation_hooks: tuple[Any, ...]
    prediction_hooks: tuple[Any, ...]


class EstimatorSpec(_Fields):
    """Result of a model function: the nodes that the purpose `mode` needs."""

    def __new__(
        cls,
        mode: str,
        predictions: TensorLike | Mapping[str, TensorLike] | None = None,
        loss: TensorLike | None = None,
        train_op: Operation | Tensor | None = None,
        eval_metric_ops: dict[str, Any] | None = None,
        export_outputs: Mapping[str, Any] | None = None,
        training_chief_hooks: Iterable[Any] | None = None,
        training_hooks: Iterable[Any] | None = None,
        scaffold: object = None,
        evaluation_hooks: Iterable[Any] | None = None,
        prediction_hooks: Iterable[Any] | None = None,
    ) -> EstimatorSpec:
        """Raise ValueError if the purpose needs a node that is missing."""
        needed = {"train": (("train_op", train_op), ("loss", loss)), "eval": (("loss", loss),)}
        for name, value in needed.get(mode, (("predictions", predictions),)):
            if value is None:
                raise ValueError(f"Missing {name}.")
        hooks = (training_chief_hooks, training_hooks, evaluation_hooks, prediction_hooks)
        chief, training, evaluation, prediction = (tuple(one or ()) for one in hooks)
        return super().__new__(
            cls, mode, {} if predictions is None else predictions, loss, train_op, eval_metric_ops or {}, export_outputs,
            chief, training, scaffold or Scaffold(), evaluation, prediction,
        )  # fmt: skip
