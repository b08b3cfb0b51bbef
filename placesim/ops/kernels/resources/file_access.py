"""File access of kernels: reads and writes with TensorFlow's errors, decompression, and splitting into records.

Source: TensorFlow's `posix_file_system.cc`, `record_reader.cc`, `inputbuffer.cc`.
"""

from __future__ import annotations

import errno
import glob
import itertools
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from placesim.core.checkpoints.crc32c import crc32c, unmask
from placesim.core.errors import DataLossError
from placesim.core.files.access import FileAccess
from placesim.core.files.reader import read_file
from placesim.core.files.writer import write_whole
from placesim.ops.kernels.file_errors import file_error
from placesim.ops.process.memory_limit import ELEMENT_BYTES, GrowingText, check_text

DEFLATED_BYTES, INFLATED_BYTES = 1 << 16, 1 << 20
"""Compressed and decompressed bytes per piece, since the decompressed size is unknown beforehand."""
LENGTH_BYTES, CHECKSUM_BYTES = 8, 4
"""Sizes of the length and the checksums of a record in a TFRecord file."""


def file_name(name: bytes) -> str:
    """Decode a file's name, which may be any bytes."""
    return os.fsdecode(name)


def _located(decide: Callable[[str], Path], name: str) -> Path:
    if not name:  # `Path` would take an empty name as the current directory
        raise file_error(name, OSError(errno.ENOENT, ""))
    return decide(name)


def read_bytes(files: FileAccess, name: str) -> bytes:
    """All bytes of a file.

    Raises PermissionDeniedError if the graph may not read it, and the system's error as TensorFlow's (NotFoundError, ...).
    """
    path = _located(files.readable, name)
    try:
        check_text(path.stat().st_size)
        return read_file(path)
    except OSError as error:
        raise file_error(name, error) from None


def write_bytes(files: FileAccess, name: str, data: bytes) -> None:
    """Write a whole file, and create missing directories.  Raises the same errors as `read_bytes`."""
    path = _located(files.writable, name)
    try:
        write_whole(path, data, makes_folders=True)
    except OSError as error:
        raise file_error(name, error) from None


def append_bytes(files: FileAccess, name: str, data: bytes) -> None:
    """Append to a file, creating it if needed.  Raises the same errors as `read_bytes`."""
    path = _located(files.writable, name)
    try:
        with path.open("ab") as file:
            file.write(data)
    except OSError as error:
        raise file_error(name, error) from None


def matching_paths(files: FileAccess, pattern: str) -> list[str]:
    """Sorted names of files that match a pattern. `*`, `?` and `[...]` do not match `/`; a `..` after them matches nothing.

    Raises PermissionDeniedError if the pattern begins in, or leads to, a folder that the graph may not read.
    """
    parts = Path(pattern).parts
    start = tuple(itertools.takewhile(lambda part: not glob.has_magic(part), parts))
    files.readable(Path(*start) if glob.has_magic(pattern) else Path(*start).parent)
    if ".." in parts[len(start) :]:
        return []
    found: list[str] = []
    growing = GrowingText()
    try:
        for name in glob.iglob(anchored(pattern), include_hidden=True):  # links to a parent folder make any number of paths
            growing.add(len(name) + ELEMENT_BYTES)
            found.append(name)
    except (OSError, ValueError):
        return []
    found.sort()
    for folder in {os.path.dirname(name) for name in found}:
        files.readable(folder)
    return found


def anchored(pattern: str) -> str:
    """Return a pattern that begins with `./` if its first folder already has wildcards, as TensorFlow's matching paths do."""
    return f"./{pattern}" if glob.has_magic(pattern.partition("/")[0]) else pattern


def decompress(data: bytes, kind: str) -> bytes:
    """Decompress `GZIP` or `ZLIB` data; return data of another kind unchanged. Raises DataLossError for invalid data."""
    if kind not in ("GZIP", "ZLIB"):
        return data
    found, view, at = bytearray(), memoryview(data), 0
    growing = GrowingText()
    # a file may consist of several compressed streams
    while at < len(data):
        stream = zlib.decompressobj(zlib.MAX_WBITS | (16 if kind == "GZIP" else 0))
        is_full = False
        while not stream.eof and (at < len(data) or stream.unconsumed_tail or is_full):
            given: bytes | memoryview = stream.unconsumed_tail
            if not given and not is_full:
                given = view[at : at + DEFLATED_BYTES]
                at += len(given)
            try:
                piece = stream.decompress(given, INFLATED_BYTES)
            except zlib.error as error:
                raise DataLossError(f"inflate() failed with error -3: {error}") from None
            is_full = len(piece) == INFLATED_BYTES
            growing.add(len(piece))
            found += piece
        at -= len(stream.unused_data)
    return bytes(found)


# --- records --------------------------------------------------------------------------------------------------------


def text_lines(data: bytes) -> list[bytes]:
    """The lines of a text, without line ends."""
    # like TensorFlow, drop each carriage return, not only those at a line's end
    lines = data.replace(b"\r", b"").split(b"\n")
    return lines if lines[-1] else lines[:-1]


def fixed_records(data: bytes, header: int, size: int, footer: int, hop: int = 0) -> Iterator[bytes]:
    """Yield records of `size` bytes, `hop` bytes apart (0: contiguous), between a header and a footer of these sizes."""
    at = header
    while size and at + size + footer <= len(data):
        yield data[at : at + size]
        at += hop or size


def tf_records(data: bytes, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, record) of a TFRecord file, from offset `start` on. Raises DataLossError if it is truncated or corrupted.

    A record consists of its length, the length's masked checksum, the data, and the data's masked checksum.
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
    # if the first record is wrong, the file may have another format
    hint = " (Is this even a TFRecord file?)" if at == 0 else ""
    end = at + size
    if end + CHECKSUM_BYTES > len(data):
        raise DataLossError(f"truncated record at {at}{hint}")
    found = data[at:end]
    if unmask(struct.unpack("<I", data[end : end + CHECKSUM_BYTES])[0]) != crc32c(found):
        raise DataLossError(f"corrupted record at {at}{hint}")
    return found
