"""Readers of records from files, whose names are in a queue.

After the last record of a file, a reader dequeues the next file name; if the queue is empty, the op waits.  Source:
TensorFlow's `reader_base.cc`, `reader_ops.cc` and its readers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from placesim.core.dtypes import STRING
from placesim.core.errors import InvalidArgumentError, UnimplementedError
from placesim.core.files.access import FileAccess
from placesim.core.protobuf_wire import WireError, field_values, message_field, number_field
from placesim.ops.attributes import Attrs, c_escape
from placesim.ops.kernels.device_resources import ResourceHandle
from placesim.ops.kernels.kernel import Compute, KernelContext, Table
from placesim.ops.kernels.named_resources import build_finder, makers, name_resource, users
from placesim.ops.kernels.resources.file_access import decompress, file_name, fixed_records, read_bytes, text_lines, tf_records
from placesim.ops.kernels.resources.queue_attempts import DequeueAttempt, attempt
from placesim.ops.kernels.resources.queues import find_queue
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import Dims, ShapeContext, infer_by, with_rank, with_value
from placesim.ops.kernels.string_tensors import flat_strings, string_array

RESOURCE_TYPE = "N10tensorflow15ReaderInterfaceE"

Records = Iterator[tuple[bytes, bytes]]
"""(key, value) of each record."""


class ReaderKind(NamedTuple):
    """A kind of reader: its function to read a file, and whether each file is one record (only then its state can be saved)."""

    name: str
    read: Callable[[FileAccess, str, Attrs], Records]
    is_single: bool = False


@dataclass(slots=True)
class Reader:
    """A reader: the current file (`work`), its remaining records, and counts of started and finished files and of records."""

    kind: ReaderKind
    name: str
    attrs: Attrs
    work: bytes = b""
    started: int = 0
    finished: int = 0
    produced: int = 0
    records: Records | None = None

    @property
    def is_working(self) -> bool:
        """Whether the current file is not finished."""
        return self.finished != self.started

    def start(self, work: bytes, files: FileAccess) -> None:
        """Open a file. Raises the system's error as TensorFlow's (NotFoundError, ...)."""
        self.work = work
        self.records = self.kind.read(files, file_name(work), self.attrs)
        self.started += 1

    def next_record(self) -> tuple[bytes, bytes] | None:
        """Next record of the current file; None at its end."""
        found = None if self.records is None else next(self.records, None)
        # a file of one record is finished after it, other files only if no further record is found
        if found is None or self.kind.is_single:
            self.finished = self.started
        self.produced += found is not None
        return found

    def reset(self) -> None:
        """Drop the current file and all counts."""
        self.work, self.started, self.finished, self.produced, self.records = b"", 0, 0, 0, None


find_reader: Callable[[Any, KernelContext], Reader] = build_finder(RESOURCE_TYPE)


# --- kinds ----------------------------------------------------------------------------------------------------------


def _numbered(name: str, records: Iterator[bytes], first: int) -> Records:
    for number, record in enumerate(records, first):
        yield os.fsencode(f"{name}:{number}"), record


def _read_whole(files: FileAccess, name: str, attrs: Attrs) -> Records:
    return iter([(os.fsencode(name), read_bytes(files, name))])


def _read_name(files: FileAccess, name: str, attrs: Attrs) -> Records:
    return iter([(os.fsencode(name), os.fsencode(name))])


def _read_lines(files: FileAccess, name: str, attrs: Attrs) -> Records:
    # line numbers start at 1, and include skipped lines
    skipped = attrs["skip_header_lines"]
    return _numbered(name, iter(text_lines(read_bytes(files, name))[skipped:]), skipped + 1)


def _read_fixed(files: FileAccess, name: str, attrs: Attrs) -> Records:
    data = decompress(read_bytes(files, name), attrs.get("encoding", ""))
    sizes = (attrs["header_bytes"], attrs["record_bytes"], attrs["footer_bytes"], attrs["hop_bytes"])
    return _numbered(name, fixed_records(data, *sizes), 0)


def _read_tf_records(files: FileAccess, name: str, attrs: Attrs) -> Records:
    data = decompress(read_bytes(files, name), attrs["compression_type"])
    return ((os.fsencode(f"{name}:{offset}"), record) for offset, record in tf_records(data))


WHOLE_FILES = ReaderKind("WholeFileReader", _read_whole, is_single=True)
IDENTITIES = ReaderKind("IdentityReader", _read_name, is_single=True)
TEXT_LINES = ReaderKind("TextLineReader", _read_lines)
FIXED_RECORDS = ReaderKind("FixedLengthRecordReader", _read_fixed)
TF_RECORDS = ReaderKind("TFRecordReader", _read_tf_records)


def build_reader(kind: ReaderKind) -> Callable[..., ResourceHandle]:
    """Build a function `(inputs, attrs, context) -> handle` that finds the shared reader or creates it.

    It raises InvalidArgumentError for negative attrs.
    """

    def make(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ResourceHandle:
        for name in ("skip_header_lines", "header_bytes", "record_bytes", "footer_bytes", "hop_bytes"):
            if attrs.get(name, 0) < 0:
                raise InvalidArgumentError(f"{name} must be >= 0 not {attrs[name]}")
        handle = name_resource(attrs, context, RESOURCE_TYPE)
        context.resources.lookup_or_create(handle, lambda: Reader(kind, context.node, attrs))
        return handle

    return make


# --- reading --------------------------------------------------------------------------------------------------------


def _next_work(inputs: Sequence[Any], context: KernelContext) -> bytes:
    queue = find_queue(inputs[1], context)
    taken = attempt(queue, context, inputs, lambda: DequeueAttempt(1, is_batch=False))[0]
    if len(taken) != 1:
        raise InvalidArgumentError("Expected single component queue")
    if queue.dtypes[0] is not STRING:
        raise InvalidArgumentError("Expected queue with single string component")
    strings = flat_strings(taken[0])
    if len(strings) != 1:
        raise InvalidArgumentError("Expected to dequeue a one-element string tensor")
    return strings[0]


def _next_record(reader: Reader, inputs: Sequence[Any], context: KernelContext) -> tuple[bytes, bytes]:
    while True:
        if not reader.is_working:
            reader.start(_next_work(inputs, context), context.files)
        found = reader.next_record()
        if found is not None:
            return found


def read(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(reader, queue) -> the key and the value of the next record, scalars.

    Raises OutOfRangeError if the queue is closed and has no name left, InvalidArgumentError if its elements are not single
    strings, and NotFoundError or similar for a file that cannot be read.
    """
    key, value = _next_record(find_reader(inputs[0], context), inputs, context)
    return string_array([key], ()), string_array([value], ())


def read_up_to(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(reader, queue, n) -> the keys and values of the next records of one file, at most n, both `[records]`.

    Raises the same errors as `read`, and InvalidArgumentError for a number that is not a scalar.
    """
    # TensorFlow crashes
    if np.size(inputs[2]) != 1:
        raise InvalidArgumentError(f"num_records must be a scalar, but had shape: {shape_text(inputs[2])}")
    reader, count = find_reader(inputs[0], context), int(np.asarray(inputs[2]).item())
    # the op waits for a file only for the first record
    found: list[tuple[bytes, bytes]] = []
    if count > 0:
        found.append(_next_record(reader, inputs, context))
    while len(found) < count and reader.is_working:
        record = reader.next_record()
        if record is None:
            break
        found.append(record)
    keys, values = [key for key, _ in found], [value for _, value in found]
    return string_array(keys, (len(keys),)), string_array(values, (len(values),))


# --- state ----------------------------------------------------------------------------------------------------------


def tell_produced(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """reader -> the number of records so far, a scalar."""
    return (np.int64(find_reader(inputs[0], context).produced),)


def tell_finished(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """reader -> the number of finished files, a scalar."""
    return (np.int64(find_reader(inputs[0], context).finished),)


def reset(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """reader -> nothing: drop its current file and all counts."""
    find_reader(inputs[0], context).reset()
    return ()


def save_state(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """reader -> its counts and current file as a `ReaderBaseState` message, a scalar string.

    Raises UnimplementedError for readers of files with many records.
    """
    reader = find_reader(inputs[0], context)
    if not reader.kind.is_single:
        raise UnimplementedError("Reader SerializeState")
    counts = (reader.started, reader.finished, reader.produced)
    data = b"".join(number_field(field, count) for field, count in enumerate(counts, 1))
    return (string_array([data + (message_field(4, reader.work) if reader.work else b"")], ()),)


def restore_state(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(reader, state) -> nothing: restore counts and current file from the result of `save_state`.

    Raises InvalidArgumentError for a state that is not a scalar or not such a message, and UnimplementedError for readers of
    files with many records.
    """
    if np.ndim(inputs[1]):
        raise InvalidArgumentError(f"Reader state must be scalar, but had shape: {shape_text(inputs[1])}")
    reader, state = find_reader(inputs[0], context), flat_strings(inputs[1])[0]
    # as in TensorFlow, reset also if the state cannot be restored
    reader.reset()
    if not reader.kind.is_single:
        raise UnimplementedError("Reader RestoreState")
    try:
        fields = dict(field_values(state))
    except WireError:
        name = f"{reader.kind.name} '{reader.name}'"
        raise InvalidArgumentError(f"Could not parse state for {name}: {c_escape(state)}") from None
    numbers = [value if isinstance(value, int) else 0 for value in (fields.get(field, 0) for field in (1, 2, 3))]
    reader.started, reader.finished, reader.produced = numbers
    work = fields.get(4, b"")
    reader.work = work if isinstance(work, bytes) else b""
    return ()


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_use(
    context: ShapeContext, is_strings: bool, outputs: tuple[Dims, ...] = (), handles: int = 1, scalars: int = 0
) -> Sequence[Dims]:
    """Return these outputs. Raises ShapeError unless the inputs are handles (strings `[2]` if `is_strings`), then scalars."""
    for index in range(handles + scalars):
        is_pair = is_strings and index < handles
        dims = with_rank(context.shapes[index], 1 if is_pair else 0)
        # ReaderReadUpTo does not check the number of strings
        if is_pair and not scalars:
            with_value(dims[0], 2)
    return outputs


def _users(
    older: str,
    newer: str,
    compute: Compute,
    outputs: tuple[Dims, ...] = (),
    handles: int = 1,
    scalars: int = 0,
    may_wait: bool = False,
) -> Table:
    """Kernels of an op in its older version, with handles as strings, and in its newer version."""
    by_strings, by_handles = (
        partial(_infer_use, is_strings=is_strings, outputs=outputs, handles=handles, scalars=scalars)
        for is_strings in (True, False)
    )
    return users(older, newer, compute, by_strings, by_handles, may_wait)


TABLE: Table = {
    **makers("WholeFileReader", "WholeFileReaderV2", build_reader(WHOLE_FILES)),
    **makers("TextLineReader", "TextLineReaderV2", build_reader(TEXT_LINES)),
    **makers("FixedLengthRecordReader", "FixedLengthRecordReaderV2", build_reader(FIXED_RECORDS)),
    **makers("TFRecordReader", "TFRecordReaderV2", build_reader(TF_RECORDS)),
    **makers("IdentityReader", "IdentityReaderV2", build_reader(IDENTITIES)),
    **_users("ReaderRead", "ReaderReadV2", read, outputs=((), ()), handles=2, may_wait=True),
    **_users("ReaderReadUpTo", "ReaderReadUpToV2", read_up_to, outputs=((-1,), (-1,)), handles=2, scalars=1, may_wait=True),
    **_users("ReaderNumRecordsProduced", "ReaderNumRecordsProducedV2", tell_produced, outputs=((),)),
    **_users("ReaderNumWorkUnitsCompleted", "ReaderNumWorkUnitsCompletedV2", tell_finished, outputs=((),)),
    **_users("ReaderReset", "ReaderResetV2", reset),
    **_users("ReaderSerializeState", "ReaderSerializeStateV2", save_state, outputs=((),)),
    **users(
        "ReaderRestoreState",
        "ReaderRestoreStateV2",
        restore_state,
        infer_by("[2], [] ->"),
        partial(_infer_use, is_strings=False, scalars=1),
    ),
}
