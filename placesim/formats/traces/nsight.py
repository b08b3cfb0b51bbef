"""Reader of an SQLite export of Nsight Systems: kernels and copies, and the NVTX ranges of the ops that launched them.

TensorFlow names a range `MatMul: tower/hidden`, or with details `{"op":"MatMul","name":"tower/hidden",...}`. A kernel belongs
to the innermost range around its launch on the launching thread. The file is opened for reading only, and its schema is not
trusted.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Set
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from placesim.formats.traces.not_measured import NotMeasuredError
from placesim.formats.traces.run_names import named_run
from placesim.machine.timelines.measured_steps import COPY, HOST, KERNEL, MeasuredRun, Measurement, divide_by_repetition

MAX_ROWS = 5_000_000
"""Maximum number of rows of a table: a recording of some minutes."""
_NANO = 1e-9
_KERNELS, _COPIES = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"
_CALLS, _RANGES, _STRINGS = "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "StringIds"
_NEEDED = {
    _KERNELS: ("start", "end", "correlationId"),
    _CALLS: ("start", "correlationId", "globalTid"),
    _RANGES: ("start", "end", "globalTid", "text"),
}
"""Columns that the reader needs, by table."""
_NAME = re.compile(r"(?P<op>[A-Za-z_][\w>]*): (?P<name>[A-Za-z0-9_.][A-Za-z0-9_.\\/>-]*)")
_DETAILED = re.compile(r'\{"op":"(?P<op>[^"]+)","name":"(?P<name>[^"]+)"')
_PROCESS = "({} >> 24)"
"""The process of a serialised thread or process id, whose lowest 24 bits are the thread's."""
_ADVICE = "record with TF_ENABLE_NVTX_RANGES=1 and `nsys profile --trace=cuda,nvtx`"


class _Range(NamedTuple):
    thread: int
    start: int
    end: int
    op: str
    name: str


class _Launch(NamedTuple):
    """A kernel or copy: the thread and time of its launch, its kind, and its own start and end."""

    thread: int
    time: int
    kind: str
    start: int
    end: int


def read_nsight(path: Path) -> Measurement:
    """Read the runs of an export. Raises NotMeasuredError for another database, and for one without ranges of ops."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.text_factory = lambda data: data.decode("utf-8", "replace")
            database.execute("PRAGMA trusted_schema = OFF")
            ranges, launches = _read(database)
    except (sqlite3.Error, OverflowError) as error:
        raise NotMeasuredError(
            f"got an SQLite file that can't be read ({error}), expected an export of Nsight Systems"
        ) from None
    return Measurement("an export of Nsight Systems", divide_by_repetition(_runs(ranges, launches)))


def _read(database: sqlite3.Connection) -> tuple[list[_Range], list[_Launch]]:
    # views and virtual tables may run anything, so only ordinary tables count
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0")}
    columns = {
        name: {row[1] for row in database.execute(f"PRAGMA table_info({name})")} if name in tables else frozenset()
        for name in (*_NEEDED, _COPIES, _STRINGS)
    }
    for table, wanted in _NEEDED.items():
        lacking = [f"{table}.{name}" for name in wanted if name not in columns[table]] if table in tables else [table]
        if lacking:
            raise NotMeasuredError(
                f"got an SQLite file without {', '.join(lacking)}, expected an export of Nsight Systems; {_ADVICE}"
            )
    has_strings = {"id", "value"} <= columns[_STRINGS] and "textId" in columns[_RANGES]
    text = "coalesce(r.text, s.value)" if has_strings else "r.text"
    join = f" LEFT JOIN {_STRINGS} s ON s.id = r.textId" if has_strings else ""
    found = _rows(database, f"SELECT r.globalTid, r.start, r.end, {text} FROM {_RANGES} r{join} WHERE r.end IS NOT NULL")
    ranges = [_Range(thread, start, end, *name) for thread, start, end, text in found if (name := _split(text))]
    if not ranges:
        raise NotMeasuredError(
            f"got no NVTX ranges of TensorFlow's ops, expected ranges such as 'MatMul: dense/MatMul'; {_ADVICE}"
        )
    launches = [
        launch
        for table, kind in ((_KERNELS, KERNEL), (_COPIES, COPY))
        if set(_NEEDED[_KERNELS]) <= columns[table]
        for launch in _launches(database, table, kind, columns[table])
    ]
    return ranges, launches


def _launches(database: sqlite3.Connection, table: str, kind: str, columns: Set[str]) -> Iterator[_Launch]:
    """Yield the kernels or copies of a table, with the call that launched each. Calls have unique numbers in a process."""
    join = f"JOIN {_CALLS} c ON c.correlationId = k.correlationId"
    if "globalPid" in columns:
        join += f" AND {_PROCESS.format('c.globalTid')} = {_PROCESS.format('k.globalPid')}"
    for thread, time, start, end in _rows(database, f"SELECT c.globalTid, c.start, k.start, k.end FROM {table} k {join}"):
        yield _Launch(thread, time, kind, start, end)


def _rows(database: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    """Yield rows whose first three columns are whole numbers; other rows are left out."""
    for number, row in enumerate(database.execute(query)):
        if number == MAX_ROWS:
            raise NotMeasuredError(f"got more than {MAX_ROWS:,} rows, expected a shorter recording")
        if all(isinstance(value, int) for value in row[:3]) and isinstance(row[3], int | str):
            yield row


def _split(text: object) -> tuple[str, str] | None:
    found = (_NAME.fullmatch(text) or _DETAILED.match(text)) if isinstance(text, str) else None
    return None if found is None else (found["op"], found["name"])


def _runs(ranges: list[_Range], launches: Iterable[_Launch]) -> Iterator[MeasuredRun]:
    """Yield the ranges as runs on the host, and the kernels and copies under the names of their ranges."""
    for found in ranges:
        yield _run(HOST, found, found.start, found.end)
    ordered = sorted(ranges, key=lambda found: (found.thread, found.start, -found.end))
    position, open_ranges = 0, list[_Range]()
    for launch in sorted(launches):
        while position < len(ordered) and ordered[position][:2] <= launch[:2]:
            open_ranges.append(ordered[position])
            position += 1
        while open_ranges and (open_ranges[-1].thread != launch.thread or open_ranges[-1].end < launch.time):
            open_ranges.pop()
        if open_ranges:
            yield _run(launch.kind, open_ranges[-1], launch.start, launch.end)


def _run(kind: str, found: _Range, start: int, end: int) -> MeasuredRun:
    return named_run(kind, found.name, found.op, start * _NANO, max(0, end - start) * _NANO)
