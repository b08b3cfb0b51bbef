"""Gradients of image ops: resizing, cropping, warping, patches, dilation."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

from placesim.tf1.gradients.registry import GradientFunction, attrs_of
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")


def _static(shape: Any) -> list[int] | None:
    return shape.as_list() if shape.is_fully_defined() else None


def _resize(op_name: str, op: Operation, grad: Tensor) -> list[Any]:
    attrs = attrs_of(op, ("align_corners", "half_pixel_centers"))
    image = op.inputs[0]
    if image.dtype not in (tf.half, tf.float32, tf.float64):
        return [None, None]
    return [gen(op_name)(grad, image, **attrs), None]


def _resize_nearest(op: Operation, grad: Tensor) -> list[Any]:
    image = op.inputs[0]
    size = _static(image.get_shape()[1:3]) or tf.shape(image)[1:3]
    attrs = attrs_of(op, ("align_corners", "half_pixel_centers"))
    return [gen("ResizeNearestNeighborGrad")(grad, size, **attrs), None]


def _scale_and_translate(op: Operation, grad: Tensor) -> list[Any]:
    image, _, scale, translation = op.inputs
    found = gen("ScaleAndTranslateGrad")(grad, image, scale, translation, **attrs_of(op, ("kernel_type", "antialias")))
    return [found, None, None, None]


def _crop_and_resize(op: Operation, grad: Tensor) -> list[Any]:
    image, boxes, indices = op.inputs[:3]
    shape = _static(image.get_shape()) or tf.shape(image)
    of_image = None
    if image.dtype in (tf.half, tf.float32, tf.float64):
        attrs = attrs_of(op, ("method",))
        of_image = gen("CropAndResizeGradImage")(grad, boxes, indices, shape, T=image.dtype, **attrs)
    return [of_image, gen("CropAndResizeGradBoxes")(grad, image, boxes, indices), None, None]


def _inverse_transforms(transforms: object) -> Any:
    """Inverses of projective transforms `[count, 8]`, whose matrices have 1 as ninth number."""
    with name_scope("flat_transforms_to_matrices"):
        transforms = tf.reshape(transforms, tf.constant([-1, 8]))
        count = tf.shape(transforms)[0]
        rows = tf.concat([transforms, tf.ones([count, 1])], axis=1)
        matrices = tf.reshape(rows, tf.constant([-1, 3, 3]))
    inverse = tf.linalg.inv(matrices)
    with name_scope("matrices_to_flat_transforms"):
        rows = tf.reshape(inverse, tf.constant([-1, 9]))
        return (rows / rows[:, 8:9])[:, :8]


def _projective_transform(op_name: str, *names: str) -> GradientFunction:
    def gradient(op: Operation, grad: Tensor) -> list[Any]:
        images, transforms = op.inputs[:2]
        inverse = _inverse_transforms(transforms)
        size = tf.shape(images)[1:3]
        rest = [0.0] * len(op.inputs[3:])
        found = gen(op_name)(grad, inverse, size, *rest, **attrs_of(op, names))
        return [found, None, None, *([None] * len(rest))]

    return gradient


def _image_patches(op: Operation, grad: Tensor) -> list[Any]:
    """For each pixel, the sum of the gradients of its copies.  Patches of pixel numbers show which pixel was copied where."""
    image = op.inputs[0]
    batch, rows, columns, channels = tf.unstack(tf.shape(image, out_type=tf.int64))
    out_rows, out_columns = tf.unstack(tf.shape(op.outputs[0], out_type=tf.int64)[1:3])
    attrs = attrs_of(op, ("ksizes", "strides", "rates", "padding"))
    _, high, wide, _ = attrs["ksizes"]
    pixels = rows * columns
    numbers = tf.reshape(tf.range(1.0, pixels + 1, dtype=tf.float32), (1, rows, columns, 1))
    patches = tf.cast(gen("ExtractImagePatches")(numbers, **attrs), tf.int64)
    grad = tf.reshape(grad, (batch, out_rows, out_columns, high, wide, channels))
    grad = tf.transpose(grad, (1, 2, 3, 4, 0, 5))
    grad = tf.reshape(grad, (-1, batch * channels))
    places = tf.reshape(patches, (-1,)) - 1
    summed = gen("UnsortedSegmentSum")(grad, places, pixels)
    summed = tf.reshape(summed, (rows, columns, batch, channels))
    return [tf.transpose(summed, (2, 0, 1, 3))]


def _volume_patches(op: Any, grad: Tensor) -> list[Any]:
    """Product of the gradient with a sparse matrix from patch elements to voxels.  Sizes must be static."""
    sizes: list[Any] = op.inputs[0].get_shape().as_list()
    _, planes, rows, columns, _ = sizes
    shape = tf.shape(op.inputs[0])
    batch, channels = shape[0], shape[4]
    _, out_planes, out_rows, out_columns, _ = op.outputs[0].get_shape().as_list()
    attrs = attrs_of(op, ("ksizes", "strides", "padding"))
    _, *window, _ = attrs["ksizes"]
    voxels = 1 + planes * rows * columns
    numbers = tf.reshape(tf.range(1, voxels, dtype=tf.int64), (1, planes, rows, columns, 1))
    patches = gen("ExtractVolumePatches")(numbers, **attrs)
    wide = prod(window)
    outputs = out_planes * out_rows * out_columns * wide
    targets = tf.reshape(tf.range(outputs, dtype=tf.int64), (1, out_planes, out_rows, out_columns, wide))
    pairs = tf.concat([tf.expand_dims(patches, axis=-1), tf.expand_dims(targets, axis=-1)], axis=-1)
    matrix = tf.SparseTensor(tf.reshape(pairs, (-1, 2)), tf.ones([outputs], dtype=grad.dtype), (voxels, outputs))
    matrix = tf.sparse_slice(matrix, (1, 0), (voxels - 1, outputs))
    grad = tf.reshape(grad, (batch, out_planes, out_rows, out_columns, *window, channels))
    grad = tf.reshape(tf.transpose(grad, (1, 2, 3, 4, 5, 6, 0, 7)), (-1, batch * channels))
    found = tf.sparse_tensor_dense_matmul(matrix, grad)
    found = tf.reshape(found, (planes, rows, columns, batch, channels))
    return [tf.transpose(found, (3, 0, 1, 2, 4))]


def _dilation(op: Operation, grad: Tensor) -> list[Any]:
    image, kernel = op.inputs
    attrs = attrs_of(op, ("strides", "rates", "padding"))
    of_image = gen("Dilation2DBackpropInput")(image, kernel, grad, **attrs)
    return [of_image, gen("Dilation2DBackpropFilter")(image, kernel, grad, **attrs)]


GRADIENTS: dict[str, GradientFunction] = {
    "ResizeBilinear": partial(_resize, "ResizeBilinearGrad"),
    "ResizeBicubic": partial(_resize, "ResizeBicubicGrad"),
    "ResizeNearestNeighbor": _resize_nearest,
    "ScaleAndTranslate": _scale_and_translate,
    "CropAndResize": _crop_and_resize,
    "ImageProjectiveTransformV2": _projective_transform("ImageProjectiveTransformV2", "interpolation", "fill_mode"),
    "ImageProjectiveTransformV3": _projective_transform("ImageProjectiveTransformV3", "interpolation", "fill_mode"),
    "ExtractImagePatches": _image_patches,
    "ExtractVolumePatches": _volume_patches,
    "Dilation2D": _dilation,
}
