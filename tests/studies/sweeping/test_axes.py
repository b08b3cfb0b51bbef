"""What a sweep varies: how values are written, what combinations they make, and what a combination sets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.core.errors import UsageError
from placesim.machine.options import make_options
from placesim.prediction.sweep_rows import Value
from placesim.studies.sweeping.axes import MOST_COMBINATIONS, Axis, combinations, make_axes, parse_set, settings_of, value_of


@pytest.mark.parametrize(
    ("key", "written", "values"),
    [
        ("gpu", "4", (4,)),
        ("gpu", "1,2, 8", (1, 2, 8)),
        ("gpu", "1..4", (1, 2, 3, 4)),
        ("gpu", "1..8/3", (1, 4, 7)),
        ("batch", "16..128*2", (16, 32, 64, 128)),
        ("batch", "1..9*3,5,1", (1, 3, 9, 5)),
        ("inter-op-threads", "-1..1", (-1, 0, 1)),
        ("soft_placement", "true,no", (True, False)),
        ("gpu-model", "Tesla K80, Tesla T4", ("Tesla K80", "Tesla T4")),
        ("shape:x", "16x224x224x3,[]", ("16x224x224x3", "[]")),
        ("feed:n", "[1,2],{bytes: 'a,b'},3", ("[1,2]", "{bytes: 'a,b'}", "3")),
        ("link:host-network", "10Gbit/s,100Gbit/s@5us", ("10Gbit/s", "100Gbit/s@5us")),
        ("device:tower_1/*", "/gpu:0,/gpu:1", ("/gpu:0", "/gpu:1")),
        ("gpu", [1, 2], (1, 2)),
        ("gpu", range(1, 4), (1, 2, 3)),
        ("gpu", 3, (3,)),
        ("soft-placement", [True, False], (True, False)),
        ("shape:x", [[1, 2], (3, 4)], ("1x2", "3x4")),
        ("config:allow_growth", [True], ("true",)),
    ],
)
def test_values(key: str, written: Any, values: tuple[Value, ...]) -> None:
    (axis,) = make_axes([(key, written)])
    assert axis.values == values
    assert axis.key == key.replace("soft_placement", "soft-placement")


@pytest.mark.parametrize(
    ("key", "written", "message"),
    [
        ("gpus", "1", "unknown key of a sweep: got 'gpus'"),
        ("gpu_modl", "1", "did you mean 'gpu-model'?"),
        ("shape:", "1", "wrong key: got 'shape:', expected shape:NAME"),
        ("shapes:x", "1", "unknown key of a sweep"),
        ("gpu", "8..1", "empty range of gpu: got '8..1'"),
        ("gpu", "1..8/0", "wrong range of gpu"),
        ("batch", "0..8*2", "wrong range of batch"),
        ("batch", "1..8*1", "wrong range of batch"),
        ("gpu", "", "empty value of gpu"),
        ("gpu", "1,,2", "empty value of gpu"),
        ("gpu", [], "no values of gpu"),
        ("gpu", "one", "wrong value of 'gpu': got 'one'"),
        ("gpu", "4097", "gpu out of range: got 4097"),
        ("gpu", "1..4097", "gpu out of range: got 4097"),
        ("batch", "-1", "batch out of range"),
        ("batch", "9999999999999999999", "batch out of range"),
        ("soft-placement", "maybe", "expected true or false"),
        ("gpu-model", "Tesla K81", "unknown GPU model: got 'Tesla K81'"),
        ("shape:x", "16,224", None),
        ("shape:x", "16x-1", "wrong value of 'shape:x'"),
        ("link:host-network", "0", "bandwidth out of range"),
        ("link:host", "1", "bad link"),
        ("batch", "1..20000", "too many combinations: got 20000"),
        ("batch", range(20000), "too many combinations: got 20000"),
        ("batch", "1..1000000000000000000", "too many combinations"),
    ],
)
def test_what_is_wrong_is_said(key: str, written: Any, message: str | None) -> None:
    if message is None:
        assert len(make_axes([(key, written)])[0].values) == 2
        return
    with pytest.raises(UsageError) as caught:
        make_axes([(key, written)])
    assert message in caught.value.message


def test_there_is_an_end_to_combinations() -> None:
    with pytest.raises(UsageError, match=r"too many combinations: got 20000 \(100 gpu x 200 batch\), expected at most 10000"):
        make_axes([("gpu", "1..100"), ("batch", "1..200")])
    axes = make_axes([("gpu", "1..100"), ("batch", "1..200")], 2 * MOST_COMBINATIONS)
    assert len(list(combinations(axes))) == 20000


def test_a_key_is_given_once() -> None:
    with pytest.raises(UsageError, match="duplicate key gpu-model"):
        make_axes([("gpu-model", "Tesla K80"), ("gpu_model", "Tesla T4")])


def test_the_last_key_changes_first() -> None:
    assert list(combinations((Axis("gpu", (1, 2)), Axis("batch", (3, 4))))) == [(1, 3), (1, 4), (2, 3), (2, 4)]
    assert list(combinations(())) == [()]


@given(st.lists(st.integers(0, 4096), min_size=1, max_size=20, unique=True))
def test_a_value_is_read_as_it_is_written(numbers: list[int]) -> None:
    assert make_axes([("gpu", ",".join(map(str, numbers)))]) == make_axes([("gpu", numbers)]) == (Axis("gpu", tuple(numbers)),)
    assert [value_of("gpu", str(number)) for number in numbers] == numbers


def test_a_combination_is_set_over_what_all_have_in_common() -> None:
    keys = (
        "gpu",
        "shape:x",
        "shape:y",
        "feed:n",
        "link:host-network",
        "device:a/*",
        "config:allow_growth",
        "steps",
        "no-memory-limit",
    )
    values = (2, "3x4", "[]", "[1, 2]", "1GB/s", "/gpu:1", "true", 7, True)
    common = {"shape": ("x=1,1", "z=5"), "feed": {"m": 3}, "link": ("GPU:0-host=1",), "device": ("a/*=/cpu:0", "b=/cpu:0")}
    options, steps, config = settings_of(keys, values, common, 3)
    found = make_options(options)
    assert (found.gpu, found.no_memory_limit, steps, config) == (2, True, 7, {"allow_growth": True})
    assert found.shapes == {"x": (3, 4), "z": (5,), "y": ()}
    assert found.feed == {"m": 3, "n": [1, 2]}
    assert found.link == ("GPU:0-host=1", "host-network=1GB/s")
    assert dict(found.device_patterns) == {"a/*": "/gpu:1", "b": "/cpu:0"}
    assert common["shape"] == ("x=1,1", "z=5")


def test_set_has_a_key_and_values() -> None:
    assert parse_set("link:GPU:0>host=1GB/s") == ("link:GPU:0>host", "1GB/s")
    assert parse_set("feed:n=a=b") == ("feed:n", "a=b")
    with pytest.raises(UsageError, match="wrong --set"):
        parse_set("gpu")
