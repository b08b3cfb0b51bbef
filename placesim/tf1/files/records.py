"""`tf.python_io`: write and read TFRecord files in Python."""

from __future__ import annotations

import enum
import os
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from placesim.core.checkpoints.crc32c import crc32c, mask
from placesim.tf1 import errors
from placesim.tf1.files.gfile import StrPath


class TFRecordCompressionType(enum.IntEnum):
    """Compression type of a file."""

    NONE = 0
    ZLIB = 1
    GZIP = 2


_TEXTS = {TFRecordCompressionType.NONE: "", TFRecordCompressionType.ZLIB: "ZLIB", TFRecordCompressionType.GZIP: "GZIP"}


class TFRecordOptions:
    """Options to write and read a file."""

    compression_type_map = _TEXTS

    def __init__(
        self,
        compression_type: Any = None,
        flush_mode: int | None = None,
        input_buffer_size: int | None = None,
        output_buffer_size: int | None = None,
        window_bits: int | None = None,
        compression_level: int | None = None,
        compression_method: object = None,
        mem_level: object = None,
        compression_strategy: object = None,
    ) -> None:
        self.get_compression_type_string(compression_type)  # raises ValueError for an invalid one
        self.compression_type = compression_type
        self.window_bits, self.compression_level = window_bits, compression_level

    @classmethod
    def get_compression_type_string(cls, options: object) -> str:
        """The name of a compression, given as options, a type or a name.  Raises ValueError for an invalid compression."""
        if not options:
            return ""
        if isinstance(options, TFRecordOptions):
            return cls.get_compression_type_string(options.compression_type)
        if isinstance(options, TFRecordCompressionType):
            return _TEXTS[options]
        if options in _TEXTS.values():
            return str(options)
        raise ValueError(f'Not a valid compression_type: "{options}"')


def compression_of(options: object) -> str:
    """The name of a compression, given as options, a type or a name."""
    return TFRecordOptions.get_compression_type_string(options)


class TFRecordWriter:
    """Writes records to a file."""

    def __init__(self, path: StrPath, options: Any = None) -> None:
        if not isinstance(options, TFRecordOptions):
            options = TFRecordOptions(compression_type=options)
        kind = compression_of(options)
        try:
            self._file = open(os.fspath(path), "wb")  # noqa: SIM115 - closed by `close`
        except OSError as error:
            raise errors.NotFoundError(None, None, f"{path}; {os.strerror(error.errno or 0)}") from None
        level = -1 if options.compression_level is None else options.compression_level
        self._deflate = zlib.compressobj(level, wbits=31 if kind == "GZIP" else 15) if kind else None

    def write(self, record: bytes) -> None:
        """Write one record."""
        data = framed_record(record.encode() if isinstance(record, str) else bytes(record))
        self._file.write(data if self._deflate is None else self._deflate.compress(data))

    def flush(self) -> None:
        """Write buffered records."""
        if self._deflate is not None:
            self._file.write(self._deflate.flush(zlib.Z_SYNC_FLUSH))
        self._file.flush()

    def close(self) -> None:
        """Finish the file."""
        if self._file.closed:
            return
        if self._deflate is not None:
            self._file.write(self._deflate.flush())
        self._file.close()

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()


def framed_record(data: bytes) -> bytes:
    """Encode a record of a TFRecord file."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", mask(crc32c(length))) + data + struct.pack("<I", mask(crc32c(data)))


def tf_record_iterator(path: StrPath, options: object = None) -> Iterator[bytes]:
    """Records of a file.  Raises NotFoundError for a missing file, DataLossError for a broken one."""
    from placesim.core.errors import PlacesimError
    from placesim.ops.kernels.resources.file_access import decompress, tf_records

    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            data = file.read()
    except OSError as error:
        raise errors.NotFoundError(None, None, f"{name}; {os.strerror(error.errno or 0)}") from None
    try:
        for _, record in tf_records(decompress(data, compression_of(options))):
            yield record
    except PlacesimError as error:
        raise errors.DataLossError(None, None, str(error)) from None
