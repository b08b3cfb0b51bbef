"""`placesim.simulate`, `placesim.sweep` and `placesim.plan`: the same as the commands, for Python callers."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placesim
from placesim.report.plan_report import PlanReport
from placesim.report.text.timing import time_document
from tests.prediction.test_steps import study
from tests.processes import run_process

GRAPH: dict[str, Any] = {
    "devices": {"cpu": 1, "gpu": {"count": 2, "model": "Tesla K80"}},
    "nodes": [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [None, 1024]},
        {"op": "Const", "name": "w", "value": 0.1, "shape": [1024, 1024]},
        {"op": "MatMul", "name": "a", "inputs": ["x", "w"], "device": "/gpu:0"},
        {"op": "Relu", "name": "b", "inputs": ["a"], "device": "/gpu:1"},
    ],
    "fetch": ["b"],
}
TEXT = """
devices: {cpu: 1, gpu: {count: 2, model: Tesla K80}}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [null, 1024]}
  - {op: Relu, name: b, inputs: [x], device: /gpu:1}
fetch: [b]
"""


def test_a_report_is_the_study_with_its_readings() -> None:
    report = placesim.simulate(GRAPH, gpu=4, shape={"x": [16, 1024]})
    expected = study(GRAPH, gpu=4, shape={"x": [16, 1024]})
    document = report.document()
    assert {help["what"] for help in document["helps"]} >= {"GPU:0 compute", "a"}
    written = json.loads(json.dumps(time_document(expected)))
    assert document == written | {"graph": "<mapping>", "helps": document["helps"]}
    assert report.seconds == expected.step.seconds
    assert (report.low, report.high) == (expected.step.low, expected.step.high)
    assert report.nodes == expected.nodes
    assert report.text().startswith(f"table\tseconds\tlow\thigh\ntime\t{report.seconds:.6g}\t")
    assert "TimeReport of <mapping>" in repr(report)
    assert report.error is None


def test_a_timeline_has_what_ran_in_its_order() -> None:
    report = placesim.simulate(GRAPH, batch=64)
    spans = report.timeline
    assert len(spans) == len(report.nodes) + len(report.transfers)
    assert [span.start for span in spans] == sorted(span.start for span in spans)
    assert {span.lane for span in spans if span.is_transfer} == {"CPU:0 to GPU:0", "GPU:0 to GPU:1", "GPU:1 to CPU:0"}
    assert {span.name for span in spans} >= {"a", "b", "x"} - {"x"}
    assert max(span.end for span in spans) == pytest.approx(report.seconds)
    by_lane: dict[str, float] = {}
    for span in spans:
        if span.lane.endswith("compute"):
            assert span.start >= by_lane.get(span.lane, 0.0)
            by_lane[span.lane] = span.end


def test_steps_repeat_the_last_one() -> None:
    report = placesim.simulate(GRAPH, batch=64, steps=10)
    assert report.steps[-1].repeat == 10
    assert report.steps[-1].total_seconds == pytest.approx(10 * report.seconds)


def test_a_device_that_runs_out_is_raised_with_the_times_without_limits() -> None:
    with pytest.raises(placesim.ResourceExhaustedError) as caught:
        placesim.simulate(GRAPH, batch=3_000_000)
    assert caught.value.report.seconds > 0
    assert caught.value.report.error is caught.value
    with pytest.raises(placesim.UsageError, match="have unknown shapes: x"):
        placesim.simulate(GRAPH)


def test_an_open_file_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(TEXT)
    seconds = placesim.simulate(tmp_path / "g.yaml", batch=8).seconds
    for stream in (io.BytesIO(TEXT.encode()), io.StringIO(TEXT), (tmp_path / "g.yaml").open()):
        assert placesim.simulate(stream, batch=8).seconds == seconds
        stream.close()
    found = list(placesim.sweep(io.StringIO(TEXT), {"batch": [8, 16]}))
    assert found[0]["seconds"] == seconds


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_rows_come_in_their_order(jobs: int) -> None:
    rows = list(placesim.sweep(GRAPH, {"gpu": "2..3", "batch": range(16, 64, 16)}, jobs=jobs, link=["GPU:0-GPU:1=1GB/s"]))
    assert [(row["gpu"], row["batch"]) for row in rows] == [(gpu, batch) for gpu in (2, 3) for batch in (16, 32, 48)]
    for row in rows:
        report = placesim.simulate(GRAPH, gpu=row["gpu"], batch=row["batch"], link=["GPU:0-GPU:1=1GB/s"])
        assert (row["seconds"], row["low"], row["high"]) == (report.seconds, report.low, report.high)
        assert row["examples_per_second"] == pytest.approx(row["batch"] / row["seconds"])


def test_a_sweep_is_a_report_and_a_loaded_graph_stands_for_its_path() -> None:
    graph = placesim.load(GRAPH)
    found = placesim.sweep(graph, {"gpu": [2, 3]}, batch=16)
    first = next(found)
    assert [row["gpu"] for row in found.rows] == [2, 3]
    assert found.rows[0] == first
    assert list(found.to_dataframe()["seconds"]) == [row["seconds"] for row in found.rows]
    assert found.text().splitlines()[0].startswith("gpu\tseconds")
    assert [row["gpu"] for row in found] == [3]
    with pytest.raises(placesim.UsageError, match="no such table: got 'x', expected rows"):
        found.table("x")
    assert found.name == graph.name
    for _ in range(2):
        assert placesim.simulate(graph, batch=16).seconds == placesim.simulate(GRAPH, batch=16).seconds
    assert placesim.run(graph, batch=16, execute=False).text() == placesim.run(GRAPH, batch=16, execute=False).text()
    assert placesim.place(graph, device={"*": "/cpu:0"}).text() != placesim.place(graph).text()
    with pytest.raises(placesim.UsageError, match="no such option"):
        placesim.load(GRAPH, gpus=3)  # type: ignore[call-arg]
    with pytest.raises(placesim.PlacesimError, match="cannot read the graph file"):
        placesim.load("nowhere.yaml")


def test_a_row_is_there_before_the_next_is_simulated() -> None:
    rows = placesim.sweep(GRAPH, {"batch": range(1, 10_000)})
    assert next(rows)["batch"] == 1
    rows.close()


def test_what_means_nothing_is_said_at_once() -> None:
    with pytest.raises(placesim.UsageError, match="unknown key of a sweep: got 'gpus'"):
        placesim.sweep(GRAPH, {"gpus": [1]})
    with pytest.raises(placesim.UsageError, match="no such option: got gpus"):
        placesim.sweep(GRAPH, {"gpu": [1]}, gpus=3)  # type: ignore[call-arg]
    with pytest.raises(placesim.UsageError, match="have unknown shapes: x"):
        list(placesim.sweep(GRAPH, {"gpu": [2, 3]}))


@pytest.mark.parametrize("name", [None, "devices"])
def test_tables_are_those_of_the_command(name: str | None) -> None:
    for report in (placesim.simulate(GRAPH, batch=64), placesim.memory(GRAPH, batch=64)):
        table = report.table(name)
        kind = next(kind for kind in report.TABLES if kind.name == (name or report.TABLES[0].name))
        assert (table.name, table.columns) == (kind.name, kind.columns)
        assert len(table) == len(report.to_dict()[kind.path[0]]) > 0
        assert all(tuple(row) == kind.columns for row in table)
        frame = report.to_dataframe(name)
        assert list(frame.columns) == list(kind.columns)
        assert len(frame) == len(table)
    with pytest.raises(placesim.UsageError, match="no such table: got 'nods', expected one of nodes, steps"):
        placesim.simulate(GRAPH, batch=64).table("nods")


def test_rows_are_the_main_table(monkeypatch: pytest.MonkeyPatch) -> None:
    step = placesim.simulate(GRAPH, batch=64)
    assert [row["seconds"] for row in step.rows] == sorted((run.seconds for run in step.nodes), reverse=True)
    placed = placesim.place(GRAPH)
    assert [row["node"] for row in placed.rows] == [row.node for row in placed.placements]
    assert [row["tensor"] for row in placed.table("transfers")] == [row.tensor for row in placed.transfers]
    best = placesim.plan(GRAPH, batch=64, evaluations=20, jobs=1)
    assert {row["node"]: row["device"] for row in best.table("devices")} == best.devices
    assert [row["label"] for row in best.rows] == [placed.label for placed in best.placements]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(placesim.UsageError, match="a data frame needs pandas"):
        step.to_dataframe()


# --- plans ----------------------------------------------------------------------------------------------------------

BRANCHES = """\
devices: {cpu: 1, gpu: {count: 2, model: Tesla V100-SXM2-16GB}}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [4096, 4096]}
  - scope: a  # one branch
    nodes: &branch
      - {op: MatMul, name: first, inputs: [x, x]}
      - {op: MatMul, name: second, inputs: [first, x]}
  - {scope: b, nodes: *branch}
  - {op: Add, name: sum, inputs: [a/second, b/second]}
fetch: [sum]
"""


def test_a_plan_is_told_and_written(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(BRANCHES)
    report = placesim.plan(tmp_path / "g.yaml", evaluations=300, jobs=1, explain=True)
    default = next(placed for placed in report.placements if placed.label == "TensorFlow's default")
    assert report.bound.value <= report.value == report.step.seconds < default.seconds
    assert report.gap == pytest.approx(1 - report.bound.value / report.value)
    assert report.document()["value"] == report.value
    assert report.text().splitlines()[1].startswith(f"plan\tlatency\t{report.value:.6g}\t")
    assert "PlanReport of" in repr(report)
    assert report.moves
    assert all(move.loss is not None for move in report.moves)
    for name in ("planned.yaml", "planned.json", "planned.pbtxt"):
        report.write(tmp_path / name)
        # a GraphDef says nothing of the machine
        gpus = 2 if "pb" in name else None
        places = {row.node: row.device for row in placesim.place(tmp_path / name, gpu=gpus).placements}
        ran = [node for node in places if node in report.places]  # what is fed does not run
        assert len(ran) == 5
        assert {node: places[node] for node in ran} == {node: report.places[node] for node in ran}
    assert "# one branch" in (tmp_path / "planned.yaml").read_text()
    with pytest.raises(placesim.UsageError, match="unknown extension: got"):
        report.write(tmp_path / "planned.txt")
    with pytest.raises(placesim.UsageError, match="only a Python script can be patched: got a graph file for"):
        report.write(tmp_path / "planned.patch")


def test_a_written_plan_warns_about_the_edits_that_it_leaves_out(tmp_path: Path) -> None:
    def patch(path: Path, tell: Callable[[str], None]) -> Iterator[bytes]:
        tell(f"{path.name}: no line can express 1 edit")
        return iter([b"patch"])

    graph = {"devices": {"cpu": 1}, "nodes": [{"op": "Const", "name": "a", "value": 1.0}], "fetch": ["a"]}
    report = placesim.plan(graph, evaluations=1, jobs=1)
    with pytest.warns(UserWarning, match=r"p\.diff: no line can express 1 edit"):
        PlanReport(report.study, patch, report.snapshot).write(tmp_path / "p.diff")
    assert (tmp_path / "p.diff").read_bytes() == b"patch"


def test_a_plan_by_scope_is_few_edits_and_avoids_devices(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(BRANCHES)
    report = placesim.plan(tmp_path / "g.yaml", evaluations=100, jobs=1, changes=1, without="CPU")
    (edit,) = report.edits
    assert edit.path in {"a/", "b/"}
    assert report.curve[-1].value == report.value == report.document()["curve"][-1]["value"]
    assert report.staying == ()
    assert report.document()["edits"] == [edit._asdict() | {"gradients": []}]
    assert not any("CPU" in device for name, device in report.places.items() if "/" in name)
    assert placesim.plan(tmp_path / "g.yaml", evaluations=20, jobs=1, by="node").edits == ()


def test_a_plan_is_compared_as_its_graph_with_its_devices(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(BRANCHES)
    report = placesim.plan(tmp_path / "g.yaml", evaluations=300, jobs=1)
    report.write(tmp_path / "planned.yaml")
    assert placesim.diff(report, tmp_path / "planned.yaml").is_same
    moved = placesim.diff(tmp_path / "g.yaml", report).difference.moved
    assert moved
    assert {move.name: move.after for move in moved}.items() <= report.places.items()
    assert not placesim.diff(placesim.place(tmp_path / "g.yaml"), report).is_same
    # a simulation has only times
    times = placesim.diff(placesim.simulate(tmp_path / "g.yaml"), report)
    assert times.difference.moved == ()
    assert times.difference.time is not None
    assert times.difference.time.after.seconds == report.study.value
    assert placesim.diff(report.step, report).is_same
    with pytest.raises(placesim.UsageError, match=r"cannot compare with the prediction .*: got no times for g"):
        placesim.diff(report.step, placesim.place(tmp_path / "g.yaml"))


def test_any_source_can_be_planned(tmp_path: Path) -> None:
    reports = [placesim.plan(source, evaluations=50, jobs=1, batch=4096) for source in (GRAPH, io.StringIO(TEXT))]
    assert all(report.value > 0 for report in reports)
    reports[0].write(tmp_path / "planned.yaml")
    assert placesim.simulate(tmp_path / "planned.yaml", batch=4096).seconds == reports[0].value


@pytest.mark.slow
def test_what_does_not_fit_is_raised_with_what_would() -> None:
    small = GRAPH | {"devices": {"cpu": 1, "gpu": {"count": 2, "model": "Tesla K20m"}}}
    with pytest.raises(placesim.ResourceExhaustedError, match="no plan fits: on GPUs such as ") as caught:
        placesim.plan(small, batch=2_000_000, evaluations=20, jobs=1)
    report = caught.value.report
    assert report.places == {}
    assert report.ways_out
    assert not any(placed.fits for placed in report.placements)
    with pytest.raises(ValueError, match="no plan fits"):
        _ = report.step


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"objective": "speed"}, "wrong objective: got 'speed', expected one of latency, throughput, memory"),
        ({"method": "mov"}, "did you mean 'move'"),
        ({"by": "layer"}, "wrong by: got 'layer', expected 'scope', 'node' or None"),
        ({"changes": -1}, "wrong changes: got -1, expected a whole number"),
        ({"seconds": 0}, "wrong seconds: got 0, expected a number above 0"),
        ({"evaluations": -1}, "wrong evaluations: got -1"),
        ({"jobs": True}, "wrong jobs: got True"),
        ({"jobs": 1.5}, "wrong jobs: got 1.5, expected a whole number"),
        ({"free": 3}, "wrong free: got 3, expected a text or a list of texts"),
        ({"contiguous": True}, "got latency, expected throughput"),
        ({"gpus": 3}, "no such option: got gpus"),
    ],
)
def test_a_plan_by_what_means_nothing_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(placesim.UsageError, match=words):
        placesim.plan(GRAPH, **({"batch": 8, "evaluations": 5} | values))


def test_numbers_may_be_those_of_numpy() -> None:
    plain = placesim.plan(GRAPH, batch=8, evaluations=5, jobs=1, changes=1)
    given: dict[str, Any] = {"evaluations": np.int64(5), "jobs": np.int32(1), "changes": np.int64(1), "seconds": np.float32(9)}
    found = placesim.plan(GRAPH, batch=8, **given)
    assert found.document() == plain.document()


def test_wrong_numbers_and_shapes_are_usage_errors() -> None:
    for steps in (0, "3"):
        with pytest.raises(placesim.UsageError, match=f"wrong steps: got {steps!r}, expected a whole number of at least 1"):
            placesim.simulate(GRAPH, batch=8, steps=steps)  # type: ignore[arg-type]  # as a caller may
        with pytest.raises(placesim.UsageError, match="wrong steps"):
            placesim.sweep(GRAPH, {"batch": [8]}, steps=steps)  # type: ignore[arg-type]  # as a caller may
    assert placesim.memory(GRAPH, shape={"x": "8,1024"}).text() == placesim.memory(GRAPH, shape={"x": [8, 1024]}).text()  # type: ignore[dict-item]  # as on a command line
    for shape, got in ((8, r"\[8\], expected \[\?,1024\]"), ("8x1024", "'8x1024', expected dimensions of 0 or more, such as")):
        with pytest.raises(placesim.UsageError, match=f"wrong shape of x: got {got}"):
            placesim.memory(GRAPH, shape={"x": shape})  # type: ignore[dict-item]  # as a caller may


@pytest.mark.slow
def test_a_script_without_a_guard_is_run_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    (tmp_path / "g.yaml").write_text(BRANCHES)
    script.write_text("import placesim\nprint('once')\nprint(placesim.plan('g.yaml', evaluations=20, jobs=2).value > 0)\n")
    # a file of the script's folder takes no module's place
    (tmp_path / "queue.py").write_text("raise SystemExit('not this one')\n")
    command = [sys.executable, "-P", script.name]
    assert run_process(command, folder=tmp_path, check=True).output.split() == ["once", "True"]
