"""Which device lives in which worker."""

from __future__ import annotations

import pytest

from placesim.core.errors import PlacesimError, UnavailableError, UsageError
from placesim.runtime.cluster.device_assignment import DeviceAssignment, DeviceMove, check_bindings, find_homes, parse_binding
from placesim.runtime.cluster.versions import Offer

PS, W0, W1 = ("/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1")
DEVICES = (f"{PS}/device:CPU:0", f"{W0}/device:CPU:0", f"{W0}/device:GPU:0", f"{W1}/device:CPU:0", f"{W1}/device:GPU:0")
A, B, C, D = (
    Offer("tcp://10.0.0.1:1001", "0", "10.0.0.1", 1, None),
    Offer("tcp://10.0.0.1:1002", "1", "10.0.0.1", 1, None),
    Offer("tcp://10.0.0.2:1003", "fast", "10.0.0.2", 4, None),
    Offer("tcp://10.0.0.2:1004", "/job:ps/task:0", "10.0.0.2", 4, None),
)


def homes(
    *bindings: str,
    offers: tuple[Offer, ...] = (A, B, C),
    per: str = "task",
    soft: bool = False,
    devices: tuple[str, ...] = DEVICES,
) -> DeviceAssignment:
    return find_homes(devices, per, [parse_binding(text) for text in bindings], offers, is_soft=soft)


def ports(found: DeviceAssignment) -> list[int]:
    """The last digit of each device's worker's address."""
    return [int(found.workers[device][-1]) for device in DEVICES]


@pytest.mark.parametrize(
    ("bindings", "expected"),
    [
        ((), [1, 2, 2, 3, 3]),
        (("/job:ps=fast",), [3, 1, 1, 2, 2]),
        (("/job:ps=10.0.0.2:1003",), [3, 1, 1, 2, 2]),
        (("/job:ps=tcp://10.0.0.2:1003",), [3, 1, 1, 2, 2]),
        (("/job:ps=10.0.0.2",), [3, 1, 1, 2, 2]),
        # a host's workers are taken in turns
        (("/job:worker=10.0.0.1",), [3, 1, 1, 2, 2]),
        # what says more of a name holds, whichever comes first; of equals the last
        (("/job:worker/task:1=1", "/job:worker=fast"), [1, 3, 3, 2, 2]),
        (("/job:worker=fast", "/job:worker/task:1=1"), [1, 3, 3, 2, 2]),
        (("/job:ps=0", "/job:ps=1"), [2, 1, 1, 3, 3]),
        # a device may live apart from its task
        (("/job:worker/task:0/device:GPU:0=fast", "/job:worker/task:1=fast"), [1, 2, 3, 3, 3]),
        (("/gpu:*=fast", "/cpu:0=0"), [1, 1, 3, 1, 3]),
        (("/job:worker/task:*=fast",), [1, 3, 3, 3, 3]),
    ],
)
def test_where_devices_live(bindings: tuple[str, ...], expected: list[int]) -> None:
    found = homes(*bindings)
    assert ports(found) == expected
    assert found.moved == ()


def test_a_worker_takes_the_task_that_it_is_named_for() -> None:
    assert ports(homes(offers=(A, B, D))) == [4, 1, 1, 2, 2]
    assert ports(homes("/job:ps=0", offers=(A, B, C, D))) == [1, 2, 2, 3, 3]


def test_each_device_may_have_a_worker() -> None:
    found = homes(per="device", offers=(A, B, C, D), devices=DEVICES[:4])
    assert [address[-1] for address in found.workers.values()] == ["4", "1", "2", "3"]


def test_soft_placement_shares_workers() -> None:
    found = homes(offers=(A, B), soft=True)
    assert ports(found) == [1, 2, 2, 1, 1]
    assert found.moved == (DeviceMove(W1, "", A.address),)


def test_soft_placement_takes_another_worker() -> None:
    found = homes("/job:ps=10.0.0.9", soft=True)
    assert ports(found) == [1, 2, 2, 3, 3]
    assert found.moved == (DeviceMove(PS, "10.0.0.9", A.address),)


@pytest.mark.parametrize(
    ("bindings", "offers", "kind", "sentence"),
    [
        (
            (),
            (A, B),
            UnavailableError,
            f"too few workers: got 2 for 3 tasks, expected a further one for {W1}, "
            "or soft placement, which lets tasks share a worker",
        ),
        (
            ("/job:ps=10.0.0.9",),
            (A, B, C),
            UsageError,
            "got '/job:ps=10.0.0.9', expected a worker of the cluster: tcp://10.0.0.1",
        ),
        (("/job:worker=fast",), (C,), UnavailableError, f"got 1 for 3 tasks, expected a further one for {PS}, or soft"),
    ],
)
def test_what_can_not_be(
    bindings: tuple[str, ...], offers: tuple[Offer, ...], kind: type[PlacesimError], sentence: str
) -> None:
    with pytest.raises(kind) as caught:
        homes(*bindings, offers=offers)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("/job:ps", "got '/job:ps', expected DEVICE=ADDRESS, such as /job:ps/task:0=tcp://10.0.0.2:40331"),
        ("=tcp://10.0.0.1:1", "got '=tcp://10.0.0.1:1', expected DEVICE=ADDRESS"),
        ("/jop:ps=a", "Unknown attribute 'jop' is encountered while parsing the device spec: '/jop:ps'."),
        ("/job:pss=a", f"got '/job:pss=a', expected a device of the machine: {DEVICES[0]}"),
    ],
)
def test_a_worker_for_no_device(text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_bindings([parse_binding(text)], DEVICES)
    assert sentence in str(caught.value)
