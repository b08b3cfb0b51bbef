"""`tf.image`: decoding of images of any format."""

from __future__ import annotations

from typing import Any

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.images.brightness import convert_image_dtype
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes

tf = namespace("")

_DECODED = (dtypes.float32, dtypes.uint8, dtypes.uint16)


def decode_image(
    contents: TensorLike,
    channels: object = None,
    dtype: DTypeLike = dtypes.uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Any:
    """`tf.io.decode_image`: a JPEG, PNG, GIF, BMP or WebP."""
    with name_scope(name, "decode_image"):
        channels = 0 if channels is None else channels
        wanted = dtypes.as_dtype(dtype)
        first = wanted if wanted in _DECODED else dtypes.uint16
        found = gen("DecodeImage")(contents, channels=channels, dtype=first, expand_animations=expand_animations)
        return found if first is wanted else convert_image_dtype(found, wanted)


def is_jpeg(contents: TensorLike, name: str | None = None) -> Any:
    """`tf.io.is_jpeg`: whether the first bytes are a JPEG's."""
    with name_scope(name, "is_jpeg"):
        return tf.equal(tf.substr(contents, 0, 3), b"\xff\xd8\xff", name=name)
