"""Readers of measurements: recordings of TensorFlow 2.21, and files in the forms that only machines with GPUs write."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from placesim.core.errors import UsageError
from placesim.formats.tensorflow.messages import message_class, serialise, to_text
from placesim.formats.traces import nsight, reader
from placesim.formats.traces.reader import read_measurement
from placesim.machine.timelines.measured_steps import COPY, HOST, KERNEL, TRANSFER, MeasuredRun, Measurement
from tests.processes import ROOT

TRACES = ROOT / "tests/data/traces"
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"


def names_by_kind(found: Measurement) -> dict[str, dict[str, str]]:
    """The op of each name, by kind of run."""
    kinds: dict[str, dict[str, str]] = {}
    for step in found.steps:
        for run in step.runs:
            kinds.setdefault(run.kind, {})[run.name] = run.op
    return kinds


@pytest.mark.parametrize(
    ("name", "format", "steps", "ops"),
    [
        ("cifar10-towers.run-metadata.pb.gz", "a RunMetadata", 1, {"tower/relu1": "_FusedConv2D", "_arg_images_0_0": "_Arg"}),
        ("model-parallel.run-metadata.pbtxt.gz", "a RunMetadata", 1, {"train/beta1": "Const", "beta1_power/read": "Identity"}),
        ("loop-1.15.run-metadata.pb.gz", "a RunMetadata", 1, {"net/r": "_FusedMatMul", "net/while/Softmax": "Softmax"}),
        ("alexnet.timeline.json.gz", "a timeline", 1, {"tower_1/norm1": "LRN", "classes": "ArgMax"}),
        ("alexnet.trace.json.gz", "a trace of the profiler", 4, {"tower_1/norm1": "LRN", "tower/relu3": "_FusedConv2D"}),
        ("alexnet.xplane.pb.gz", "a profile", 4, {"tower_1/norm1": "LRN", "tower/relu3": "_FusedConv2D"}),
    ],
)
def test_recordings_are_recognised_by_their_content(name: str, format: str, steps: int, ops: dict[str, str]) -> None:
    found = read_measurement(TRACES / name)
    assert (found.format, len(found.steps)) == (format, steps)
    assert ops.items() <= names_by_kind(found)[HOST].items()
    for step in found.steps:
        assert 1e-5 < step.seconds < 1
        assert all(0 <= run.seconds <= step.seconds for run in step.runs)


def test_a_run_that_tensorflow_lists_twice_counts_once() -> None:
    (step,) = read_measurement(TRACES / "loop-1.15.run-metadata.pb.gz").steps
    assert [run.name for run in step.runs].count("net/while/Softmax") == 5
    assert not [run for run in step.runs if ":" in run.name]


def test_the_profilers_two_files_tell_the_same() -> None:
    trace, profile = (read_measurement(TRACES / f"alexnet.{ending}.gz") for ending in ("trace.json", "xplane.pb"))
    assert names_by_kind(trace)[TRANSFER]["conv5/biases/read"] == "_Send"
    for one, other in zip(trace.steps, profile.steps, strict=True):
        assert one.seconds == pytest.approx(other.seconds, rel=1e-6)
        assert [run[:3] for run in one.runs] == [run[:3] for run in other.runs]
        assert [run.seconds for run in one.runs] == pytest.approx([run.seconds for run in other.runs], rel=1e-6, abs=1e-9)


def gpu_statistics() -> Any:
    """Statistics with a GPU's streams, in the names of TensorFlow 1.15 (kernel, copies) and 2 (another kernel)."""
    metadata = message_class("RunMetadata")()

    def add(device: str, name: str, label: str, start: int, micros: int) -> None:
        owner = next((own for own in metadata.step_stats.dev_stats if own.device == device), None)
        owner = metadata.step_stats.dev_stats.add(device=device) if owner is None else owner
        owner.node_stats.add(node_name=name, timeline_label=label, all_start_micros=start, all_end_rel_micros=micros)

    add(GPU, "a/b", "a/b = MatMul(x, y)", 100, 5)
    add("/device:GPU:0/stream:all", "a/b:MatMul", "sgemm regs:32", 110, 40)
    add("/device:GPU:0/stream:14", "a/b:MatMul", "sgemm regs:32", 110, 40)
    add("/device:GPU:0/stream:all", "sgemm", "sgemm (x) @@c:Relu#id=1#", 150, 7)
    add("/device:GPU:0/memcpy", "edge_5_x:MEMCPYHtoD", "MEMCPYHtoD 4 bytes", 90, 9)
    add("/device:GPU:0/sync", "cuStreamSynchronize", "ThreadId 1", 90, 900)
    add("/job:worker/task:0/device:CPU:0", "RecvTensor", "[4B] edge_7_w from /job:ps/cpu:0 to /job:worker/cpu:0", 80, 3)
    return metadata


def test_kernels_copies_and_launches_of_a_gpu_are_told_apart(tmp_path: Path) -> None:
    metadata = gpu_statistics()
    expected = {HOST: {"a/b": "MatMul"}, KERNEL: {"a/b": "MatMul", "c": "Relu"}, COPY: {"x": "MEMCPYHtoD", "w": "RecvTensor"}}
    (tmp_path / "step").write_bytes(serialise(metadata))
    (tmp_path / "step.txt").write_text(to_text(metadata), "utf-8")
    for name in ("step", "step.txt"):
        found = read_measurement(tmp_path / name)
        assert names_by_kind(found) == expected
        (step,) = found.steps
        assert step.seconds == pytest.approx(77e-6)
        assert sum(run.seconds for run in step.runs if run.kind == KERNEL) == pytest.approx(47e-6)

    process = {"ph": "M", "pid": 1, "args": {"name": "vm /device:GPU:0"}, "name": "process_name"}
    lines = [
        {"ph": "M", "pid": 1, "tid": tid, "args": {"name": name}, "name": "thread_name"}
        for tid, name in ((2, "Stream #14(Compute)"), (3, "XLA Ops"))
    ]
    kernel = {"ph": "X", "pid": 1, "tid": 2, "name": "sgemm", "ts": 1, "dur": 4, "args": {"tf_op": "a/b:MatMul"}}
    moved = {"ph": "X", "pid": 1, "tid": 2, "name": "MemcpyH2D", "ts": 1, "dur": 4, "args": {"tf_op": "x/_17:_Recv"}}
    unread = [{**kernel, "tid": 3}, {**kernel, "ts": "late"}, {**kernel, "args": None, "name": 7}, 5]
    (tmp_path / "trace").write_text(json.dumps({"traceEvents": [process, *lines, kernel, moved, *unread]}), "utf-8")
    (step,) = read_measurement(tmp_path / "trace").steps
    assert step.runs == (MeasuredRun("a/b", "MatMul", KERNEL, 0.0, 4e-6), MeasuredRun("x", "_Recv", COPY, 0.0, 4e-6))


def write_export(path: Path, *, process: str = ", globalPid") -> None:
    """An export with two steps: a MatMul of two kernels, a Relu in the next thread, and a copy outside of ranges."""
    path.unlink(missing_ok=True)
    thread = 7 << 24
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE StringIds (id, value)")
        database.execute("INSERT INTO StringIds VALUES (5, 'Relu: tower/active')")
        database.execute("CREATE TABLE NVTX_EVENTS (start, end, globalTid, text, textId)")
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, correlationId, globalTid)")
        for table in ("KERNEL", "MEMCPY"):
            database.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_{table} (start, end, correlationId{process})")
        for step in (0, 1000):
            rows: list[tuple[int, int, int, str | None]] = [
                (step, step + 90, thread + 1, "outer"),
                (step + 10, step + 30, thread + 1, "MatMul: tower/hidden"),
            ]
            rows += [
                (step + 10, step + 30, thread + 2, '{"op":"Relu","name":"tower/plain","args":[]}'),
                (step + 40, step + 60, thread + 2, None),
            ]
            for start, end, tid, text in rows:
                values = (start, end, tid, text, None if text else 5)
                database.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?)", values)
            launches = [(12, 1, 100, 140), (20, 1, 140, 150), (50, 2, 150, 170), (70, 1, 170, 180)]
            for number, (launch, tid, start, end) in enumerate(launches, step):
                table = "MEMCPY" if launch == 70 else "KERNEL"
                database.execute(
                    "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?)", (step + launch, number, thread + tid)
                )
                own = (step + start, step + end, number) + ((thread,) if process else ())
                database.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_{table} VALUES ({', '.join('?' * len(own))})", own)
    database.close()


def test_kernels_of_nsight_systems_belong_to_the_range_of_their_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a #1?.sqlite"
    for options in ({}, {"process": ""}):
        write_export(path, **options)
        found = read_measurement(path)
        assert (found.format, len(found.steps)) == ("an export of Nsight Systems", 2)
        for step in found.steps:
            kernels = [(run.name, run.op, round(run.seconds * 1e9)) for run in step.runs if run.kind == KERNEL]
            assert kernels == [("tower/hidden", "MatMul", 40), ("tower/hidden", "MatMul", 10), ("tower/active", "Relu", 20)]
        assert names_by_kind(found)[HOST] == {"tower/hidden": "MatMul", "tower/plain": "Relu", "tower/active": "Relu"}
    assert sorted(file.name for file in tmp_path.iterdir()) == [path.name]
    monkeypatch.setattr(nsight, "MAX_ROWS", 3)
    with pytest.raises(UsageError, match="got more than 3 rows, expected a shorter recording"):
        read_measurement(path)


def test_databases_that_are_no_exports_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE NVTX_EVENTS (start, end)")
        database.execute("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT 1 AS start, 2 AS end, 3 AS correlationId")
    database.close()
    with pytest.raises(UsageError, match="without CUPTI_ACTIVITY_KIND_KERNEL, expected an export of Nsight Systems"):
        read_measurement(path)
    with sqlite3.connect(path) as database:
        database.execute("DROP VIEW CUPTI_ACTIVITY_KIND_KERNEL")
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, correlationId)")
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, correlationId, globalTid)")
    database.close()
    with pytest.raises(UsageError, match=r"without NVTX_EVENTS.globalTid, NVTX_EVENTS.text, expected"):
        read_measurement(path)
    write_export(path)
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM NVTX_EVENTS WHERE text != 'outer'")
        database.execute("UPDATE StringIds SET value = 'other'")
    database.close()
    with pytest.raises(UsageError, match="got no NVTX ranges of TensorFlow's ops"):
        read_measurement(path)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(UsageError, match=r"got an SQLite file that can't be read \("):
        read_measurement(path)


def test_files_that_are_no_measurements_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = gzip.compress(b"{}" * 5000)
    monkeypatch.setattr(reader, "GRAPH_BYTES", 1 << 13)
    cases = {
        b"": "got an empty file, expected a RunMetadata of TensorFlow",
        gzip.compress(b""): "got an empty file",
        gzip.compress(b"{}")[:-9]: "got a truncated gzip file",
        whole: "got a gzip file with more than 8192 bytes",
        b"\x1f\x8b\x08" + b"x" * 40: "got a damaged gzip file",
        b'{"traceEvents": [': "got invalid JSON",
        b"[" * 5000: "got invalid JSON",
        b'{"nodes": []}': "got JSON without 'traceEvents'",
        b'{"traceEvents": []}': "got a trace of the profiler without runs of nodes",
        b"nodes: []": "got another format, expected a RunMetadata",
        b"step_stats { dev_stats { device: 5 } }": "got another format",
        serialise(message_class("GraphDef")(node=[{"name": "a", "op": "NoOp"}])): "got another format",
    }
    for content, expected in cases.items():
        (tmp_path / "f").write_bytes(content)
        with pytest.raises(UsageError) as caught:
            read_measurement(tmp_path / "f")
        assert expected in caught.value.message
    for path in (tmp_path, tmp_path / "none", Path("\0")):
        with pytest.raises(UsageError, match="cannot read the measurement"):
            read_measurement(path)
