"""Files as kernels read and write them: whole, with the system's errors as TensorFlow's, decompressed, cut into records.

Source: TensorFlow's `posix_file_system.cc`, `record_reader.cc`, `inputbuffer.cc`.
"""

from __future__ import annotations

import glob
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from placesim.checkpoints.crc32c import crc32c, unmask
from placesim.errors import (
    DataLossError,
)
from placesim.runtime.kernels.file_errors import file_error

LENGTH_BYTES, CHECKSUM_BYTES = 8, 4
"""Of a record's head."""


def read_bytes(name: str) -> bytes:
    """All bytes of a file; what the system says where it cannot be read (`file_error`: NotFoundError, ...)."""
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise file_error(name, error) from None


def write_bytes(name: str, data: bytes) -> None:
    """Write a whole file; directories on the way are made.  Raises what the system says where it cannot be (`file_error`)."""
    try:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(data)
    except OSError as error:
        raise file_error(name, error) from None


def matching_paths(pattern: str) -> list[str]:
    """The files that fit a pattern of `*`, `?` and `[...]`, which never stand for a `/`."""
    return sorted(glob.glob(pattern, include_hidden=True))


def decompress(data: bytes, kind: str) -> bytes:
    """What `GZIP` or `ZLIB` compressed; anything else is as it is.  DataLossError for bytes that are not so compressed."""
    if kind not in ("GZIP", "ZLIB"):
        return data
    found = b""
    # streams may stand one behind the other
    while data:
        stream = zlib.decompressobj(zlib.MAX_WBITS | (16 if kind == "GZIP" else 0))
        try:
            found += stream.decompress(data)
        except zlib.error as error:
            raise DataLossError(f"inflate() failed with error -3: {error}") from None
        data = stream.unused_data
    return found


# --- records --------------------------------------------------------------------------------------------------------


def text_lines(data: bytes) -> list[bytes]:
    """The lines of a text, without their ends."""
    # every carriage return is dropped, not only those before a line's end
    lines = data.replace(b"\r", b"").split(b"\n")
    return lines if lines[-1] else lines[:-1]


def fixed_records(data: bytes, header: int, size: int, footer: int, hop: int = 0) -> Iterator[bytes]:
    """Records of `size` bytes, `hop` bytes apart (0: one behind the other), with that many bytes before and behind them all."""
    at = header
    while size and at + size + footer <= len(data):
        yield data[at : at + size]
        at += hop or size


def tf_records(data: bytes, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """The records of a TFRecord file with their offsets; DataLossError where it is cut off or damaged.

    A record is its length, that length's masked checksum, the bytes, and their masked checksum.
    """
    at = start
    while at < len(data):
        head = _checked(data, at, LENGTH_BYTES)
        size: int = struct.unpack("<Q", head)[0]
        begin = at + LENGTH_BYTES + CHECKSUM_BYTES
        if begin >= len(data):
            raise DataLossError(f"truncated record at {at}' failed with eof")
        yield at, _checked(data, begin, size)
        at = begin + size + CHECKSUM_BYTES


def _checked(data: bytes, at: int, size: int) -> bytes:
    # only the first record can tell that it is no such file
    hint = " (Is this even a TFRecord file?)" if at == 0 else ""
    end = at + size
    if end + CHECKSUM_BYTES > len(data):
        raise DataLossError(f"truncated record at {at}{hint}")
    found = data[at:end]
    if unmask(struct.unpack("<I", data[end : end + CHECKSUM_BYTES])[0]) != crc32c(found):
        raise DataLossError(f"corrupted record at {at}{hint}")
    return found
