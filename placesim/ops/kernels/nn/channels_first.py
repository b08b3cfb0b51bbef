"""Kernels with channels first, which cuDNN has for every op on a GPU, and oneDNN for most ops on a CPU.

They move the channels to the end, call the kernel for channels last, and move the channels back.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from placesim.core.dtypes import BFLOAT16, FLOAT
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.blocks.epilogues import taken
from placesim.ops.kernels.kernel import Kernel, Tensor

_CHANNELS_LAST = {"NCHW": "NHWC", "NCDHW": "NDHWC", "CHANNELS_FIRST": "CHANNELS_LAST"}
"""For each data format with channels first, the one with channels last."""


class _ImageOp(NamedTuple):
    """The tensors of an op with channels: the inputs that are images, and those with one number per axis of an image.

    `makes_image`: the first output is an image. `in_onednn`: oneDNN has the op.
    """

    images: tuple[int, ...]
    vectors: tuple[int, ...] = ()
    makes_image: bool = True
    in_onednn: bool = True


_FORWARD = _ImageOp((0,))
_FROM_SIZES = _ImageOp((1,), (0,))
_INPUT_GRADIENT = _ImageOp((2,), (0,))
_FILTER_GRADIENT = _ImageOp((0, 2), makes_image=False)
_POOL_GRADIENT = _ImageOp((0, 1, 2))
_SECOND_GRADIENT = _POOL_GRADIENT._replace(in_onednn=False)
_SIZED_GRADIENT = _SECOND_GRADIENT._replace(vectors=(3, 4))
_NORMALIZATION_GRADIENT = _ImageOp((0, 1))
_OPS = {
    "AvgPool": _FORWARD,
    "AvgPool3D": _FORWARD,
    "AvgPool3DGrad": _FROM_SIZES,
    "AvgPoolGrad": _FROM_SIZES,
    "Conv": _FORWARD._replace(in_onednn=False),
    "Conv2D": _FORWARD,
    "Conv2DBackpropFilter": _FILTER_GRADIENT,
    "Conv2DBackpropFilterV2": _FILTER_GRADIENT._replace(in_onednn=False),
    "Conv2DBackpropInput": _INPUT_GRADIENT,
    "Conv2DBackpropInputV2": _ImageOp((0, 2), in_onednn=False),
    "Conv3D": _FORWARD,
    "Conv3DBackpropFilterV2": _FILTER_GRADIENT,
    "Conv3DBackpropInputV2": _INPUT_GRADIENT,
    "DepthwiseConv2dNative": _FORWARD,
    "DepthwiseConv2dNativeBackpropFilter": _FILTER_GRADIENT,
    "DepthwiseConv2dNativeBackpropInput": _INPUT_GRADIENT,
    "FusedBatchNormGrad": _NORMALIZATION_GRADIENT,
    "FusedBatchNormGradV2": _NORMALIZATION_GRADIENT,
    "FusedBatchNormGradV3": _NORMALIZATION_GRADIENT,
    "MaxPool": _FORWARD,
    "MaxPool3D": _FORWARD,
    "MaxPool3DGrad": _POOL_GRADIENT,
    "MaxPool3DGradGrad": _SECOND_GRADIENT,
    "MaxPoolGrad": _POOL_GRADIENT,
    "MaxPoolGradGrad": _SECOND_GRADIENT,
    "MaxPoolGradGradV2": _SIZED_GRADIENT,
    "MaxPoolGradV2": _SIZED_GRADIENT,
    "MaxPoolV2": _ImageOp((0,), (1, 2), in_onednn=False),
}


CONVOLUTION_GRADIENTS = frozenset(op for op in _OPS if op.startswith(("Conv2DBackprop", "Conv3DBackprop")))


def has_channels_first(attrs: Attrs) -> bool:
    """Whether an op's attr `data_format` puts the channels first."""
    return attrs.get("data_format") in _CHANNELS_LAST


def onednn_accepts(op: str, attrs: Attrs, result_of: str) -> bool:
    """Whether oneDNN computes an op with channels first on a CPU; `result_of` is the op that made the second input.

    The variable TF_ENABLE_ONEDNN_OPTS turns oneDNN off. Its gradient of a maximum needs notes of the forward op.
    """
    if op not in _OPS or not _OPS[op].in_onednn or attrs["T"] not in (FLOAT, BFLOAT16):
        return False
    if os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1").lower() in ("0", "false"):
        return False
    if op in ("MaxPoolGrad", "MaxPool3DGrad") and result_of != op.removesuffix("Grad"):
        return False
    windows = [attrs[name] for name in ("ksize", "strides") if "ksize" in attrs]
    is_spatial = all(tuple(sizes[:2]) == (1, 1) for sizes in windows)
    return is_spatial and not (windows and attrs["padding"] == "EXPLICIT")


def with_channels_first(op: str, kernel: Kernel) -> Kernel:
    """Return an op's kernel for channels first; an op without other layouts keeps its own."""
    image_op = _OPS.get(op)
    if image_op is None:
        return kernel

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
        taken()  # the next op's kernel reads blocks of this op's own layout
        axis = attrs.get("batch_dims", 1)
        given = list(inputs)
        for index in image_op.images:
            if given[index].ndim > axis:
                given[index] = np.ascontiguousarray(np.moveaxis(given[index], axis, -1))
        for index in image_op.vectors:
            given[index] = _rotate(given[index])
        outputs = list(kernel.compute(given, _rotate_attrs(attrs)))
        if image_op.makes_image:
            outputs[0] = np.ascontiguousarray(np.moveaxis(outputs[0], -1, axis))
        return outputs

    return kernel._replace(compute=compute)


def _rotate(sizes: Tensor) -> Tensor:
    """Move the second of at least four numbers to the end; fewer numbers are those of rows and columns only."""
    return np.concatenate([sizes[:1], sizes[2:], sizes[1:2]]) if sizes.ndim == 1 and len(sizes) > 3 else sizes


def _rotate_attrs(attrs: Attrs) -> Attrs:
    changed: dict[str, object] = {"data_format": _CHANNELS_LAST[attrs["data_format"]]}
    for name in ("strides", "dilations", "ksize"):
        if name in attrs:
            changed[name] = (*attrs[name][:1], *attrs[name][2:], *attrs[name][1:2])
    if attrs.get("explicit_paddings"):
        paddings = attrs["explicit_paddings"]
        changed["explicit_paddings"] = (*paddings[:2], *paddings[4:], *paddings[2:4])
    return {**attrs, **changed}
