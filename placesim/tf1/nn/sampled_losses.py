"""Losses over many classes, computed for the true classes and a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.namespaces import namespace

tf = namespace("")


def _sum_rows(x: Tensor) -> Any:
    """Each row's sum, by a product with ones."""
    ones = tf.ones(tf.stack([tf.shape(x)[1], 1]), x.dtype)
    return tf.reshape(tf.matmul(x, ones), [-1])


class _SampledClasses:
    """Classes of a sampled loss: the true ones of each example, and sampled ones, which all examples share."""

    def __init__(
        self,
        labels: Any,
        num_sampled: int,
        num_classes: int,
        num_true: int,
        sampled_values: Sequence[Tensor] | None,
        seed: int | None,
    ) -> None:
        self.num_true, self.num_sampled = num_true, num_sampled
        self.labels = tf.cast(labels, tf.int64) if labels.dtype != tf.int64 else labels
        self.flat = tf.reshape(self.labels, [-1])
        if sampled_values is None:
            sampled_values = tf.nn.log_uniform_candidate_sampler(
                true_classes=self.labels,
                num_true=num_true,
                num_sampled=num_sampled,
                unique=True,
                range_max=num_classes,
                seed=seed,
            )
        drawn, self.true_expected, self.drawn_expected = [tf.stop_gradient(value) for value in sampled_values]
        self.drawn = tf.cast(drawn, tf.int64)
        self.all = tf.concat([self.flat, self.drawn], 0)

    def logits(self, weights: TensorLike, biases: object, inputs: TensorLike, strategy: str) -> tuple[Any, Any]:
        """Logits of the true classes, and of the sampled ones."""
        rows = self._looked_up(weights, inputs, strategy)
        true_rows = tf.slice(rows, [0, 0], tf.stack([tf.shape(self.flat)[0], -1]))
        drawn_rows = tf.slice(rows, tf.stack([tf.shape(self.flat)[0], 0]), [-1, -1])
        drawn = tf.matmul(inputs, drawn_rows, transpose_b=True)
        offsets = self._looked_up(biases, inputs, strategy)
        true_offsets = tf.slice(offsets, [0], tf.shape(self.flat))
        drawn_offsets = tf.slice(offsets, tf.shape(self.flat), [-1])
        true = self._true_products(inputs, true_rows)
        return true + tf.reshape(true_offsets, [-1, self.num_true]), drawn + drawn_offsets

    def _looked_up(self, tables: object, inputs: Any, strategy: str) -> Any:
        found = tf.nn.embedding_lookup(tables, self.all, partition_strategy=strategy)
        return tf.cast(found, inputs.dtype) if found.dtype != inputs.dtype else found

    def _true_products(self, inputs: TensorLike, rows: object) -> Any:
        """Products `[batch, num_true]` of each example and the rows of its true classes."""
        width = tf.shape(rows)[1:2]
        shape = tf.concat([[-1, self.num_true], width], 0)
        products = tf.multiply(tf.expand_dims(inputs, 1), tf.reshape(rows, shape))
        flat = tf.reshape(products, tf.concat([[-1], width], 0))
        return tf.reshape(_sum_rows(flat), [-1, self.num_true])

    def without_hits(self, logits: Any) -> Any:
        """Logits of the sampled classes; a class that is a true class of the example gets a very small logit."""
        rows, ids, weights = tf.nn.compute_accidental_hits(self.labels, self.drawn, num_true=self.num_true)
        places = [tf.reshape(rows, [-1, 1]), tf.reshape(tf.cast(ids, tf.int32), [-1, 1])]
        indices = tf.concat(places, 1, "sparse_indices")
        shape = tf.concat([tf.shape(self.labels)[:1], tf.expand_dims(self.num_sampled, 0)], 0)
        if logits.dtype != weights.dtype:
            weights = tf.cast(weights, logits.dtype)
        return logits + tf.sparse_to_dense(indices, shape, weights, default_value=0.0, validate_indices=False)

    def targets(self, true: object, drawn: object) -> Any:
        """Labels of all logits: 1 / `num_true` for true classes, 0 for sampled ones."""
        return tf.concat([tf.ones_like(true) / self.num_true, tf.zeros_like(drawn)], 1)


def _sampled_logits(
    weights: Any,
    biases: TensorLike,
    labels: TensorLike,
    inputs: TensorLike,
    num_sampled: int,
    num_classes: int,
    num_true: int,
    sampled_values: Sequence[Tensor] | None,
    removes_hits: bool,
    strategy: str,
    name: str,
    seed: int | None = None,
) -> tuple[Any, Any]:
    """Concatenated logits of the true and the sampled classes, and their labels."""
    tables = list(weights) if hasattr(weights, "_get_variable_list") else weights
    tables = tables if isinstance(tables, list | tuple) else [tables]
    with name_scope(name, "compute_sampled_logits", [*tables, biases, inputs, labels]):
        sampled = _SampledClasses(labels, num_sampled, num_classes, num_true, sampled_values, seed)
        true, drawn = sampled.logits(tables, biases, inputs, strategy)
        if removes_hits:
            drawn = sampled.without_hits(drawn)
        true -= tf.log(sampled.true_expected)
        drawn -= tf.log(sampled.drawn_expected)
        return tf.concat([true, drawn], 1), sampled.targets(true, drawn)


def nce_loss(
    weights: TensorLike,
    biases: TensorLike,
    labels: TensorLike,
    inputs: TensorLike,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Sequence[Tensor] | None = None,
    remove_accidental_hits: bool = False,
    partition_strategy: str = "mod",
    name: str = "nce_loss",
) -> Any:
    """Noise-contrastive estimation loss of each example: the sum of a logistic loss for each class."""
    counts = num_sampled, num_classes, num_true
    logits, targets = _sampled_logits(
        weights, biases, labels, inputs, *counts, sampled_values, remove_accidental_hits, partition_strategy, name
    )
    return _sum_rows(tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits, name="sampled_losses"))


def sampled_softmax_loss(
    weights: TensorLike,
    biases: TensorLike,
    labels: TensorLike,
    inputs: TensorLike,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Sequence[Tensor] | None = None,
    remove_accidental_hits: bool = True,
    partition_strategy: str = "mod",
    name: str = "sampled_softmax_loss",
    seed: int | None = None,
) -> Any:
    """Softmax loss of each example over its true and the sampled classes."""
    counts = num_sampled, num_classes, num_true
    logits, targets = _sampled_logits(
        weights, biases, labels, inputs, *counts, sampled_values, remove_accidental_hits, partition_strategy, name, seed
    )
    targets = tf.stop_gradient(targets, name="labels_stop_gradient")
    return tf.nn.softmax_cross_entropy_with_logits_v2(labels=targets, logits=logits)
