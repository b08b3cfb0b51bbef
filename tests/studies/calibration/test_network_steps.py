"""Figures of whole steps: what a pool costs is found again, and a step's interval covers the steps of other networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from placesim.machine.host_models import FAMILIES, SECONDS, SHARES, HostProfile, MeasuredFigure
from placesim.studies.calibration.case_timing import record_step
from placesim.studies.calibration.fitting import Sample
from placesim.studies.calibration.network_steps import (
    DEVIATIONS,
    HANDED,
    ONE_THREAD,
    POOL,
    NetworkStep,
    StepFit,
    predict_step,
)
from placesim.studies.calibration.networks import build_graphs

CORES = 2
PROFILE = HostProfile(
    {name: (number + 1) * 1e-10 for number, name in enumerate((*SECONDS, *SHARES))} | {HANDED: 0.0},
    (2.0**21, 2.0**26),
    dict.fromkeys(FAMILIES, MeasuredFigure(1.0, 0.8, 1.25)),
)
NETWORKS = ("branches 1 16 24 1", "branches 2 16 24 1", "branches 2 20 16 2", "branches 4 16 32 2")


def fit(found: Sequence[Sample]) -> HostProfile:
    return PROFILE


def measured(handed: float, factors: Sequence[float]) -> list[NetworkStep]:
    """Steps that take so many times as long as a profile with `handed` says."""
    steps = [NetworkStep(record_step(graph), (), {}) for graph in build_graphs(NETWORKS).values()]
    profile = replace(PROFILE, seconds={**PROFILE.seconds, HANDED: handed})
    return [
        step._replace(
            seconds={threads: factor * predict_step(step, profile, CORES, threads).seconds for threads in (ONE_THREAD, POOL)}
        )
        for step, factor in zip(steps, factors, strict=True)
    ]


@pytest.mark.slow
def test_what_a_node_in_a_pool_takes_is_found_again() -> None:
    profile = StepFit(measured(3.2e-5, [1.0] * len(NETWORKS)), fit, CORES).profile()
    assert profile.seconds[HANDED] == pytest.approx(3.2e-5)
    assert all(profile.seconds[name] == 1 for name in DEVIATIONS.values())


@pytest.mark.slow
def test_the_interval_of_a_step_has_the_deviation_of_other_steps() -> None:
    networks = measured(0.0, [1.25**-0.5, 1.25, 1.0, 1.25**1.5])
    profile = StepFit(networks, fit, CORES).profile()
    assert profile.seconds["deviation"] == pytest.approx(1.5, rel=0.1)
    seconds, low, high = predict_step(networks[2], PROFILE, CORES, ONE_THREAD)
    assert 0.75 < low / seconds < 1 < high / seconds < 1.3


def test_few_networks_tell_no_figures_of_steps() -> None:
    seconds = StepFit([], fit, CORES).profile().seconds
    assert (seconds[HANDED], seconds["deviation"], seconds["pool_deviation"]) == (0.0, 1.0, 1.0)
