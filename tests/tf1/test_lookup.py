"""`tf.lookup`, as in TensorFlow 2.21."""

from __future__ import annotations

import pytest

import placesim.tf1 as tf


def test_keys_are_tensors() -> None:
    with tf.Graph().as_default():
        static = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), -1)
        table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, empty_key=0, deleted_key=-1)
        with pytest.raises(AttributeError, match="'list' object has no attribute 'dtype'"):
            static.lookup(["a"])
        with pytest.raises(AttributeError, match="'list' object has no attribute 'dtype'"):
            table.remove([3])
        with pytest.raises(TypeError, match="Dtype of argument `keys` must be <dtype: 'int64'>, received: <dtype: 'int32'>"):
            table.remove(tf.constant([3]))
