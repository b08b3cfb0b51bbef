"""What is measured of a run on a cluster: a trace with a process a worker, and Dask's own report."""

from __future__ import annotations

import os
import re
import signal
from array import array
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placesim.core.errors import UnavailableError, UsageError
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.session_steps import Config, Fetch, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.runtime.cluster.cluster_setup import Cluster
from placesim.runtime.dask.worker_measurements import (
    FROM_ELSEWHERE,
    MeasurementCollector,
    WorkerMeasurement,
    WorkerTransferPath,
)
from placesim.runtime.recording.kernel_timing import Measurements, RemoteNode, TransferPath, rows
from tests.cli.shell import ROOT, Shell
from tests.report.trace_reader import DrawnSlice, Trace, read_trace
from tests.runtime.dask.test_faults import COUNTING, address_of, own_workers
from tests.runtime.dask.workers import open_session

CLUSTER = str(ROOT / "graphs" / "cluster.yaml")
LOOP = {
    "devices": {"cpu": 2},
    "nodes": [
        {"op": "Const", "name": "one", "value": 1.0, "device": "/cpu:0"},
        {
            "while": {
                "loop_vars": {"x": "one"},
                "cond": {"op": "Less", "inputs": ["x", 5.0]},
                "body": [{"id": "x", "op": "AddV2", "inputs": ["x", 1.0], "device": "/cpu:1"}],
            }
        },
    ],
    "run": [{"fetch": ["while"]}],
}

__all__ = ["own_workers"]


def events(trace: Trace) -> Counter[Any]:
    return Counter((shown.name, shown.args.get("name"), shown.args.get("from"), shown.args.get("to")) for shown in trace.slices)


def repeated(trace: Trace) -> Counter[Any]:
    """But for constants, which one process makes once for all iterations."""
    return Counter({event: count for event, count in events(trace).items() if event[0] != "Const"})


def arrows(trace: Trace) -> Counter[Any]:
    return Counter((one.name, one.args["name"], other.name, other.args["name"]) for one, other in trace.arrows)


def traced(shell: Shell, *arguments: str, code: int = 0) -> Trace:
    ended = shell("run", *arguments, "--soft-placement", "--trace", str(shell.directory / "t.json"))
    assert ended.code == code, ended.complaint
    return read_trace(shell.directory / "t.json")


def on(workers: Cluster, *more: str) -> tuple[str, ...]:
    return ("--engine", "dask", "--scheduler", workers.scheduler, *more)


def of_kernels(trace: Trace) -> list[DrawnSlice]:
    return [shown for shown in trace.slices if shown.thread != "step"]


def test_a_trace_has_the_events_of_one_process_by_worker(workers: Cluster, shell: Shell) -> None:
    here, there = traced(shell, CLUSTER), traced(shell, CLUSTER, *on(workers))
    assert there.faults == []
    assert (events(there), arrows(there)) == (events(here), arrows(here))
    assert len(there.arrows) > 100
    processes = {shown.process for shown in there.slices} - {"Steps"}
    assert {process.rpartition(" at ")[2] for process in processes} == {offer.address for offer in workers.offers}
    assert all("/job:" in process for process in processes)
    steps = [shown for shown in there.slices if shown.thread == "step"]
    off = 1_000_000  # clocks are known to half a round trip
    assert all(
        any(step.start - off <= shown.start <= shown.end <= step.end + off for step in steps) for shown in of_kernels(there)
    )
    assert all(one.start <= other.end for one, other in there.arrows)


def test_a_loop_over_workers_is_traced_by_iteration(workers: Cluster, shell: Shell) -> None:
    import yaml

    (shell.directory / "g.yaml").write_text(yaml.safe_dump(LOOP))
    graph = str(shell.directory / "g.yaml")
    here, there = traced(shell, graph), traced(shell, graph, *on(workers, "--worker-per", "device"))
    assert there.faults == []
    assert (repeated(there), arrows(there)) == (repeated(here), arrows(here))
    assert sum(shown.name == "RecvTensor" for shown in there.slices) >= 8


def test_what_ran_before_an_error_is_traced(workers: Cluster, shell: Shell) -> None:
    (shell.directory / "g.yaml").write_text(
        "devices: {cpu: 2}\n"
        "nodes:\n"
        "  - {op: Const, name: nan, value: [.nan], device: /cpu:0}\n"
        "  - {op: Neg, name: before, inputs: [nan], device: /cpu:1}\n"
        "  - {op: CheckNumerics, name: bad, inputs: [before], attrs: {message: no number}, device: /cpu:0}\n"
    )
    found = traced(shell, str(shell.directory / "g.yaml"), *on(workers, "--worker-per", "device"), code=1)
    assert {shown.args["name"] for shown in of_kernels(found)} >= {"before", "bad"}


def remote_device(task: int) -> str:
    return f"/job:w/replica:0/task:{task}/device:CPU:0"


def sender_and_receiver(sent: int, arrived: int, *runs: tuple[int, int]) -> tuple[MeasurementCollector, Measurements]:
    """A node of the worker `a` runs, its output is sent to `b`, and a node there runs; times are by the workers' own clocks."""
    cpu, other = remote_device(0), remote_device(1)
    measurements = Measurements()
    gathering = MeasurementCollector(measurements, {cpu: "a", other: "b"}, {"a": "first", "b": "second"})
    maker, reader = RemoteNode(cpu, "make", "Neg", ("x",)), RemoteNode(other, "read", "Neg", ("make",))
    way = TransferPath("edge_1_make", cpu, other, None, ())
    took = array("q", [0, sent, arrived, FROM_ELSEWHERE])
    path = WorkerTransferPath(1, way._replace(readers=(0,)))
    gathering.take("b", WorkerMeasurement([reader], [path], array("q", [0, *runs[1], 7]), took, {7: "thread"}))
    path = WorkerTransferPath(1, way._replace(maker=0))
    gathering.take("a", WorkerMeasurement([maker], [path], array("q", [0, *runs[0], 7]), array("q"), {7: "thread"}))
    assert measurements.ways == [way._replace(maker=1, readers=(0,))]
    return gathering, measurements


def arrow_count(measurements: Measurements) -> int:
    return [type(record).__name__ for record in measurements.records()].count("Arrow")


def test_clocks_of_workers_are_brought_onto_one() -> None:
    second = 1_000_000_000
    gathering, measurements = sender_and_receiver(
        second, 6 * second + 20, (second - 10, second), (6 * second + 30, 6 * second + 40)
    )
    # the second worker's clock is 5 s ahead; a slow round trip, which would say 5.2 s, does not count
    gathering.clocks["b"].add(0, 5_300_000_000, 200_000_000)
    gathering.clocks["b"].add(400_000_000, 5_400_500_000, 401_000_000)
    gathering.clocks["a"].add(0, 500, 1000)
    gathering.convert()
    assert list(measurements.runs) == [0, second + 30, second + 40, 0, 1, second - 10, second, 1]
    assert list(measurements.transfers) == [0, second, second + 20, 0]
    assert arrow_count(measurements) == 2
    gathering.convert()
    assert len(measurements.runs) == 8
    assert len(measurements.transfers) == 4


def test_a_tensor_is_made_sent_and_read_in_this_order_though_clocks_are_badly_known() -> None:
    gathering, measurements = sender_and_receiver(1000, 1020, (980, 990), (1030, 1040))
    # both clocks tell the same time, but a busy machine's round trips say that the second is 500 ns ahead
    gathering.clocks["a"].add(0, 500, 1000)
    gathering.clocks["b"].add(0, 1000, 1000)
    gathering.convert()
    assert list(measurements.runs) == [0, 1010, 1020, 0, 1, 980, 990, 1]
    assert list(measurements.transfers) == [0, 1000, 1000, 0]
    assert arrow_count(measurements) == 2


def test_a_correction_of_one_clock_corrects_the_next() -> None:
    measurements = Measurements()
    devices = [remote_device(task) for task in range(3)]
    gathering = MeasurementCollector(
        measurements, dict(zip(devices, "abc", strict=True)), {name: name for name in ("a", "b", "c")}
    )
    for name, ahead in {"a": 0, "b": 700, "c": 600}.items():
        gathering.clocks[name].add(0, 500 + ahead, 1000)
    # the tensor from b to c is known first, and is impossible only once b's clock is corrected
    for sender, receiver, sent, arrived in ((1, 2, 2000, 2010), (0, 1, 1000, 1020)):
        path = TransferPath("edge_1_x", devices[sender], devices[receiver], None, ())
        row = array("q", [0, sent, arrived, FROM_ELSEWHERE])
        gathering.take("abc"[receiver], WorkerMeasurement([], [WorkerTransferPath(sender, path)], array("q"), row, {}))
    gathering.convert()
    assert list(measurements.transfers) == [0, 1980, 1980, 0, 1, 1000, 1000, 0]


def test_a_report_is_dasks_with_what_ran(workers: Cluster, shell: Shell) -> None:
    pytest.importorskip("bokeh", reason="of the extra `report`")
    path = shell.directory / "r.html"
    ended = shell("run", CLUSTER, *on(workers), "--soft-placement", "--report", str(path))
    assert (ended.code, ended.output) == (0, shell("run", CLUSTER, "--soft-placement").output), ended.complaint
    page = path.read_text()
    assert "Dask Performance Report" in page
    assert "{{node average/hidden}}" in page
    assert "transfer-RecvTensor" in page
    # it loads nothing from a network
    head = page[: page.index("<style")]
    assert """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'""" in head
    assert "://" not in head
    assert not re.search(r"""<(?:script|img|iframe)\b[^>]*\ssrc=["']?(?:https?:)?//""", page)
    assert not re.search(r"""<link\b[^>]*\bhref=["']?(?:https?:)?//""", page)


@pytest.mark.cluster
def test_a_report_needs_what_draws_it(workers: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    from placesim.runtime.cluster import performance_report

    monkeypatch.setattr(performance_report, "_can_draw", lambda: False)
    for is_own, where in ((True, ""), (False, f" where the scheduler at {workers.scheduler} runs")):
        with pytest.raises(UsageError) as caught:
            performance_report.PerformanceReport(replace(workers, is_own=is_own))
        assert str(caught.value) == f"--report needs Bokeh: `pip install 'placesim[report]'`{where}"


@pytest.mark.parametrize("option", ["--trace", "--report"])
def test_a_file_that_cannot_be_written_is_told_first(option: str, shell: Shell) -> None:
    ended = shell("run", CLUSTER, "--engine", "dask", option, str(Path(shell.directory, "none", "x")))
    assert ended.code == 2
    assert "none/x" in ended.complaint


@pytest.mark.cluster
def test_what_a_worker_told_stays_when_it_dies(own_workers: Cluster) -> None:
    measurements = Measurements()
    file = graph_file_from_mapping(COUNTING, "counting")
    session = open_session(own_workers, file.graph, build_devices((TaskInventory(gpu=1),)), Config(), measurements=measurements)
    session.run(GraphStep((Fetch("init"),)))
    session.run(GraphStep((Fetch("more"),)))
    os.kill(own_workers.client.run(os.getpid)[address_of(own_workers, "GPU")], signal.SIGKILL)
    with pytest.raises(UnavailableError):
        session.run(GraphStep((Fetch("more"),)))
    session.close()
    ran = {measurements.nodes[number].name for number, *_ in rows(measurements.runs, 4)}
    assert {"one", "more"} <= ran
    moved = [measurements.ways[number].tensor for number, *_ in rows(measurements.transfers, 4)]
    assert sum("one" in tensor for tensor in moved) == 1
