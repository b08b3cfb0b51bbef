"""`tf.contrib.layers`' embeddings of sequences."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.tf1.contrib.variables import model_variable
from placesim.tf1.graphs.tensor_likes import ShapeLike, TensorLike
from placesim.tf1.importing.missing_names import not_there


def embedding_lookup_unique(params: TensorLike, ids: Any, partition_strategy: str = "mod", name: str | None = None) -> Any:
    """`tf.nn.embedding_lookup` that looks each id up once."""
    with tf.name_scope(name, "EmbeddingLookupUnique", [params, ids]):
        ids = tf.convert_to_tensor(ids)
        shape = tf.shape(ids)
        flat = tf.reshape(ids, tf.reduce_prod(shape, keepdims=True))
        unique, places = tf.unique(flat)
        rows = tf.nn.embedding_lookup(params, unique, partition_strategy)
        found = tf.gather(rows, places)
        found = tf.reshape(found, tf.concat([shape, tf.shape(rows)[1:]], 0))
        found.set_shape(ids.get_shape().concatenate(rows.get_shape()[1:]))
        return found


def embed_sequence(
    ids: TensorLike,
    vocab_size: int | None = None,
    embed_dim: int | None = None,
    unique: bool = False,
    initializer: object = None,
    regularizer: object = None,
    trainable: bool = True,
    scope: object = None,
    reuse: object = None,
) -> Any:
    """Embeddings of ids: rows of a variable `embeddings`.  Raises ValueError if sizes of a new variable are missing."""
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError(
            f"Must specify vocab size and embedding dimension when not reusing. Got vocab_size={vocab_size} "
            f"and embed_dim={embed_dim}"
        )
    with tf.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = [vocab_size, embed_dim]
        if reuse and (vocab_size is None or embed_dim is None):
            shape = None  # type: ignore[assignment]
        table = _table(shape, initializer, regularizer, trainable)
        look_up = embedding_lookup_unique if unique else tf.nn.embedding_lookup
        return look_up(table, ids)


def _table(shape: ShapeLike, initializer: object, regularizer: object, trainable: bool) -> Any:
    settings = {"initializer": initializer, "regularizer": regularizer, "trainable": trainable}
    return model_variable("embeddings", shape=shape, **settings)


def bow_encoder(
    ids: TensorLike,
    vocab_size: int,
    embed_dim: int,
    sparse_lookup: bool = True,
    initializer: object = None,
    regularizer: object = None,
    trainable: bool = True,
    scope: object = None,
    reuse: object = None,
) -> Any:
    """Mean of the embeddings of each example's ids, from a variable `embeddings`."""
    with tf.variable_scope(scope, "bow_encoder", [ids], reuse=reuse):
        if sparse_lookup:
            raise not_there("contrib.layers.bow_encoder with sparse_lookup", "sparse_lookup=False is")
        table = _table([vocab_size, embed_dim], initializer, regularizer, trainable)
        return tf.reduce_mean(tf.nn.embedding_lookup(table, ids), axis=1)
