"""Blocks of images: between space, depth and batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.tf1.arguments import renamed
from placesim.tf1.generated import gen


def space_to_depth(input: Any, block_size: Any, name: str | None = None, data_format: str = "NHWC") -> Any:
    """`tf.space_to_depth`."""
    return gen("SpaceToDepth")(input, block_size, data_format, name=name)


def depth_to_space(input: Any, block_size: Any, name: str | None = None, data_format: str = "NHWC") -> Any:
    """`tf.depth_to_space`."""
    return gen("DepthToSpace")(input, block_size, data_format, name=name)


def space_to_batch(input: Any, paddings: Any, block_size: Any = None, name: str | None = None, block_shape: Any = None) -> Any:
    """`tf.space_to_batch`: in two dimensions."""
    block_size = renamed("block_shape", block_shape, "block_size", block_size)
    found = gen("SpaceToBatchND")(input, block_shape=np.array([block_size, block_size]), paddings=paddings, name=name)
    found.set_shape(found.shape.with_rank(4))
    return found


def batch_to_space(input: Any, crops: Any, block_size: Any, name: str | None = None, block_shape: Any = None) -> Any:
    """`tf.batch_to_space`: in two dimensions."""
    block_size = renamed("block_shape", block_shape, "block_size", block_size)
    found = gen("BatchToSpaceND")(input, block_shape=np.array([block_size, block_size]), crops=crops, name=name)
    found.set_shape(found.shape.with_rank(4))
    return found


def extract_image_patches(
    images: Any,
    ksizes: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: Any = None,
    name: str | None = None,
    sizes: Any = None,
) -> Any:
    """`tf.extract_image_patches`."""
    return gen("ExtractImagePatches")(images, renamed("sizes", sizes, "ksizes", ksizes), strides, rates, padding, name)
