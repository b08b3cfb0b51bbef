"""The devices of an inventory, their order, and which of them a specification matches (section 3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.core.errors import InvalidArgumentError, NotFoundError
from placesim.machine.device_names import DeviceName, parse_runtime_name
from placesim.machine.gpu_options import DeviceOptions, GpuOptions
from placesim.machine.inventory import DeviceSet, TaskInventory, build_devices

CLUSTER = (TaskInventory(job="ps", tasks=2), TaskInventory(cpu=2, gpu=2, xla_cpu=1, job="worker", tasks=2))


def _short(name: str) -> str:
    return name.replace("/job:", "").replace("/replica:0/task:", "").replace("/device:", " ")


def test_devices_are_made_task_by_task_cpus_first() -> None:
    assert [_short(device.name) for device in build_devices(CLUSTER)] == [
        "ps0 CPU:0",
        "ps1 CPU:0",
        *(f"worker{task} {device}" for task in (0, 1) for device in ("CPU:0", "CPU:1", "GPU:0", "GPU:1", "XLA_CPU:0")),
    ]


def test_the_order_is_type_then_own_task_then_name_as_text() -> None:
    devices = build_devices([TaskInventory(cpu=11), *CLUSTER])
    ordered = DeviceSet(devices, DeviceName("worker", 0, 1)).ordered
    assert [_short(device.name) for device in ordered] == [
        *("worker1 GPU:0", "worker1 GPU:1", "worker0 GPU:0", "worker0 GPU:1"),
        *("worker1 CPU:0", "worker1 CPU:1"),
        *(f"localhost0 CPU:{i}" for i in (0, 1, 10, *range(2, 10))),
        *("ps0 CPU:0", "ps1 CPU:0", "worker0 CPU:0", "worker0 CPU:1"),
        *("worker1 XLA_CPU:0", "worker0 XLA_CPU:0"),
    ]


def test_types_are_sorted_by_priority_and_the_client_is_the_own_first_cpu() -> None:
    device_set = DeviceSet(build_devices(CLUSTER), DeviceName("worker", 0, 1))
    assert device_set.types == ("GPU", "CPU", "XLA_CPU")
    assert _short(device_set.client.name) == "worker1 CPU:0"


_SPECS = st.builds(
    DeviceName,
    st.sampled_from([None, "ps", "worker", "ghost"]),
    st.sampled_from([None, 0]),
    st.sampled_from([None, 0, 1, 7]),
    st.sampled_from([None, "CPU", "GPU", "XLA_CPU", "TPU"]),
    st.sampled_from([None, 0, 1, 9]),
)


@given(_SPECS)
def test_what_matches_is_what_agrees_in_every_field_that_is_set(spec: DeviceName) -> None:
    device_set = DeviceSet(build_devices(CLUSTER), DeviceName("ps", 0, 0))
    assert device_set.matching(spec) == tuple(d for d in device_set.ordered if spec.matches(d.spec))


@given(_SPECS)
def test_a_specification_reads_back_from_its_text(spec: DeviceName) -> None:
    expected = spec if spec.type else spec._replace(id=None)
    assert parse_runtime_name(str(spec)) == expected


def test_device_count_and_visible_devices_choose() -> None:
    options = DeviceOptions(GpuOptions(visible_device_list="3,1,0"), {"CPU": 2, "GPU": 2})
    devices = build_devices([TaskInventory(gpu=4)], options)
    assert [_short(device.name) for device in devices] == [f"localhost0 {d}" for d in ("CPU:0", "CPU:1", "GPU:0", "GPU:1")]
    assert [device.physical_device_desc.split(",")[0] for device in devices[2:]] == ["device: 3", "device: 1"]


@pytest.mark.parametrize("visible", ["x", "4", "0,0"])
def test_a_bad_list_of_visible_devices_is_refused(visible: str) -> None:
    with pytest.raises(InvalidArgumentError, match="visible_device_list"):
        build_devices([TaskInventory(gpu=4)], DeviceOptions(GpuOptions(visible_device_list=visible)))


def test_a_task_needs_a_cpu() -> None:
    with pytest.raises(NotFoundError, match="No CPU devices are available in this process"):
        build_devices([TaskInventory(cpu=0)])
