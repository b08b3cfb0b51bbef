"""Decoding of PNG, JPEG, BMP and WebP images, and encoding of PNG and JPEG images.

PNG, BMP and WebP are exact.  Pillow's libjpeg decodes JPEG with its accurate inverse transform, as TensorFlow does with
`dct_method` INTEGER_ACCURATE.  TensorFlow's default is faster, and differs by up to three levels.  `fancy_upscaling` is always
on.  The bytes of JPEG files differ from TensorFlow's.  Decoding, and encoding to JPEG, need the extra `placesim[images]`.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from placesim.core.dtypes import FLOAT, UINT8, UINT16, DataType
from placesim.core.errors import InternalError, InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.image.png_files import PNG_COLOURS, PNG_MAGIC, png_file
from placesim.ops.kernels.kernel import Kernel, Table, Tensor
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    infer_by,
    with_rank,
    with_rank_at_least,
    with_value,
)
from placesim.ops.kernels.string_tensors import flat_strings, raw, string_array
from placesim.ops.process.memory_limit import AllocationRefusal, current_memory

JPEG_MAGIC = b"\xff\xd8\xff"
GIF_MAGIC, BMP_MAGIC, WEBP_MAGIC = b"GIF8", b"BM", (b"RIFF", b"WEBP")
GRAY_WEIGHTS = (9798, 19235, 3735)
"""Weights of red, green and blue in libpng's gray, in units of 1 / 32768."""
BYTES_OF_PIXEL = 12
"""Memory per pixel while decoding: Pillow's image, its conversion to the requested mode, and the array."""
PALETTE = 3
"""The colour type of a PNG with a palette."""
UNKNOWN_FORMAT = "Unknown image file format. One of JPEG, JPEG XL, PNG, GIF, BMP, WebP required."
BAD_JPEG = "jpeg::Uncompress failed. Invalid JPEG data or crop window."


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise UnimplementedError(
            "images are decoded by Pillow, which is not installed: pip install 'placesim[images]'"
        ) from None
    return Image


def _open_image(data: bytes, form: str) -> Any:
    """Open an image without decoding its pixels.  Raises UnimplementedError for too many pixels, and Pillow's errors."""
    pillow = _pillow()
    try:
        with warnings.catch_warnings(action="ignore"):  # Pillow warns at half this number of pixels
            return _pillow().open(io.BytesIO(data), formats=(form,))
    except pillow.DecompressionBombError:
        raise UnimplementedError(f"placesim does not decode images of more than {2 * pillow.MAX_IMAGE_PIXELS} pixels") from None


# --- decoding ---------------------------------------------------------------------------------------------------------


def decode(inputs: Sequence[Tensor], attrs: Attrs, op: str = "DecodeImage") -> Sequence[Tensor]:
    """DecodeImage and its kin: a PNG, JPEG, BMP or WebP file's bytes, a scalar -> `[rows, columns, channels]`.

    WebP gives `[1, rows, columns, channels]` unless `expand_animations` is false. `op` is for messages. Raises
    InvalidArgumentError for attrs out of range and invalid files, and UnimplementedError for GIF, for animations, and if Pillow
    is missing.
    """
    _check_attrs(attrs)
    dtype: DataType = attrs.get("dtype", UINT8)
    data = _contents(inputs[0])
    if data.startswith(JPEG_MAGIC):
        return (_scaled(_decode_jpeg(data, attrs, None), dtype, 256),)
    if data.startswith(PNG_MAGIC):
        return (_decode_png(data, attrs["channels"], dtype),)
    if data.startswith(BMP_MAGIC):
        return (_scaled(_decode_bmp(data, attrs["channels"], op), dtype, 256),)
    if (data[:4], data[8:12]) == WEBP_MAGIC:
        pixels = _decode_webp(data, attrs["channels"], dtype)
        return (pixels[None] if attrs.get("expand_animations", True) else pixels,)
    if data.startswith(GIF_MAGIC):
        raise UnimplementedError("placesim does not decode GIF files")
    raise InvalidArgumentError(UNKNOWN_FORMAT)


def decode_and_crop(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(a JPEG file's bytes, a scalar; a window: top, left, height, width) -> the image inside the window.

    Raises InvalidArgumentError for attrs out of range, a window outside of the image, and an invalid file.
    """
    _check_attrs(attrs)
    data = _contents(inputs[0])
    if data.startswith(PNG_MAGIC):
        raise InvalidArgumentError("DecodeAndCropJpeg operation can run on JPEG only, but detected PNG.")
    if not data.startswith(JPEG_MAGIC):
        raise InvalidArgumentError(UNKNOWN_FORMAT)
    return (_decode_jpeg(data, attrs, inputs[1]),)


def _check_attrs(attrs: Attrs) -> None:
    if attrs.get("ratio", 1) not in (1, 2, 4, 8):
        raise InvalidArgumentError(f"ratio must be 1, 2, 4, or 8, got {attrs['ratio']}")
    if attrs.get("dct_method", "") not in ("", "INTEGER_FAST", "INTEGER_ACCURATE"):
        raise InvalidArgumentError("dct_method must be one of {'', 'INTEGER_FAST', 'INTEGER_ACCURATE'}")
    if attrs["channels"] not in (0, 1, 3, 4):
        raise InvalidArgumentError(f"`channels` must be 0, 1, 3 or 4 but got {attrs['channels']}")


def _contents(tensor: Tensor) -> bytes:
    if np.ndim(tensor):
        raise InvalidArgumentError(f"`contents` must be scalar but got shape{shape_text(tensor)}")
    (data,) = flat_strings(tensor)
    if not data:
        raise InvalidArgumentError("Input is empty.")
    return data


def _scaled(pixels: Tensor, dtype: DataType, step: int) -> Tensor:
    """Convert 8-bit levels to `dtype`: to 16-bit levels by the factor `step`, or to floats in [0, 1]."""
    if dtype is UINT16:
        return pixels.astype(np.uint16) * np.uint16(step)
    return pixels.astype(np.float32) * np.float32(1 / 255) if dtype is FLOAT else pixels


def _decode_jpeg(data: bytes, attrs: Attrs, window: Tensor | None) -> Tensor:
    channels = attrs["channels"]
    if channels not in (0, 1, 3):
        raise InvalidArgumentError("JPEG does not support 4 channels")
    crop = None if window is None else _window(window)
    try:
        image = _open_image(data, "JPEG")
        ratio = attrs.get("ratio", 1)
        # libjpeg decodes directly to gray, and to images reduced by up to 8
        image.draft("L" if channels == 1 else None, (max(image.width // ratio, 1), max(image.height // ratio, 1)))
        if image.mode == "CMYK" and channels == 1:
            raise ValueError("libjpeg has no gray for it")
        pixels = _as_array(image, {1: "L", 3: "RGB"}.get(channels) or ("L" if image.mode == "L" else "RGB"))
    except (OSError, ValueError, SyntaxError):
        raise InvalidArgumentError(BAD_JPEG) from None
    return pixels if crop is None else _cropped(pixels, crop)


def _window(tensor: Tensor) -> list[int]:
    if tensor.ndim != 1:
        raise InvalidArgumentError(f"crop_window must be 1-D, got shape {shape_text(tensor)}")
    if tensor.size != 4:
        raise InvalidArgumentError(f"crop_size must have four elements {shape_text(tensor)}")
    return [int(number) for number in tensor]


def _cropped(pixels: Tensor, window: Sequence[int]) -> Tensor:
    top, left, height, width = window
    if min(top, left) < 0 or min(height, width) <= 0 or top + height > pixels.shape[0] or left + width > pixels.shape[1]:
        raise InvalidArgumentError(BAD_JPEG)
    return pixels[top : top + height, left : left + width]


def _as_array(image: Any, mode: str) -> Tensor:
    _check_pixels(image)
    converted = image if image.mode == mode else image.convert(mode)
    pixels = np.asarray(converted)
    return pixels.reshape(*pixels.shape[:2], -1)


def _check_pixels(image: Any) -> None:
    """Raise AllocationRefusal before decoding if there is no room, since a small file may declare a huge image."""
    if not current_memory().has_room(image.height * image.width * BYTES_OF_PIXEL):
        raise AllocationRefusal((image.height, image.width, len(image.getbands())), UINT8.name)


def _decode_png(data: bytes, channels: int, dtype: DataType) -> Tensor:
    if len(data) < 33:
        raise InvalidArgumentError("Invalid PNG. Failed to initialize decoder.")
    depth, colour = data[24], data[25]
    if depth == 16 and colour and (dtype is not UINT8 or channels == 1):
        raise UnimplementedError(
            "placesim does not decode PNG files of 16 bits and more than one channel as 16 bits or as gray"
        )
    try:
        if b"IEND" not in data:
            raise ValueError("cut off")
        image = _open_image(data, "PNG")
        pixels = _png_pixels(image, colour, channels)
    except (OSError, ValueError, SyntaxError):
        raise InvalidArgumentError(f"Invalid PNG data, size {len(data)}") from None
    if depth == 16 and not colour:
        pixels = (pixels >> 8).astype(np.uint8) if dtype is UINT8 else pixels.astype(np.uint16)
    # the alpha's full level is that of the file's depth, before libpng expands it to 8 bits
    found = _with_channels(pixels, channels, (1 << min(depth, pixels.dtype.itemsize * 8)) - 1)
    if found.dtype == np.uint16:
        return found if dtype is UINT16 else found.astype(np.float32) * np.float32(1 / 65535)
    return _scaled(found, dtype, 257)


def _decode_bmp(data: bytes, channels: int, op: str) -> Tensor:
    """The pixels of a BMP file. Its rows are padded to four bytes; the last row comes first unless the height is negative."""
    if channels not in (0, 3, 4):
        raise InvalidArgumentError(f"`channels` must be 0, 3 or 4 for BMP, but got {channels}")
    if op not in ("DecodeImage", "DecodeBmp"):
        wanted = "Use `decode_bmp` or `decode_image` instead."
        raise InvalidArgumentError(f"Trying to decode BMP format using a wrong op. {wanted} Op used: {op}")
    if len(data) < 32:
        wanted = "requires at least 32 bytes to find the header size, width, height, and bpp"
        raise InvalidArgumentError(f"Incomplete bmp content, {wanted}, got {len(data)} bytes")
    start, width, height = (int.from_bytes(data[at : at + 4], "little", signed=True) for at in (10, 18, 22))
    found = int.from_bytes(data[28:30], "little") // 8
    if width <= 0:
        raise InvalidArgumentError("Width must be positive")
    if height == 0:
        raise InvalidArgumentError("Height must be nonzero")
    if found not in (1, 3, 4):
        raise InvalidArgumentError(f"Number of channels inherent in the image must be 1, 3 or 4, was {found}")
    row = -(-found * width // 4) * 4
    more = len(data) - start - row * abs(height)
    if start < 0 or more:
        expected = "Input size should match (header_size + row_size * abs_height)"
        raise InvalidArgumentError(f"{expected} but they differ by {more}")
    lines = np.frombuffer(data, np.uint8, row * abs(height), start).reshape(abs(height), row)[:, : width * found]
    pixels = lines.reshape(abs(height), width, found)[:: -1 if height > 0 else 1]
    return _with_channels(pixels[..., [2, 1, 0, 3][:found]] if found > 1 else pixels, channels, 255)


def _decode_webp(data: bytes, channels: int, dtype: DataType) -> Tensor:
    if dtype is not UINT8:
        raise InvalidArgumentError("WebP only supports uint8 for dtype")
    if channels not in (0, 3, 4):
        raise InvalidArgumentError("WebP only supports 3 or 4 channels")
    try:
        image = _open_image(data, "WEBP")
        if channels not in (0, len(image.getbands())):
            raise InvalidArgumentError("Number of channels requested does not match input")
        if getattr(image, "is_animated", False):
            raise UnimplementedError("placesim does not decode animated WebP files")
        return _as_array(image, image.mode)
    except (OSError, ValueError, SyntaxError):
        raise InvalidArgumentError("Failed to decode WebP image.") from None


def _png_pixels(image: Any, colour: int, channels: int) -> Tensor:
    """The pixels with the file's channels: gray, or red, green and blue, each with or without alpha."""
    has_alpha = colour in (4, 6) or ("transparency" in image.info and (channels == 4 or (channels == 0 and colour == PALETTE)))
    if colour in (0, 4):
        if image.mode.startswith("I"):
            _check_pixels(image)
            return np.asarray(image)[..., None].astype(np.int64)
        gray = _as_array(image, "LA" if colour == 4 else "L")
        return gray if colour == 4 or not has_alpha else _as_array(image.convert("RGBA"), "LA")
    return _as_array(image, "RGBA" if has_alpha else "RGB")


def _with_channels(pixels: Tensor, channels: int, opaque: int) -> Tensor:
    """Convert to the requested number of channels.

    Gray is libpng's weighted sum of the colours, the colours of gray pixels are equal, and a missing alpha is `opaque`.
    """
    found = pixels.shape[-1]
    if channels in (0, found):
        return pixels
    colours = pixels[..., :-1] if found in (2, 4) else pixels
    if channels == 1:
        return colours if colours.shape[-1] == 1 else _gray(colours)
    colours = np.repeat(colours, 3, axis=-1) if colours.shape[-1] == 1 else colours
    if channels == 3:
        return colours
    full = np.full((*pixels.shape[:2], 1), opaque, pixels.dtype)
    alpha = pixels[..., -1:] if found in (2, 4) else full
    return np.concatenate((colours, alpha), axis=-1)


def _gray(colours: Tensor) -> Tensor:
    weighed: Tensor = (colours.astype(np.int64) @ np.array(GRAY_WEIGHTS)) >> 15
    # gray pixels keep their level
    is_gray = (colours == colours[..., :1]).all(axis=-1)
    return np.where(is_gray, colours[..., 0], weighed).astype(colours.dtype)[..., None]


def tell_jpeg_shape(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """A JPEG file's bytes, a scalar -> `[3]`: rows, columns, channels.  Raises InvalidArgumentError for an invalid file."""
    if np.ndim(inputs[0]):
        raise InvalidArgumentError(f"contents must be scalar, got shape {shape_text(inputs[0])}")
    (data,) = flat_strings(inputs[0])
    try:
        image = _open_image(data, "JPEG")
    except (OSError, ValueError, SyntaxError):
        raise InvalidArgumentError(f"Invalid JPEG data, size {len(data)}") from None
    return (np.array([image.height, image.width, len(image.getbands())], attrs["output_type"].numpy),)


# --- encoding ---------------------------------------------------------------------------------------------------------


def encode_png(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """`[..., rows, columns, channels]` of 8 or 16 bits -> PNG files `[...]`, with libpng's bytes.

    Raises InvalidArgumentError for another rank or number of channels and for compression out of range, and InternalError for
    an image without pixels.
    """
    level, image = attrs["compression"], inputs[0]
    if not -1 <= level <= 9:
        raise InvalidArgumentError(f"compression should be in [-1,9], got {level}")
    if image.ndim < 3:
        raise InvalidArgumentError(f"images must be at least rank 3{shape_text(image)}")
    if image.shape[-1] not in PNG_COLOURS:
        raise InvalidArgumentError(f"image must have 1, 2, 3, or 4 channels, got {image.shape[-1]}")
    count = prod(image.shape[:-3])
    if 0 in image.shape[-3:]:
        failed = ", ".join(map(str, range(count)))
        raise InternalError(f"PNG encoding failed at the following flattened batch indices: {failed}")
    images = image.reshape(count, *image.shape[-3:])
    return (string_array([png_file(pixels, level) for pixels in images], image.shape[:-3]),)


def encode_jpeg(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """`[rows, columns, 1 or 3]` of 8 bits -> a JPEG file, a scalar, whose bytes differ from TensorFlow's.

    Raises InvalidArgumentError for another rank or number of channels and for a quality out of range, and InternalError for an
    image without pixels.
    """
    quality, form = attrs["quality"], raw(attrs["format"]).decode()
    _check_quality(quality)
    image = _check_image(inputs[0], form)
    options: dict[str, Any] = {
        "progressive": attrs["progressive"],
        "optimize": attrs["optimize_size"],
        "subsampling": 2 if attrs["chroma_downsampling"] else 0,
    }
    if attrs["density_unit"] == "in":
        options["dpi"] = (attrs["x_density"], attrs["y_density"])
    return (_jpeg_file(image, quality, options),)


def encode_jpeg_of_quality(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(`[rows, columns, 1 or 3]` of 8 bits, a scalar quality) -> a JPEG file, a scalar.

    Raises InvalidArgumentError and InternalError like `encode_jpeg`.
    """
    image = _check_image(inputs[0], "")
    if inputs[1].ndim:
        raise InvalidArgumentError(f"quality must be scalar: {shape_text(inputs[1])}")
    _check_quality(int(inputs[1]))
    return (_jpeg_file(image, int(inputs[1]), {"subsampling": 2}),)


def _check_quality(quality: int) -> None:
    if not 0 <= quality <= 100:
        raise InvalidArgumentError(f"quality must be in [0,100], got {quality}")


def _check_image(image: Tensor, form: str) -> Tensor:
    if image.ndim != 3:
        raise InvalidArgumentError(f"image must be 3-dimensional{shape_text(image)}")
    channels = {"grayscale": 1, "rgb": 3}.get(form)
    if channels is not None and image.shape[2] != channels:
        raise InvalidArgumentError(f"format {form} expects {channels} channels, got {shape_text(image)}")
    if image.shape[2] not in (1, 3):
        raise InvalidArgumentError(f"image must have 1 or 3 channels, got {shape_text(image)}")
    return image


def _jpeg_file(image: Tensor, quality: int, options: dict[str, Any]) -> Tensor:
    if 0 in image.shape:
        raise InternalError("JPEG encoding failed")
    written = io.BytesIO()
    pixels = np.ascontiguousarray(image[..., 0] if image.shape[2] == 1 else image)
    _pillow().fromarray(pixels).save(written, "JPEG", quality=quality, **options)
    return string_array([written.getvalue()], ())


# --- shape functions --------------------------------------------------------------------------------------------------


def _infer_decoded(context: ShapeContext) -> Sequence[Dims]:
    with_rank(context.shapes[0], 0)
    channels = context.attrs["channels"]
    if channels < 0:
        raise ShapeError(f"channels must be non-negative, got {channels}")
    # an animation has one dimension more
    if context.attrs.get("expand_animations"):
        return (None,)
    return ((-1, -1, channels or -1),)


def _infer_animation(context: ShapeContext) -> Sequence[Dims]:
    with_rank(context.shapes[0], 0)
    return ((-1, -1, -1, context.attrs["channels"] or -1),)


def _infer_cropped(context: ShapeContext) -> Sequence[Dims]:
    with_rank(context.shapes[0], 0)
    with_value(with_rank(context.shapes[1], 1)[0], 4)
    window = context.value(1)
    rows, columns = (-1, -1) if window is None else map(int, window[2:])
    return ((rows, columns, context.attrs["channels"] or -1),)


def _infer_png_files(context: ShapeContext) -> Sequence[Dims]:
    dims = with_rank_at_least(context.shapes[0], 3)
    return (None if dims is None else dims[:-3],)


TABLE: Table = {
    **{op: Kernel(partial(decode, op=op), _infer_decoded) for op in ("DecodePng", "DecodeJpeg", "DecodeImage", "DecodeBmp")},
    "DecodeWebP": Kernel(partial(decode, op="DecodeWebP"), _infer_animation),
    "DecodeAndCropJpeg": Kernel(decode_and_crop, _infer_cropped),
    "ExtractJpegShape": Kernel(tell_jpeg_shape, infer_by("[] -> [3]")),
    "EncodePng": Kernel(encode_png, _infer_png_files),
    "EncodeJpeg": Kernel(encode_jpeg, infer_by("[?, ?, ?] -> []")),
    "EncodeJpegVariableQuality": Kernel(encode_jpeg_of_quality, infer_by("[?, ?, ?] -> []")),
}
