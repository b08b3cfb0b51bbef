"""`placesim plan --strategies` and `placesim.compare_strategies`: rows, files, the page, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placesim
from placesim.planning.strategies.strategy_comparison import StrategyCase, strategy_cases
from placesim.report.strategy_report import StrategyReport
from placesim.report.terminal.strategy_comparison import styled_comparison
from placesim.studies import strategy_study
from tests.cli.shell import ROOT, Shell, rows
from tests.planning.strategies.models import dense
from tests.planning.strategies.test_recomputation import deep
from tests.report.test_comparison_page import unpacked

FEW: dict[str, Any] = {"evaluations": 20, "jobs": 1}
RING = " --reduce ring --variables mirrored"
SOME = ("one device", "data parallel, cpu", "model parallel", "pipeline")
COMMAND = ("--strategies", "--evaluations", "20", "--jobs", "1")


def model(gpus: Any = 2, declared: int = 8) -> dict[str, Any]:
    found = dense("momentum", declared)
    found["run"] = found["run"][:2]
    return found | {"devices": {"cpu": 1, "gpu": gpus} if isinstance(gpus, int) else gpus}


def keep_cases(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Compare only the strategies whose names begin like these."""

    def cases(*given: Any) -> list[StrategyCase]:
        return [case for case in strategy_cases(*given) if case.name.startswith(names)]

    monkeypatch.setattr(strategy_study, "strategy_cases", cases)


def write(shell: Shell, document: dict[str, Any]) -> str:
    return shell.write("model.json", json.dumps(document, default=np.ndarray.tolist))


@pytest.mark.slow
def test_strategies_are_sorted_and_the_best_is_written(shell: Shell) -> None:
    graph = write(shell, model())
    ended = shell("plan", graph, *COMMAND, "--price", "3.6", "--output", "best.yaml", "--html", "page.html")
    assert (ended.code, ended.complaint) == (0, "")
    head, *lines = [line.split("\t") for line in ended.output.splitlines()]
    found = [dict(zip(head, line, strict=True)) for line in lines]
    assert len(found) == 21
    auto = next(row for row in found if row["strategy"] == "one device, auto recomputation")
    assert auto["options"] == "--recompute auto"
    seconds = [float(row["seconds"]) for row in found]
    assert seconds == sorted(seconds)
    one = next(row for row in found if row["strategy"] == "one device")
    assert (one["devices"], one["efficiency"], one["options"]) == ("1", "1", "-")
    for row in found:
        speed = 8 / float(row["seconds"])
        assert float(row["examples_per_second"]) == pytest.approx(speed, 1e-5)
        share = float(one["seconds"]) / float(row["seconds"]) / int(row["devices"])
        assert float(row["efficiency"]) == pytest.approx(share, 1e-5)
        assert float(row["dollars_per_million"]) == pytest.approx(0.001 * int(row["devices"]) * 1e6 / speed, 1e-5)
        if row["strategy"] in ("data parallel, ring", "data parallel, nccl"):
            assert shell("parallelize", graph, *row["options"].split(), "--output", "again.json").code == 0
            assert rows(shell("simulate", "again.json").output, "time")[0][0] == row["seconds"]
    assert rows(shell("simulate", "best.yaml").output, "time")[0][0] == found[0]["seconds"]
    page = unpacked((shell.directory / "page.html").read_text("utf-8"))
    assert [placed["has_lanes"] for placed in page["placements"]] == [row["seconds"] != "-" for row in found]
    assert page["placements"][page["before"]]["label"] == "one device"
    assert page["after"] == 0


@pytest.fixture(scope="module")
def compared() -> StrategyReport:
    with pytest.MonkeyPatch.context() as monkeypatch:
        keep_cases(monkeypatch, *SOME)
        return placesim.compare_strategies(model(), **FEW)


@pytest.mark.slow
def test_the_step_that_trains_is_compared_although_another_is_last(
    compared: StrategyReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained, run = model(), dense("momentum")["run"]
    keep_cases(monkeypatch, *SOME)
    more = placesim.compare_strategies(trained | {"run": [*trained["run"], run[-1]]}, **FEW)
    names = {row["strategy"] for row in more}
    assert [*more] == [row for row in compared if row["strategy"] in names]
    assert more[0]["examples_per_second"] is not None


@pytest.mark.slow
def test_python_gets_rows_and_graphs(compared: StrategyReport, tmp_path: Path) -> None:
    report = compared
    assert repr(report) == f"<placesim.StrategyReport of {report.name}: {report.comparison.results[0].case.label}>"
    assert report.best == report[0]
    assert report.document()["strategies"] == list(report)
    assert report.page() is None
    assert "times as fast as one device" in report._repr_html_()
    row = next(i for i, row in enumerate(report) if row["options"] == "--replicas 2")
    report.write(tmp_path / "towers.json", row)
    assert placesim.simulate(tmp_path / "towers.json").seconds == report[row]["seconds"]
    with pytest.raises(placesim.UsageError, match="wrong format"):
        report.write(tmp_path / "towers.onnx")


@pytest.mark.slow
def test_a_batch_that_grows_with_the_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_cases(monkeypatch, *SOME)
    graph = model(declared=-1)
    graph["run"] = [{"fetch": ["init"]}, {"fetch": ["loss", "train"]}]
    report = placesim.compare_strategies(graph, batch=8, scale_batch=True, **FEW)
    for row in report:
        assert row["examples_per_second"] * row["seconds"] == pytest.approx(8 * row["devices"])
    cut = [case.strategy for case in strategy_cases((2, 4), batch_on=lambda devices: 6 * devices) if "pipeline" in case.name]
    assert {(found.stages, found.micro_batches) for found in cut if found is not None} == {(2, 6), (4, 12)}
    with pytest.raises(placesim.UsageError, match="no batch to scale"):
        placesim.compare_strategies(graph, scale_batch=True, **FEW)
    cases: list[tuple[dict[str, Any], int]] = [({"batch": 6, "examples": 12}, 12), ({"shape": {"x": [6, 6], "y": [6]}}, 6)]
    for given, examples in cases:
        known = placesim.compare_strategies(graph, gpu=1, **given, **FEW)
        assert known[0]["examples_per_second"] * known[0]["seconds"] == pytest.approx(examples)
    fed = placesim.compare_strategies(model(1, -1), **FEW)
    assert fed[0]["examples_per_second"] * fed[0]["seconds"] == pytest.approx(8)


def test_replicas_have_the_best_number_of_segments_and_pipelines_divide_it_among_stages() -> None:
    cases = [*strategy_cases((1, 2, 4), segments=5)]
    found = {case.options for case in cases if case.name.endswith(", auto recomputation")}
    towers = {
        f"--replicas {count}{rest} --recompute 5" for count in (2, 4) for rest in ("", RING, RING.replace("ring", "nccl"))
    }
    pipelines = {f"--recompute {own} --stages {count} --micro-batches {4 * count}" for count, own in ((2, 3), (4, 2))}
    assert found == towers | pipelines
    without = [*strategy_cases((1, 2, 4))]
    assert [case for case in cases if case.options not in found] == without


@pytest.mark.slow
def test_the_number_of_segments_on_one_gpu_is_the_best_on_several(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_cases(monkeypatch, "data parallel, cpu", "pipeline")
    graph = deep(10)  # fewer segments have a higher peak
    graph["run"] = graph["run"][:2]
    report = placesim.compare_strategies(graph, gpu=2, **FEW)
    peaks = {row["strategy"]: row["peak_bytes"] for row in report if row["devices"] == 2}
    cases: dict[str, dict[str, Any]] = {
        "data parallel, cpu": {"replicas": 2},
        "pipeline, 1f1b": {"stages": 2, "micro_batches": 8},
    }
    for name, settings in cases.items():
        effect = placesim.parallelize(graph, recompute="auto", **settings).rewrite.effect
        assert effect is not None
        assert peaks[f"{name}, auto recomputation"] == effect.peak_after < effect.peak_before == peaks[name]


@pytest.mark.slow
def test_gpus_of_several_hosts_and_refused_strategies(shell: Shell) -> None:
    tasks = [{"job": "worker", "tasks": 2, "cpu": 1, "gpu": 1}]
    report = placesim.compare_strategies(model(tasks), **FEW)
    named = {(row["strategy"], row["devices"]): row for row in report}
    assert named["data parallel, nccl", 2]["error"] == (
        "UsageError: cannot use NcclAllReduce between tasks: got GPUs of 2 tasks, expected GPUs of one task"
    )
    ring = next(row for row in report.comparison.results if row.case.name == "data parallel, ring")
    assert ring.placed.study is not None
    assert {run.device for run in ring.placed.study.nodes if "GPU" in run.device} == {
        f"/job:worker/replica:0/task:{task}/device:GPU:0" for task in range(2)
    }
    assert [row["error"] is None for row in report] == [True] * 17 + [False] * 4
    last = report.comparison.results[-1]
    with pytest.raises(placesim.UsageError, match="which cannot be applied: cannot use NcclAllReduce"):
        report.write(shell.directory / "none.pb", len(report) - 1)
    assert "refused" in styled_comparison(report.comparison, StringIO())
    nothing = replace(report.comparison, results=(last, *report.comparison.results[:-1]))
    assert "no strategy fits" in styled_comparison(nothing, StringIO())


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (("--price", "2"), 2, "options without --strategies: got --price, expected --strategies as well"),
        (("--split", "x", "--scale-batch"), 2, "options without --strategies: got --split, --scale-batch, expected"),
        ((*COMMAND, "--gpu", "0"), 2, "no devices to compare: got a machine without GPUs, expected --gpu N"),
        ((*COMMAND, "--output", "best.onnx"), 2, "wrong format: got 'best.onnx'"),
        ((*COMMAND, "--price", "nan"), 2, "wrong price: got nan, expected a number of dollars"),
        ((*COMMAND, "--split", "nosuch"), 2, "no such tensor: got 'nosuch' in --split"),
    ],
)
def test_what_cannot_be_compared(arguments: tuple[str, ...], code: int, expected: str, shell: Shell) -> None:
    ended = shell("plan", write(shell, model()), *arguments)
    assert (ended.code, expected in ended.complaint) == (code, True)


def test_a_machine_without_enough_memory(shell: Shell) -> None:
    graph = model({"cpu": 1, "gpu": {"count": 1, "memory": "16MiB"}}, -1)
    graph["run"] = [{"fetch": ["init"]}, {"fetch": ["loss", "train"]}]
    ended = shell("plan", write(shell, graph), *COMMAND, "--batch", "1000000", "--output", "best.pb")
    assert (ended.code, ended.complaint) == (1, "no strategy fits, and best.pb is not written\n")
    assert [line.split("\t")[2] for line in ended.output.splitlines()] == ["fits", "false", "false", "false", "-"]
    assert not (shell.directory / "best.pb").exists()


def test_steps_without_training_are_refused(shell: Shell) -> None:
    document = model()
    graph = write(shell, document | {"run": [*document["run"][:1], {"fetch": ["w"]}]})
    expected = (
        "UsageError: no step trains: got 2 steps without updates of variables, expected a step that trains\n  name the op "
    )
    for ended in (shell("plan", graph, *COMMAND), shell("parallelize", graph, "--recompute", "auto")):
        assert (ended.code, ended.complaint[: len(expected)]) == (2, expected)
    ended = shell("parallelize", graph, "--precision", "float16", "--output", "half.json")
    assert ended.code == 0
    assert "note: no prediction of memory and time: no step trains: got 2 steps" in ended.complaint
    assert shell("parallelize", graph, "--recompute", "2", "--fetch", "train", "--output", "two.json").code == 0


def test_a_graph_without_training_is_refused(shell: Shell) -> None:
    ended = shell("plan", str(ROOT / "graphs" / "towers.yaml"), *COMMAND)
    assert (ended.code, "not a training graph" in ended.complaint) == (2, True)


@pytest.mark.slow
def test_a_price_without_a_number_of_examples_is_told(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_cases(monkeypatch, "one device")
    graph = model(2, -1)
    graph["run"] = [{"fetch": ["init"]}, {"fetch": ["loss", "train"]}]
    command = ("plan", write(shell, graph), *COMMAND, "--assume-unknown", "8", "--price", "2")
    ended = shell(*command)
    assert ended.code == 0
    assert ended.complaint.endswith("unknown: `--examples N` gives the number of examples in a step\n")
    assert shell(*command, "--examples", "8").complaint == ""
