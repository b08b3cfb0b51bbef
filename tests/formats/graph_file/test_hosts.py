"""`host` of an inventory: what is read, and what is refused with its line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placesim.core.errors import GraphFileError
from placesim.formats.graph_file.sections.hosts import host_text
from placesim.formats.graph_file.sections.overrides import read_inventory
from placesim.machine.host_models import (
    DEVIATIONS,
    FAMILIES,
    PROFILE_VERSION,
    SECONDS,
    SHARES,
    HostModel,
    HostProfile,
    MeasuredFigure,
)

PROFILE = HostProfile(
    {name: (number + 1) * 1e-9 for number, name in enumerate((*SECONDS, *SHARES, *DEVIATIONS))},
    (1e6, 1e8),
    {name: MeasuredFigure(1.5, 0.75, 1.25) for name in FAMILIES},
    dict.fromkeys((*SECONDS, *SHARES, *DEVIATIONS), 0.02),
    {"date": "2026-01-01", "blas": 'a "b": c'},
)
HOST = HostModel("Some CPU: 2", 4, 1e11, 2e10, {"float64": 4e10}, 1e-6, 4e-6, 1, PROFILE, {"LRN": 5.5})


def read(text: str) -> HostModel:
    ((task,), _) = read_inventory(text.encode(), "p.yaml")
    assert task.host is not None
    return task.host


def problems(text: str) -> list[str]:
    with pytest.raises(GraphFileError) as caught:
        read_inventory(text.encode(), "p.yaml")
    return [f"{problem.location.line}: {problem.message}" for problem in caught.value.problems if problem.location]


def test_what_is_written_is_read_again() -> None:
    found = read(host_text(HOST))
    assert host_text(found) == host_text(HOST)
    assert (found.name, found.cores, found.flops, found.bandwidth) == (HOST.name, 4, 1e11, 2e10)
    assert found.ops == {"LRN": 5.5}
    assert found.profile is not None
    assert found.profile.seconds == pytest.approx(PROFILE.seconds, rel=1e-3)
    assert found.profile.spreads == pytest.approx(PROFILE.spreads)
    assert found.profile.families == PROFILE.families
    assert found.profile.about == PROFILE.about


def test_a_profile_need_not_say_how_it_came_about() -> None:
    silent = replace(HOST, profile=replace(PROFILE, about={}))
    assert host_text(read(host_text(silent))) == host_text(silent)


def test_a_data_sheet_s_figures_suffice() -> None:
    found = read("devices: {cpu: 1, host: {cores: 16, flops: 1e12, bandwidth: 1.0e+11, rates: {float64: 5e11}}}")
    assert (found.cores, found.flops, found.bandwidth, found.rates) == (16, 1e12, 1e11, {"float64": 5e11})
    assert found.profile is None


@pytest.mark.parametrize(
    ("host", "problem"),
    [
        ("{cores: 0}", "2: 'cores' out of range: got 0"),
        ("{flops: 0}", "2: 'flops' out of range: got 0, expected a number above 0"),
        ("{bandwidth: -1}", "2: 'bandwidth' out of range: got -1"),
        ("{bandwidth: .inf}", "2: 'bandwidth' out of range"),
        ("{launch: fast}", "2: wrong type of 'launch'"),
        ("{rates: {float32: 1}}", "2: unknown key in 'rates': got 'float32'"),
        ("{rates: {float64: 0}}", "2: 'float64' out of range: got 0"),
        ("{ops: {LRN: 0}}", "2: 'LRN' out of range: got 0, expected a number above 0"),
        ("{ops: [LRN]}", "2: wrong type of 'ops'"),
        ("{speed: 1}", "2: unknown key in 'host': got 'speed'"),
        ("3", "2: wrong type of 'host'"),
    ],
)
def test_wrong_figures_are_named_with_their_line(host: str, problem: str) -> None:
    (found,) = problems(f"devices:\n  host: {host}\n")
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            f"version: {PROFILE_VERSION}",
            f"version: {PROFILE_VERSION + 1}",
            f"unsupported profile version: got version {PROFILE_VERSION + 1}",
        ),
        (f"      version: {PROFILE_VERSION}\n", "", "unsupported profile version: got no version"),
        ("plain: {seconds: 3e-09", "plain: {seconds: 0", "'plain' out of range: got 0, expected a number above 0"),
        ("run: {seconds: 2e-09", "run: {seconds: -2", "'run' out of range: got -2, expected 0 or more"),
        ("run: {seconds: 2e-09", "run: {seconds: slow", "wrong type of 'run'"),
        ("        run:", "        ran:", "unknown key in 'seconds': got 'ran'"),
        ("caches: [1e+06, ", "caches: [", "wrong 'caches'"),
        ("product: {factor: 1.5", "product: {factor: 0", "'factor' out of range: got 0"),
        ("        product: {factor: 1.5, low: 0.75, high: 1.25}\n", "", "incomplete 'families' in a profile: got no product"),
    ],
)
def test_a_profile_that_is_wrong_is_refused_with_its_line(old: str, new: str, problem: str) -> None:
    text = host_text(HOST)
    assert old in text
    wrong = text.replace(old, new)
    found = [text.split(": ", 1) for text in problems(wrong)]
    (line,) = (line for line, message in found if message.startswith(problem))
    assert 2 < int(line) <= wrong.count("\n")


def test_a_gpu_s_figures_are_above_nothing() -> None:
    model = "{name: Acme, flops: 1e13, bandwidth: 1e12, launch: 0, rates: {float16: -1}}"
    assert [found[:2] for found in problems(f"devices:\n  gpu: {{model: {model}}}\n")] == ["2:", "2:"]
