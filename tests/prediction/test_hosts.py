"""A host's figures, and what loads cost on it, worked out by hand."""

from __future__ import annotations

import pytest

from placesim.core.dtypes import FLOAT
from placesim.machine.host_models import FAMILIES, HostModel, HostProfile, MeasuredFigure
from placesim.prediction.host_costs import (
    amount_seconds,
    cache_miss_share,
    cold_calls,
    expand_amounts,
    kernel_prediction,
    load_seconds,
)
from placesim.prediction.host_loads.load import Amounts, Load
from placesim.prediction.hosts import Host
from placesim.prediction.node_work import NodeShapes
from placesim.prediction.step_tasks import StepCosts
from tests.prediction.test_steps import recorded

MIB = 1 << 20
PROFILE = HostProfile(
    {
        "call": 2.0, "plain": 3.0, "far": 5.0, "distant": 7.0, "shared": 11.0, "contended_call": 13.0,
        "slowed_products": 0.25, "slowed_passes": 0.5, "awaited": 17.0, "cold_call": 19.0,
    },
    (100.0, 1000.0),
    {"pooling": MeasuredFigure(2.0, 0.5, 4.0)},
)  # fmt: skip


def test_what_is_not_known_of_a_host_is_assumed() -> None:
    host = Host(HostModel())
    assert (host.cores, host.inter_op_threads, host.dispatch, host.launch, host.is_assumed) == (8, 8, 1e-6, 5e-6, True)
    two = host.processor(2)
    assert (two.name, two.units, two.clock_hz, two.memory) == ("assumed host", 2, 2.5e9, "processor")
    assert (two.bandwidth, two.cache_bytes) == (16e9, 5 * MIB)
    assert two.rates == {
        "float32": 160e9, "float64": 80e9, "tf32": 160e9, "float16": 160e9, "bfloat16": 160e9, "int8": 160e9
    }  # fmt: skip


def test_what_is_known_of_a_host_is_shared_among_its_cores() -> None:
    model = HostModel("box", 4, 400e9, 40e9, {"float64": 100e9, "int8": 800e9, "other": 1.0}, 2e-6, 3e-6, 6)
    host = Host(model)
    assert (host.cores, host.inter_op_threads, host.dispatch, host.launch, host.is_assumed) == (4, 6, 2e-6, 3e-6, False)
    one = host.processor(1)
    assert (one.name, one.units, one.clock_hz, one.bandwidth) == ("box", 1, 100e9 / 32, 10e9)
    assert one.rates == {
        "float32": 100e9, "float64": 25e9, "tf32": 100e9, "float16": 100e9, "bfloat16": 100e9, "int8": 200e9
    }  # fmt: skip
    assert Host(HostModel(cores=4, flops=400e9, bandwidth=40e9)).processor(1).name == "host"


@pytest.mark.parametrize(
    ("model", "has_gpus", "expected"),
    [
        (
            HostModel(),
            True,
            [
                "each task's host is assumed to have 8 cores of 2.5 GHz, with 80 GFLOPS of float32 and 8 GB/s each: CPU times "
                "are less certain than their intervals suggest",
                "a host thread is assumed to spend 1 us per node and 5 us per GPU kernel launch",
            ],
        ),
        (
            HostModel(cores=4, flops=400e9),
            False,
            [
                "each task's host is assumed to have 4 cores, with 100 GFLOPS of float32 and 8 GB/s each: CPU times are less "
                "certain than their intervals suggest",
                "a host thread is assumed to spend 1 us per node",
            ],
        ),
        (
            HostModel(cores=4, bandwidth=80e9, dispatch=1e-6),
            True,
            [
                "each task's host is assumed to have 4 cores of 2.5 GHz, with 80 GFLOPS of float32 and 20 GB/s each: CPU times "
                "are less certain than their intervals suggest",
                "a host thread is assumed to spend 5 us per GPU kernel launch",
            ],
        ),
        (HostModel(cores=4, flops=400e9, bandwidth=40e9, dispatch=1e-6), False, []),
        (HostModel(cores=4, flops=400e9, bandwidth=40e9, dispatch=1e-6, launch=1e-6), True, []),
        (HostModel(profile=PROFILE), False, []),
        (HostModel(profile=PROFILE), True, ["a host thread is assumed to spend 5 us per GPU kernel launch"]),
    ],
)
def test_assumptions_are_said(model: HostModel, has_gpus: bool, expected: list[str]) -> None:
    assert list(Host(model).assumptions(has_gpus=has_gpus)) == expected


# --- loads


def test_a_cache_misses_more_the_more_lies_among() -> None:
    assert [cache_miss_share(among, 100.0) for among in (0.0, 50.0, 100.0, 200.0)] == pytest.approx([0, 1 / 17, 1 / 2, 16 / 17])


def test_bytes_come_from_beyond_the_first_cache_or_the_last() -> None:
    amounts = Amounts(call=2, far=1).stream(1700.0, 200.0).stream(10.0)
    found = expand_amounts(amounts, (100.0, 100.0))
    among_ten = 10 * 0.1**4 / (1 + 0.1**4)
    assert found == pytest.approx({"call": 2, "far": 1 + 1600 + among_ten, "distant": 1600 + among_ten})
    assert amounts.counts == {"call": 2, "far": 1}
    assert amount_seconds(Amounts(call=2, plain=3), PROFILE) == 2 * 2 + 3 * 3
    assert amount_seconds(Amounts().stream(1000.0, 100.0), PROFILE) == pytest.approx(500 * 5 + 1000 * 1e-4 / (1 + 1e-4) * 7)


@pytest.mark.parametrize(
    ("family", "threads", "expected"),
    [
        ("pooling", 1, 6 + 60),
        ("pooling", 0, 6 + 60),
        # two of five parts run at once, so three turns of 12 s; each is half as slow again for the other thread
        ("pooling", 2, 6 + 36 + 0.5 * 36 * 1 + 11 + 13 * 4),
        ("pooling", 4, 6 + 24 + 0.5 * 24 * 3 + 11 + 13 * 4),
        ("pooling", 9, 6 + 12 + 0.5 * 12 * 4 + 11 + 13 * 4),
        ("product", 2, 6 + 36 + 0.25 * 36 * 1 + 11 + 13 * 4),
        ("convolution", 2, 6 + 36 + 0.25 * 36 * 1 + 11 + 13 * 4),
        ("convolution filter gradient", 2, 6 + 36 + 0.25 * 36 * 1 + 11 + 13 * 4),
        ("convolution input gradient", 2, 6 + 36 + 0.25 * 36 * 1 + 11 + 13 * 4),
    ],
)
def test_threads_take_parts_in_turns_and_slow_each_other_down(family: str, threads: int, expected: float) -> None:
    load = Load(family, Amounts(plain=2), Amounts(call=4, plain=52 / 3), 5)
    assert family in FAMILIES
    assert load_seconds(load, PROFILE, threads) == pytest.approx(expected)


def test_work_in_one_part_is_shared_by_nobody() -> None:
    load = Load("pooling", Amounts(plain=2), Amounts(plain=4))
    assert load_seconds(load, PROFILE, 8) == 6 + 12


def test_awaited_bytes_are_those_that_no_cache_holds() -> None:
    shapes = NodeShapes("MatMul", {}, [(2, 3), (3, 4)], [(2, 4)], FLOAT, 0, 104, kept_bytes=48, step_bytes=2000)
    amounts = Amounts().touch(shapes, is_packed=True)
    assert (amounts.traffic, amounts.awaited) == ([(56, 104)], [(48, 2000)])
    assert expand_amounts(amounts, (1e9, 1000.0))["awaited"] == pytest.approx(48 * 16 / 17)
    assert Amounts().touch(shapes).traffic == [(56, 104), (48, 2000)]
    assert Amounts().join(amounts, 2).awaited == [(96, 2000)]


@pytest.mark.parametrize(("calls", "cold"), [(3, 3), (1000, 50)])
def test_calls_that_repeat_are_cold_once(calls: int, cold: int) -> None:
    load = Load("pooling", Amounts(call=1), Amounts(call=calls - 1), step_bytes=10**6)
    assert cold_calls(load, (100.0, 10_000.0)) == pytest.approx(cold)
    assert cold_calls(load._replace(step_bytes=100), (100.0, 10_000.0)) < 0.01
    assert load_seconds(load, PROFILE, 1) == pytest.approx(2 * calls + 19 * cold)


def test_a_family_has_its_factor_and_its_interval() -> None:
    load = Load("pooling", Amounts(plain=2), Amounts())
    assert kernel_prediction(load, PROFILE, 1) == (12, 6, 48)
    assert kernel_prediction(load._replace(family="softmax"), PROFILE, 1) == (6, 6, 6)


def test_amounts_add_up() -> None:
    amounts = Amounts(call=1).add(call=2, plain=3).stream(5.0).join(Amounts(plain=1, run=2).stream(7.0, 11.0), 3)
    assert amounts.counts == {"call": 3, "plain": 6, "run": 6}
    assert amounts.traffic == [(5.0, 5.0), (21.0, 11.0)]
    assert Amounts(call=1).join(Amounts(call=1)).counts == {"call": 2}
    assert Amounts().stream(5.0, 0.0).traffic == [(5.0, 0.0)]


@pytest.mark.parametrize(
    ("elements", "threads", "cores"),
    [
        # a core reads and writes 6.4e9 bytes a second: 39 us, 81 us, 119 us and 400 us of work
        (31_200, 0, 1),
        (64_800, 0, 2),
        (95_200, 0, 2),
        (320_000, 0, 8),
        (320_000, 3, 3),
        (320_000, 1, 1),
    ],
)
def test_a_node_has_a_core_for_each_forty_microseconds_of_work(elements: int, threads: int, cores: int) -> None:
    nodes = [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [elements]},
        {"op": "Neg", "name": "y", "inputs": ["x"]},
    ]
    executed, machine = recorded({"nodes": nodes, "devices": {"cpu": 1}, "fetch": ["y"]}, intra_op_threads=threads)
    (cost,) = (
        cost
        for execution, cost in zip(executed, StepCosts(machine).placed(executed), strict=True)
        if execution.site is not None and execution.site.name == "y"
    )
    assert (cost.cores, cost.is_assumed, cost.launch) == (cores, True, 0.0)
    assert cost.predicted.seconds == pytest.approx(1e-6 + 8 * elements / 6.4e9 / cores)
    assert cost.predicted.low < cost.predicted.seconds < cost.predicted.high
