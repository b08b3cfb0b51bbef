"""Protocol buffers' wire format by hand: what is written is what is read, and what is broken is refused."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.core.protobuf_wire import (
    BYTES,
    VARINT,
    WireError,
    field_values,
    fields,
    fixed_field,
    last_message,
    message_field,
    number_field,
    read_varint,
    read_varints,
    take_run,
    to_signed,
    write_varint,
)

VALUES = st.integers(0, (1 << 64) - 1)
NUMBERS = st.integers(1, (1 << 29) - 1)


@given(st.lists(VALUES))
def test_numbers_come_back(values: list[int]) -> None:
    data = b"".join(map(write_varint, values))
    assert read_varints(data, len(values)) == (values, len(data))


@pytest.mark.slow
@given(NUMBERS, st.integers(-(1 << 63), (1 << 63) - 1), st.binary(max_size=300))
def test_fields_come_back(number: int, value: int, content: bytes) -> None:
    data = number_field(number, value, is_written=True) + message_field(number, content) + fixed_field(number, b"abcd")
    first, second, third = field_values(data)
    assert to_signed(int(first[1])) == value
    assert (second, third) == ((number, content), (number, b"abcd"))
    assert [field.wire_type for field in fields(data)] == [VARINT, BYTES, 5]
    assert b"".join(data[field.start : field.end] for field in fields(memoryview(data))) == data


def test_a_default_is_not_written() -> None:
    assert number_field(3, 0) == b""


BROKEN = {
    b"\x80": "truncated at byte 1",
    b"\xff" * 11: "unterminated number at byte 0",
    b"\x00": "invalid field number 0 at byte 0",
    b"\x0b": "invalid wire type 3 at byte 0",
    b"\x0a\x05ab": "truncated: field 1 at byte 0 ends at byte 7, past the end at 4",
    b"\x0d\x01": "truncated: field 1 at byte 0 ends at byte 5, past the end at 2",
}


@pytest.mark.parametrize("data", BROKEN)
def test_what_is_broken_is_refused(data: bytes) -> None:
    with pytest.raises(WireError) as caught:
        list(fields(data))
    assert str(caught.value) == BROKEN[data]


def test_a_number_is_of_64_bits() -> None:
    assert read_varint(b"\xff" * 9 + b"\x7f", 0, 10) == ((1 << 64) - 1, 10)


def test_a_run_of_one_field() -> None:
    data = message_field(1, b"a") + message_field(1, b"b" * 200) + message_field(2, b"c")
    spans: array[int] = array("q")
    position = take_run(data, 1, 0, len(data), spans)
    assert [data[start:end] for start, end in zip(spans[::2], spans[1::2], strict=True)] == [b"a", b"b" * 200]
    found = last_message(data, 2)
    assert found is not None
    assert (found.start, found.value_start) == (position, position + 2)
