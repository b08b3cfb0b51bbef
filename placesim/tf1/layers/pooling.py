"""Pooling layers."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import PerDimension, TensorLike
from placesim.tf1.layers.layer import InputSpec, Layer, data_format_of, padding_of, sizes


class _Pooling(Layer):
    """The largest or mean value in each window over `rank` dimensions."""

    rank = 2
    function = "max_pool"

    def __init__(
        self,
        pool_size: PerDimension,
        strides: PerDimension,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.pool_size = sizes(pool_size, self.rank, "pool_size")
        self.strides = sizes(pool_size if strides is None else strides, self.rank, "strides")
        self.padding = padding_of(padding)
        self.data_format = data_format_of(data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def call(self, inputs: TensorLike, *args: object, **kwargs: object) -> Any:
        last = self.data_format == "channels_last"
        if self.rank == 1:
            axis = 2 if last else 3
            windows, strides = (*self.pool_size, 1), (*self.strides, 1)
            return tf.squeeze(self._pooled(tf.expand_dims(inputs, axis), windows, strides, last), axis)
        return self._pooled(inputs, self.pool_size, self.strides, last)

    def _pooled(self, inputs: TensorLike, windows: tuple[int, ...], strides: tuple[int, ...], last: bool) -> Any:
        formats = ("NCDHW", "NDHWC") if self.rank == 3 else ("NCHW", "NHWC")
        return getattr(tf.nn, self.function)(
            inputs,
            ksize=[1, *windows, 1] if last else [1, 1, *windows],
            strides=[1, *strides, 1] if last else [1, 1, *strides],
            padding=self.padding.upper(),
            data_format=formats[last],
        )


class MaxPooling1D(_Pooling):
    """The largest value in each window of a sequence."""

    rank = 1


class MaxPooling2D(_Pooling):
    """The largest value in each window of an image."""


class MaxPooling3D(_Pooling):
    """The largest value in each window of a volume."""

    rank, function = 3, "max_pool3d"


class AveragePooling1D(_Pooling):
    """The mean of each window of a sequence."""

    rank, function = 1, "avg_pool"


class AveragePooling2D(_Pooling):
    """The mean of each window of an image."""

    function = "avg_pool"


class AveragePooling3D(_Pooling):
    """The mean of each window of a volume."""

    rank, function = 3, "avg_pool3d"


def _function(kind: type[_Pooling]) -> Any:
    def layer(
        inputs: TensorLike,
        pool_size: PerDimension,
        strides: PerDimension,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
    ) -> Any:
        return kind(pool_size, strides, padding, data_format, name)(inputs)

    layer.__doc__ = f"Make a `{kind.__name__}` layer and apply it."
    return layer


max_pooling1d = _function(MaxPooling1D)
max_pooling2d = _function(MaxPooling2D)
max_pooling3d = _function(MaxPooling3D)
average_pooling1d = _function(AveragePooling1D)
average_pooling2d = _function(AveragePooling2D)
average_pooling3d = _function(AveragePooling3D)
