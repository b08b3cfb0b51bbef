"""Move blocks of images between the dimensions of space, depth and batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.arguments import renamed
from placesim.tf1.ops.generated_functions import gen


def space_to_depth(input: TensorLike, block_size: object, name: str | None = None, data_format: str = "NHWC") -> Any:
    """`tf.space_to_depth`."""
    return gen("SpaceToDepth")(input, block_size, data_format, name=name)


def depth_to_space(input: TensorLike, block_size: object, name: str | None = None, data_format: str = "NHWC") -> Any:
    """`tf.depth_to_space`."""
    return gen("DepthToSpace")(input, block_size, data_format, name=name)


def space_to_batch(
    input: TensorLike, paddings: TensorLike, block_size: object = None, name: str | None = None, block_shape: object = None
) -> Any:
    """`tf.space_to_batch`: in two dimensions."""
    block_size = renamed("block_shape", block_shape, "block_size", block_size)
    found = gen("SpaceToBatchND")(input, block_shape=np.array([block_size, block_size], np.int64), paddings=paddings, name=name)
    found.set_shape(found.shape.with_rank(4))
    return found


def batch_to_space(
    input: TensorLike, crops: object, block_size: object, name: str | None = None, block_shape: object = None
) -> Any:
    """`tf.batch_to_space`: in two dimensions."""
    block_size = renamed("block_shape", block_shape, "block_size", block_size)
    found = gen("BatchToSpaceND")(input, block_shape=np.array([block_size, block_size], np.int64), crops=crops, name=name)
    found.set_shape(found.shape.with_rank(4))
    return found


def extract_image_patches(
    images: TensorLike,
    ksizes: object = None,
    strides: object = None,
    rates: object = None,
    padding: object = None,
    name: str | None = None,
    sizes: TensorLike | None = None,
) -> Any:
    """`tf.extract_image_patches`."""
    return gen("ExtractImagePatches")(images, renamed("sizes", sizes, "ksizes", ksizes), strides, rates, padding, name)


def required_space_to_batch_paddings(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: str | None = None
) -> tuple[Any, Any]:
    """`tf.required_space_to_batch_paddings`: smallest paddings to whole blocks, and the crops that remove them."""
    from placesim.tf1.array.creation import zeros
    from placesim.tf1.array.shaping import stack
    from placesim.tf1.graphs.default_graph_scopes import name_scope
    from placesim.tf1.ops.constant_values import constant_value
    from placesim.tf1.ops.conversion import convert_to_tensor
    from placesim.tf1.types import dtypes

    with name_scope(name, "required_space_to_batch_paddings", [input_shape, block_shape]):
        sizes = convert_to_tensor(input_shape, dtypes.int32, name="input_shape")
        blocks = convert_to_tensor(block_shape, dtypes.int32, name="block_shape")
        blocks.shape.assert_is_fully_defined()
        blocks.shape.assert_has_rank(1)
        count = blocks.shape[0].value
        if count == 0:
            empty = zeros([0, 2], dtypes.int32)
            return empty, empty
        sizes.shape.assert_is_compatible_with([count])
        if base_paddings is not None:
            base = convert_to_tensor(base_paddings, dtypes.int32, name="base_paddings")
            base.shape.assert_is_compatible_with([count, 2])
        else:
            base = zeros([count, 2], dtypes.int32)
        known = [constant_value(tensor) for tensor in (sizes, blocks, base)]
        if all(value is not None for value in known):
            sizes, blocks, base = known
        before, at_end = base[:, 0], base[:, 1]
        whole = sizes + before + at_end
        more = (blocks - whole % blocks) % blocks
        after = at_end + more
        axes = np.arange(count).tolist()
        paddings = stack([[before[i], after[i]] for i in axes], name="paddings")
        return paddings, stack([[0, more[i]] for i in axes], name="crops")
