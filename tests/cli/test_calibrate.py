"""`placesim calibrate`, and `simulate --profile` with what it wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from placesim.formats.graph_file.sections.hosts import host_text
from placesim.formats.graph_file.sections.overrides import read_inventory
from placesim.machine.host_models import DEVIATIONS, PROFILE_VERSION, SECONDS, SHARES, HostModel
from placesim.studies.calibration import case_timing, host_profile
from tests.cli.shell import Shell, rows

GRAPH = """
devices: {cpu: 1}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [64, 512]}
  - {op: Placeholder, name: w, dtype: float32, shape: [512, 256]}
  - {op: MatMul, name: a, inputs: [x, w]}
  - {op: Relu, name: b, inputs: [a]}
fetch: [b]
"""


@pytest.mark.slow
def test_what_is_measured_here_is_taken_by_simulate(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    measured: list[HostModel] = []
    calibrate = host_profile.calibrate

    def watched(progress: Callable[[int, int], None], *, is_quick: bool) -> HostModel:
        def tell(done: int, total: int) -> None:
            told.append((done, total))
            progress(done, total)

        measured.append(calibrate(tell, is_quick=is_quick))
        return measured[-1]

    monkeypatch.setattr(host_profile, "calibrate", watched)
    monkeypatch.setattr(case_timing, "FEWEST_RUNS", 1)
    graph, profile = shell.write("g.yaml", GRAPH), str(tmp_path / "here.yaml")
    ended = shell("calibrate", "--quick", "--output", profile)
    assert (ended.code, ended.output, ended.complaint) == (0, "", "")
    assert Path(profile).read_text().startswith("devices:\n  host:\n")
    for option in ("--profile", "--inventory"):
        ended = shell("simulate", graph, option, profile)
        assert (ended.code, ended.complaint) == (0, "")
        assert {row[-1] for row in rows(ended.output, "node")} == {"-"}
        assert not any("assumed" in row[0] for row in rows(ended.output, "assumption"))
    assert {row[-1] for row in rows(shell("simulate", graph).output, "node")} == {"assumed"}
    (host,) = measured
    assert host.cores >= 1
    assert host.profile is not None
    assert set(host.profile.seconds) == {*SECONDS, *SHARES, *DEVIATIONS}
    assert host.profile.seconds["multiplied"] > 0
    assert host.profile.about["numpy"]
    assert told[-1][0] == told[-1][1] == len(told)
    text = host_text(host)
    assert Path(profile).read_text() == text
    ((task,), _) = read_inventory(text.encode())
    assert task.host is not None
    assert host_text(task.host) == text


def test_a_profile_that_is_wrong_is_refused_with_its_place(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH)
    wrong = shell.write("p.yaml", "devices:\n  host:\n    flops: -1\n    profile: {version: 7}\n")
    ended = shell("simulate", graph, "--profile", wrong)
    assert ended.code == 2
    assert "p.yaml:3:" in ended.complaint
    assert "'flops' out of range: got -1" in ended.complaint
    assert "p.yaml:4:" in ended.complaint
    assert f"unsupported profile version: got version 7, expected {PROFILE_VERSION}" in ended.complaint


def test_a_profile_that_is_not_there_is_named(shell: Shell) -> None:
    ended = shell("simulate", shell.write("g.yaml", GRAPH), "--profile", "nowhere.yaml")
    assert ended.code == 2
    assert "nowhere.yaml" in ended.complaint


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ("{gpu: 2}", "p.yaml:1:10: no figures in a profile: expected 'host', or a 'gpu' whose model has figures"),
        ("{gpu: {model: Tesla T4}}", "p.yaml:1:10: no figures in a profile"),
        ("{host: {cores: 2}}\nlinks: []", "p.yaml:2:1: unknown key in a profile: got 'links', expected devices"),
    ],
)
def test_a_profile_without_effect_is_refused(shell: Shell, devices: str, message: str) -> None:
    ended = shell("simulate", shell.write("g.yaml", GRAPH), "--profile", shell.write("p.yaml", f"devices: {devices}\n"))
    assert (ended.code, ended.output) == (2, "")
    assert ended.complaint.startswith(f"GraphFileError: {message}")


def test_wrong_arguments_are_refused_before_anything_is_measured(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_profile, "calibrate", lambda progress, *, is_quick: HostModel("measured"))
    assert shell("calibrate", "--output", "no/here.yaml").complaint.startswith("UsageError: cannot write no/here.yaml: got no")
    assert shell("calibrate", "--gpu", "0").complaint.startswith("UsageError: wrong arguments: got no --from")
    shell.write("placesim.toml", "gpu = 4\n")
    assert shell("calibrate").code == 0


def test_a_graph_as_a_profile_is_told(shell: Shell) -> None:
    graph = shell.write("g.yaml", "nodes: [{op: NoOp, name: n}]\n")
    ended = shell("simulate", graph, "--profile", graph)
    assert (ended.code, ended.complaint) == (
        2,
        "GraphFileError: g.yaml:1:1: unknown key in a profile: got 'nodes', expected devices\n"
        "  this is a graph file; `placesim calibrate --output FILE` measures this computer and writes a profile\n",
    )
