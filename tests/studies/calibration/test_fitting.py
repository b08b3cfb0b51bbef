"""Figures that are fitted are those that the times were made of."""

from __future__ import annotations

import pytest

from placesim.machine.host_models import COUNTED, FAMILIES, SECONDS, SHARES, HostProfile, MeasuredFigure
from placesim.prediction.host_costs import load_seconds
from placesim.studies.calibration.case_timing import Timing, find_load
from placesim.studies.calibration.cases import CHECKED, GROUPS, Case
from placesim.studies.calibration.fitting import (
    Sample,
    fit_families,
    fit_figures,
    fit_in_networks,
    fit_threads,
    rescale_families,
)

CACHES = (2.0**21, 2.0**26)
SECONDS_OF_ONE = {name: (number + 1) * 1e-10 for number, name in enumerate((*SECONDS, *SHARES))} | {"cold_call": 0.0}
PROFILE = HostProfile(SECONDS_OF_ONE, CACHES, dict.fromkeys(FAMILIES, MeasuredFigure(1.0)))


def samples_of(cases: tuple[Case, ...], threads: int = 1) -> list[Sample]:
    """What would be measured on a machine of this profile."""
    loads = [find_load(case) for case in cases]
    return [Sample(load, Timing(load_seconds(load, PROFILE, threads))) for load in loads]


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.figures[0])
def test_each_group_tells_its_figures(group: object) -> None:
    assert group in GROUPS
    figures, cases = next(found for found in GROUPS if found is group)
    known = {name: seconds for name, seconds in SECONDS_OF_ONE.items() if name not in figures}
    samples = samples_of(cases)
    found = fit_figures(samples, figures, known, CACHES)
    profile = HostProfile(known | found, CACHES, {})
    for load, timing in samples:
        assert load_seconds(load, profile, 1) == pytest.approx(timing.seconds, rel=1e-6)


def test_what_threads_cost_is_found_again() -> None:
    cases = tuple(case for case in CHECKED if case.op in ("MaxPool", "AvgPool", "Conv2D", "DepthwiseConv2dNative"))
    alone, shared = ([sample for sample in samples_of(cases, threads) if sample.load.parts > 1] for threads in (1, 2))
    found = fit_threads(alone, shared, PROFILE, 2)
    assert found == pytest.approx({name: SECONDS_OF_ONE[name] for name in found}, rel=1e-6)
    assert set(fit_threads([], [], PROFILE, 1).values()) == {0.0}


def test_a_family_without_samples_takes_longer_like_the_others() -> None:
    cases = samples_of(tuple(case for case in CHECKED if case.op in ("Softmax", "MaxPool", "Pad")))
    found = [Sample(load, Timing(1.5 * timing.seconds)) for load, timing in cases[:-1]]
    families = rescale_families(fit_families(cases, PROFILE), cases, found, PROFILE, 1)
    assert {family: factor.value for family, factor in families.items()} == pytest.approx(dict.fromkeys(families, 1.5))
    assert families["softmax"].low == pytest.approx(1 / 1.5)
    assert families["softmax"].high == pytest.approx(1.0)


def test_a_family_with_many_samples_has_its_own_scale() -> None:
    cases = samples_of(tuple(case for case in CHECKED if case.op in ("Softmax", "MaxPool", "Pad")))
    twice = [Sample(load, Timing(2 * timing.seconds)) for load, timing in cases if load.family == "softmax"]
    same = [sample for sample in cases if sample.load.family != "softmax"]
    few, many = (
        rescale_families(fit_families(cases, PROFILE), cases, [*twice * count, *same], PROFILE, 1)["softmax"].value
        for count in (1, 100)
    )
    assert 1 < few < many < 2
    assert many == pytest.approx(2, rel=0.05)


def test_figures_of_kernels_in_networks_are_found_again() -> None:
    many_bytes, figures = 32 << 20, {"cold_call": 1e-6, "shared": 2e-4}
    found = [case for case in CHECKED if case.op in ("Softmax", "MaxPool", "Pad")]
    cases = [case._replace(copies=max(1, min(200, many_bytes // (4 * case.elements)))) for case in found]
    cold = HostProfile(SECONDS_OF_ONE | figures, CACHES, PROFILE.families)
    for threads, expected in ((1, figures | {"shared": 0.0}), (2, figures)):
        samples = [Sample(load, Timing(load_seconds(load, cold, threads))) for load in map(find_load, cases)]
        assert fit_in_networks(samples, PROFILE, threads) == pytest.approx(expected)


def test_all_that_is_counted_is_told_by_one_group() -> None:
    told = [name for group in GROUPS for name in group.figures]
    assert len(told) == len(set(told))
    assert set(COUNTED) <= set(told)


@pytest.mark.slow
def test_cases_are_of_families_that_a_profile_has() -> None:
    cases = [case for group in GROUPS for case in group.cases] + list(CHECKED)
    assert {find_load(case).family for case in cases} <= set(FAMILIES)
