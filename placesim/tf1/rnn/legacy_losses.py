"""`tf.contrib.legacy_seq2seq`: losses of lists of logits, and models with buckets of sequence lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.importing.namespaces import namespace

tf = namespace("")


def sequence_loss_by_example(
    logits: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    average_across_timesteps: bool = True,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """Each example's cross entropy, weighted and summed over its steps.  Raises ValueError."""
    if len(targets) != len(logits) or len(weights) != len(logits):
        raise ValueError(
            f"Lengths of logits, weights, and targets must be the same {len(logits)}, {len(weights)}, {len(targets)}."
        )
    with name_scope(name, "sequence_loss_by_example", [*logits, *targets, *weights]):
        losses = []
        for logit, target, weight in zip(logits, targets, weights, strict=True):
            if softmax_loss_function is None:
                target = tf.reshape(target, [-1])
                crossed = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logit)
            else:
                crossed = softmax_loss_function(labels=target, logits=logit)
            losses.append(crossed * weight)
        total = tf.add_n(losses)
        if average_across_timesteps:
            # All weights may be zero.
            total /= tf.add_n(weights) + 1e-12
    return total


def sequence_loss(
    logits: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """Cross entropy of a batch."""
    with name_scope(name, "sequence_loss", [*logits, *targets, *weights]):
        cost = tf.reduce_sum(
            sequence_loss_by_example(
                logits,
                targets,
                weights,
                average_across_timesteps=average_across_timesteps,
                softmax_loss_function=softmax_loss_function,
            )
        )
        return cost / tf.cast(tf.shape(targets[0])[0], cost.dtype) if average_across_batch else cost


def model_with_buckets(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    buckets: Sequence[tuple[int, int]],
    seq2seq: Callable[[Any, Any], tuple[Any, Any]],
    softmax_loss_function: Callable[..., Any] | None = None,
    per_example_loss: bool = False,
    name: str | None = None,
) -> tuple[list[Any], list[Any]]:
    """Outputs and losses for each bucket (a pair of lengths).  All buckets share their variables.  Raises ValueError."""
    longest = buckets[-1]
    for what, given, wanted in (
        ("encoder_inputs", encoder_inputs, longest[0]),
        ("targets", targets, longest[1]),
        ("weights", weights, longest[1]),
    ):
        if len(given) < wanted:
            raise ValueError(f"Length of {what} ({len(given)}) must be at least that of last bucket ({wanted}).")
    measure = sequence_loss_by_example if per_example_loss else sequence_loss
    losses, outputs = [], []
    with name_scope(name, "model_with_buckets", [*encoder_inputs, *decoder_inputs, *targets, *weights]):
        for i, (encoded, decoded) in enumerate(buckets):
            with tf.variable_scope(tf.get_variable_scope(), reuse=True if i > 0 else None):
                found, _ = seq2seq(encoder_inputs[:encoded], decoder_inputs[:decoded])
                outputs.append(found)
                losses.append(measure(found, targets[:decoded], weights[:decoded], softmax_loss_function=softmax_loss_function))
    return outputs, losses
