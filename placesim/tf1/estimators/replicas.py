"""The training graph of an estimator whose settings have a strategy: one call of the model function for each replica."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.distribute.reductions import ReduceOp
from placesim.tf1.estimators.input_functions import features_and_labels
from placesim.tf1.estimators.specs import EstimatorSpec, ModeKeys
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.optimizers.steps import GLOBAL_STEP_READS
from placesim.tf1.training.scaffold import Scaffold


def build_replicas(
    strategy: Any, iterator: Any, step: Any, call_model_fn: Callable[[Any, Any], EstimatorSpec]
) -> EstimatorSpec:
    """The grouped result of the replicas' model functions; their losses are averaged."""
    tf.add_to_collection(GLOBAL_STEP_READS, strategy.read_var(step))
    grouped = strategy.run(call_model_fn, features_and_labels(iterator.get_next()))
    loss = strategy.reduce(ReduceOp.MEAN, grouped.loss)

    def of_first(values: Any) -> list[Any]:
        return [strategy.experimental_local_results(value)[0] for value in values]

    return EstimatorSpec(
        ModeKeys.TRAIN,
        loss=loss,
        scaffold=_combined_scaffold(strategy, grouped.scaffold),
        train_op=strategy.group(grouped.train_op),
        training_hooks=of_first(grouped.training_hooks),
        training_chief_hooks=of_first(grouped.training_chief_hooks),
    )


def _combined_scaffold(strategy: Any, grouped: Any) -> Scaffold:
    """One scaffold of the replicas' scaffolds: their ops grouped, and the first saver and function."""
    scaffolds = strategy.experimental_local_results(grouped)

    def given(name: str) -> list[Any]:
        return [value for one in scaffolds if (value := getattr(one, "_" + name)) is not None]

    def joined(make: Callable[[Scaffold], Any]) -> Any:
        parts = tf.nest.flatten(strategy.experimental_local_results(strategy.run(make, (grouped,))))
        if parts[0] is None:
            return None
        return tf.concat(parts, 0) if len(parts) > 1 else parts[0]

    ops = {name: tf.group(*found) if (found := given(name)) else None for name in ("init_op", "local_init_op", "summary_op")}
    return Scaffold(
        **ops,
        ready_op=joined(lambda one: one.ready_op),
        ready_for_local_init_op=joined(_ready_for_local_init_op),
        saver=next(iter(given("saver")), None),
        init_fn=next(iter(given("user_init_fn")), None),
    )


def _ready_for_local_init_op(scaffold: Scaffold) -> Any:
    return scaffold.ready_for_local_init_op or Scaffold.get_or_default(
        "ready_for_local_init_op",
        GraphKeys.READY_FOR_LOCAL_INIT_OP,
        lambda: tf.report_uninitialized_variables(tf.global_variables()),
    )
