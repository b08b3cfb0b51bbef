"""`tf.TextLineReader` and the other readers, which read records of files named by a queue."""

from __future__ import annotations

from typing import Any

from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.queues.queues import QueueBase
from placesim.tf1.types.read_only import read_only


class ReaderBase:
    """A reader: `read` returns the next record with its key."""

    def __init__(self, reader_ref: Tensor, supports_serialize: bool = False) -> None:
        self._reader_ref = reader_ref
        self._supports_serialize = supports_serialize

    reader_ref: Tensor = read_only("_reader_ref")
    supports_serialize: bool = read_only("_supports_serialize")

    def read(self, queue: object, name: str | None = None) -> Any:
        """Key and value of the next record."""
        return gen("ReaderReadV2")(self._reader_ref, _handle(queue), name=name)

    def read_up_to(self, queue: object, num_records: object, name: str | None = None) -> Any:
        """Keys and values of `num_records` records, or fewer."""
        return gen("ReaderReadUpToV2")(self._reader_ref, _handle(queue), num_records, name=name)

    def num_records_produced(self, name: str | None = None) -> Any:
        """Number of records produced."""
        return gen("ReaderNumRecordsProducedV2")(self._reader_ref, name=name)

    def num_work_units_completed(self, name: str | None = None) -> Any:
        """Number of completed files."""
        return gen("ReaderNumWorkUnitsCompletedV2")(self._reader_ref, name=name)

    def serialize_state(self, name: str | None = None) -> Any:
        """The state as a string."""
        return gen("ReaderSerializeStateV2")(self._reader_ref, name=name)

    def restore_state(self, state: object, name: str | None = None) -> Any:
        """Restore a saved position."""
        return gen("ReaderRestoreStateV2")(self._reader_ref, state, name=name)

    def reset(self, name: str | None = None) -> Any:
        """Make an op that resets the reader to its start."""
        return gen("ReaderResetV2")(self._reader_ref, name=name)


def _handle(queue: object) -> Any:
    return queue.queue_ref if isinstance(queue, QueueBase) else queue


class WholeFileReader(ReaderBase):
    """Reader of whole files; the key is the name."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(gen("WholeFileReaderV2")(name=name), supports_serialize=True)


class TextLineReader(ReaderBase):
    """Reader of lines, without line breaks."""

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None) -> None:
        super().__init__(gen("TextLineReaderV2")(skip_header_lines=skip_header_lines, name=name))


class FixedLengthRecordReader(ReaderBase):
    """Reader of records of equal length."""

    def __init__(
        self,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        hop_bytes: int | None = None,
        name: str | None = None,
        encoding: str | None = None,
    ) -> None:
        made = gen("FixedLengthRecordReaderV2")(
            record_bytes=record_bytes,
            header_bytes=header_bytes,
            footer_bytes=footer_bytes,
            hop_bytes=hop_bytes,
            encoding=encoding,
            name=name,
        )
        super().__init__(made)


class TFRecordReader(ReaderBase):
    """Reader of the records of TFRecord files."""

    def __init__(self, name: str | None = None, options: Any = None) -> None:
        from placesim.tf1.files.records import compression_of

        super().__init__(gen("TFRecordReaderV2")(name=name, compression_type=compression_of(options)))


class IdentityReader(ReaderBase):
    """Reader whose keys and values are the queue's items."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(gen("IdentityReaderV2")(name=name), supports_serialize=True)
