"""Layers."""

from __future__ import annotations


def _layers(names: str) -> str:
    return " ".join(f"layers.{name}" for name in names.split())


ROWS = {
    "layers.layer": _layers("Layer InputSpec"),
    "layers.core": _layers("Dense Dropout Flatten dense dropout flatten"),
    "layers.convolutional": _layers(
        "Conv1D Conv2D Conv3D Conv2DTranspose Conv3DTranspose SeparableConv2D conv1d conv2d conv3d conv2d_transpose "
        "conv3d_transpose separable_conv2d"
    ),
    "layers.pooling": _layers(
        "MaxPooling1D MaxPooling2D MaxPooling3D AveragePooling1D AveragePooling2D AveragePooling3D max_pooling1d max_pooling2d "
        "max_pooling3d average_pooling1d average_pooling2d average_pooling3d"
    ),
    "layers.normalization": _layers("BatchNormalization batch_normalization"),
}
