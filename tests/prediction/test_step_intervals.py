"""How the benchmark counts steps in their intervals, on made-up rows."""

from __future__ import annotations

import pytest

from placesim.machine.gpu_models import GPU_MODELS
from tests.benchmarks.network_rows import NetworkRow, NetworkRun
from tests.benchmarks.network_tape import Numerics
from tests.benchmarks.network_times import NetworkTime
from tests.benchmarks.step_intervals import coverages, deviation_scale, write_coverage

RUN = NetworkRun("timm/resnet18", 8, True, True, "NCHW", Numerics(), None)


def timed(device: str, measured: float) -> NetworkTime:
    """A step of 100 s that is within 80 to 140 s, and deviates by 5 or 10 s if its kernels are independent."""
    row = NetworkRow(RUN, device, GPU_MODELS["Tesla K80"], "suite", "", "", measured)
    return NetworkTime(row, 100.0, 90.0, 120.0, 5.0, 10.0, 80.0, 140.0)


def test_a_deviation_is_relative_to_its_side() -> None:
    assert timed("a", 110).deviation == 1.0
    assert timed("a", 90).deviation == 2.0
    assert (timed("a", 119).is_within, timed("a", 121).is_within) == (True, False)


@pytest.mark.parametrize(("measured", "scale", "expected"), [(120, 2, True), (121, 2, False), (141, 9, False), (79, 9, False)])
def test_no_scale_goes_beyond_the_extremes(measured: float, scale: float, expected: bool) -> None:
    assert timed("a", measured).is_within_scale(scale) is expected


def test_a_board_deviates_beside_the_scale() -> None:
    """3 and 4 s are 5 s together: a deviation of 13 s is one of 12 s beside the board's 5 s."""
    assert timed("a", 113)._replace(board=5.0).deviation == pytest.approx(1.2)
    assert timed("a", 104)._replace(board=5.0).deviation == 0.0
    near = timed("a", 105)._replace(board=4.0)
    assert (near.is_within_scale(0.31), near.is_within_scale(0.29)) == (True, False)
    # the extremes bound the scale, not the board
    assert timed("a", 141)._replace(board=10.0).is_within_scale(9)


@pytest.mark.parametrize(("measured", "others", "expected"), [(106, "b", 1), (108, "b", 0), (106, "ba", 0), (102, "ba", 1)])
def test_a_gpu_that_no_other_group_has_counts_as_unmeasured(measured: float, others: str, expected: float) -> None:
    """A board that deviates by 3 s deviates by 7 s without measurements; the scale that other families give is 0."""
    own = timed("a", measured)._replace(board=3.0)
    times = [own, *(timed(device, 100)._replace(board=3.0) for device in others)]
    assert coverages(times, lambda time: "own" if time is own else "other")["own"].held_out == expected


def test_four_of_five_devices_have_their_measurements_within_the_scale() -> None:
    few = [timed(device, 100 + 10 * number) for number, device in enumerate("abcde", 1) for _ in range(9)]
    assert deviation_scale(few) == 4.0
    many = [timed("f", 101)] * 400
    assert deviation_scale([*few, *many]) == 4.0
    with pytest.raises(ValueError, match="no times"):
        deviation_scale([])


def test_three_of_four_measurements_of_each_large_device_are_within_the_scale() -> None:
    near, far = [timed("near", 110)] * 400, [timed("far", 100 + 10 * number) for number in range(1, 13)]
    assert deviation_scale([*near, *far]) == 9.0
    assert deviation_scale([*near, *far[3:]]) == 7.0  # nine are few, and count as .45 of a device


def test_a_group_is_judged_by_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    times = [timed("near", 105)] * 20 + [timed("far", 118)] * 10 + [timed("few", 139)]
    found = coverages(times, lambda time: time.row.device)
    assert found["near"] == (20, 1.0, 1.0)
    assert found["far"] == (10, 1.0, 0.0)
    write_coverage("by device", times, lambda time: time.row.device)
    printed = capsys.readouterr().out.splitlines()
    assert printed[2].split() == ["far", "10", "100", "0"]
    assert printed[-2:] == ["outside 75 to 85 %: far (0), near (100)", "below 60 %: far (0)"]
