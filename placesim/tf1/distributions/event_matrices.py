"""Conversion of tensors `[*samples, *batch, *event]` to batches of matrices `[event, samples]`, and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import placesim.tf1 as tf
from placesim.tf1.importing.missing_names import not_there


class EventMatrices:
    """Reshape values `[*samples, *batch, *event]` of vectors to `[*batch, event, samples]`, for products with matrices."""

    def __init__(self, batch_ndims: int | None) -> None:
        """Raise NotImplementedError for an unknown rank of the batch."""
        if batch_ndims is None:
            raise not_there("contrib.distributions of batches of unknown rank", "set the shape of the parameters")
        with self._scope("init"):
            self._batch_ndims = tf.convert_to_tensor(batch_ndims, name="batch_ndims")
            self._event_ndims = tf.convert_to_tensor(1, name="event_ndims")
        self._ranks = batch_ndims, 1

    @contextmanager
    def _scope(self, name: str) -> Iterator[None]:
        with tf.name_scope("DistributionShape"), tf.name_scope(name):
            yield

    def _sample_ndims(self, x: Any) -> Any:
        name = "get_shape"
        with self._scope(name):
            with self._scope(name):
                if x.shape.ndims is None:
                    raise not_there("contrib.distributions of values of unknown rank", "set their shape")
                tf.convert_to_tensor(x.shape.ndims, dtype=tf.int32, name="ndims")
            count = x.shape.ndims - sum(self._ranks)
            if count < 0:
                ranks = "expected batch_ndims({}) + event_ndims({}) <= ndims({})".format(*self._ranks, x.shape.ndims)
                raise ValueError(ranks)
            return tf.convert_to_tensor(count, name="sample_ndims")

    def _sizes(self, x: Any) -> list[Any]:
        """The shapes of samples, batch and event as tensors."""
        with self._scope("get_shape"):
            sample_ndims = self._sample_ndims(x)
            zero = tf.zeros([], dtype=tf.int32, name="zero")
            found: list[Any] = []
            for name, starts, count in (
                ("sample_shape", [zero], sample_ndims),
                ("batch_shape", [sample_ndims], self._batch_ndims),
                ("event_shape", [sample_ndims, self._batch_ndims], self._event_ndims),
            ):
                start = sum(int(tf.get_static_value(one)) for one in starts)
                sizes = x.shape[start : start + int(tf.get_static_value(count))]
                if sizes.is_fully_defined():
                    found.append(tf.convert_to_tensor(sizes.as_list(), dtype=tf.int32, name=name))
                else:
                    found.append(tf.slice(tf.shape(x), [sum(starts)], [count]))
            return found

    def from_events(self, x: Any) -> tuple[Any, Any]:
        """The matrices, and the samples' shape."""
        with self._scope("make_batch_of_event_sample_matrices"):
            samples, batch, event = self._sizes(x)
            with tf.name_scope("pick_vector"):
                tf.convert_to_tensor(False, name="cond")
            return rotated(tf.reshape(x, tf.concat([[-1], batch, event], 0)), -1), samples

    def to_events(self, x: Any, samples: Any) -> Any:
        """The values from matrices and the samples' shape."""
        with self._scope("undo_make_batch_of_event_sample_matrices"):
            x = rotated(x, 1)
            _, batch, event = self._sizes(x)
            return tf.reshape(x, tf.concat([samples, batch, event], 0))


def rotated(x: Any, shift: int) -> Any:
    """`x` with its axes moved to the right by `shift`, circularly."""
    with tf.name_scope("rotate_transpose"):
        tf.debugging.assert_integer(tf.convert_to_tensor(shift, name="shift"))
        return tf.transpose(x, perm=np.roll(np.arange(x.shape.ndims), shift))
