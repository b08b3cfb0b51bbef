"""The inventory: which devices there are, in which order, what they are called and how much memory they have."""

from __future__ import annotations

from typing import Any

import pytest

from placesim.core.errors import NotFoundError
from placesim.machine.device_names import ANY, DeviceName, parse_python_spec
from placesim.machine.gpu_memory import describe_gpu
from placesim.machine.gpu_models import DEFAULT_MODEL, GPU_MODELS
from placesim.machine.gpu_options import DeviceOptions, GpuOptions
from placesim.machine.inventory import CPU_MEMORY_BYTES, DeviceSet, TaskInventory, build_devices

GIB = 1 << 30
LOCAL = "/job:localhost/replica:0/task:0/device:"
WORKER = DeviceName("worker", 0, 0)
CLUSTER = (TaskInventory(cpu=1, gpu=2, job="worker", tasks=2), TaskInventory(job="ps"))


def short_names(
    inventory: TaskInventory, device_count: dict[str, int] | None = None, visible_device_list: str = ""
) -> list[str]:
    options = DeviceOptions(GpuOptions(visible_device_list=visible_device_list), device_count or {})
    devices = build_devices([inventory], options)
    return [device.name.removeprefix(LOCAL) for device in devices]


CREATED = [
    # 3.1, 3.2: CPUs, GPUs, then the others
    (TaskInventory(), {}, ["CPU:0"]),
    (TaskInventory(cpu=2, gpu=2), {}, ["CPU:0", "CPU:1", "GPU:0", "GPU:1"]),
    (TaskInventory(gpu=1, xla_cpu=1, xla_gpu=1), {}, ["CPU:0", "GPU:0", "XLA_CPU:0", "XLA_GPU:0"]),
    # 3.3: `device_count` sets the CPUs, bounds the GPUs, and other keys mean nothing
    (TaskInventory(gpu=2), {"device_count": {"CPU": 3}}, ["CPU:0", "CPU:1", "CPU:2", "GPU:0", "GPU:1"]),
    (TaskInventory(gpu=2), {"device_count": {"GPU": 1}}, ["CPU:0", "GPU:0"]),
    (TaskInventory(gpu=2), {"device_count": {"GPU": 0}}, ["CPU:0"]),
    (TaskInventory(gpu=2), {"device_count": {"GPU": 5, "TPU": 1}}, ["CPU:0", "GPU:0", "GPU:1"]),
    # 10.1.1
    (TaskInventory(gpu=6), {"visible_device_list": "5,3"}, ["CPU:0", "GPU:0", "GPU:1"]),
    (TaskInventory(gpu=6), {"visible_device_list": "5,3", "device_count": {"GPU": 1}}, ["CPU:0", "GPU:0"]),
]


@pytest.mark.parametrize(("inventory", "options", "expected"), CREATED)
def test_creation_order(inventory: TaskInventory, options: dict[str, Any], expected: list[str]) -> None:
    assert short_names(inventory, **options) == expected


def test_clusters_are_created_task_by_task() -> None:
    names = [device.name.replace("/replica:0", "").replace("/device", "") for device in build_devices(CLUSTER)]
    assert names == [
        *(f"/job:worker/task:0:{d}" for d in ("CPU:0", "GPU:0", "GPU:1")),
        *(f"/job:worker/task:1:{d}" for d in ("CPU:0", "GPU:0", "GPU:1")),
        "/job:ps/task:0:CPU:0",
    ]


@pytest.mark.parametrize("cpus", [0, -1])
def test_a_machine_without_a_cpu(cpus: int) -> None:
    with pytest.raises(NotFoundError) as raised:
        short_names(TaskInventory(), device_count={"CPU": cpus})
    assert str(raised.value) == "No CPU devices are available in this process"


def test_the_visible_list_numbers_the_gpus() -> None:
    devices = build_devices([TaskInventory(gpu=6)], DeviceOptions(GpuOptions(visible_device_list="5,3")))
    assert [device.physical_device_desc.split(",")[0] for device in devices] == ["", "device: 5", "device: 3"]


def test_memory_of_devices() -> None:
    cpu, gpu, xla = build_devices(
        [TaskInventory(gpu=1, xla_cpu=1)], DeviceOptions(GpuOptions(per_process_gpu_memory_fraction=0.5))
    )
    assert cpu.memory_limit == CPU_MEMORY_BYTES == 268435456
    assert gpu.memory_limit == DEFAULT_MODEL.memory // 2
    assert xla.physical_device_desc == "device: XLA_CPU device"
    assert [device.allocation_limit for device in (cpu, gpu, xla)] == [None, DEFAULT_MODEL.memory // 2, None]


def test_a_cpu_may_be_given_its_memory() -> None:
    first, second = build_devices([TaskInventory(cpu=2, cpu_memory=8 * GIB)])
    assert [first.memory_limit, second.allocation_limit] == [8 * GIB, 8 * GIB]


BUS_IDS = [
    ("Tesla K40c", ["0000:05:00.0", "0000:06:00.0", "0000:07:00.0"]),
    ("Tesla K20m", ["0000:02:00.0", "0000:03:00.0", "0000:83:00.0", "0000:84:00.0", "0000:85:00.0"]),
    ("Tesla K80", ["0000:05:00.0", "0000:06:00.0"]),
]


@pytest.mark.parametrize(("name", "expected"), BUS_IDS)
def test_bus_ids(name: str, expected: list[str]) -> None:
    assert [GPU_MODELS[name].bus_id(i) for i in range(len(expected))] == expected


def test_no_two_gpus_share_a_bus_id() -> None:
    for model in GPU_MODELS.values():
        assert len({model.bus_id(i) for i in range(600)}) == 600


def test_mapping_line() -> None:
    gpu = build_devices([TaskInventory(gpu=1)])[1]
    description = "device: 0, name: Tesla K40c, pci bus id: 0000:05:00.0, compute capability: 3.5"
    assert describe_gpu(DEFAULT_MODEL, 0) == description
    assert gpu.mapping_line == f"{LOCAL}GPU:0 -> {description}"


def device_set(local: DeviceName = ANY) -> DeviceSet:
    return DeviceSet(build_devices(CLUSTER), local)


def in_short(names: list[str]) -> list[str]:
    return [
        name.replace("/replica:0", "").replace("/job:", "").replace("/task:", "").replace("/device:", ".") for name in names
    ]


def test_types_by_priority() -> None:
    devices = DeviceSet(build_devices([TaskInventory(gpu=1, xla_cpu=1, xla_gpu=1)]))
    assert devices.types == ("GPU", "CPU", "XLA_CPU", "XLA_GPU")
    assert DeviceSet(devices.devices, priorities={"XLA_GPU": 300}).types == ("XLA_GPU", "CPU", "GPU", "XLA_CPU")


def test_order_is_by_type_then_local_then_name() -> None:
    assert in_short([device.name for device in device_set(WORKER._replace(task=1)).ordered]) == [
        *("worker1.GPU:0", "worker1.GPU:1", "worker0.GPU:0", "worker0.GPU:1"),
        *("worker1.CPU:0", "ps0.CPU:0", "worker0.CPU:0"),
    ]


def test_names_sort_as_text() -> None:
    ordered = DeviceSet(build_devices([TaskInventory(cpu=12)])).ordered
    assert [device.name.removeprefix(LOCAL) for device in ordered][:5] == ["CPU:0", "CPU:1", "CPU:10", "CPU:11", "CPU:2"]


MATCHES = [
    ("/gpu:0", ["worker0.GPU:0", "worker1.GPU:0"]),
    ("/job:worker/task:1", ["worker1.GPU:0", "worker1.GPU:1", "worker1.CPU:0"]),
    ("/job:worker/replica:0/task:1/gpu:1", ["worker1.GPU:1"]),
    ("/job:ps", ["ps0.CPU:0"]),
    ("/cpu:*", ["worker0.CPU:0", "ps0.CPU:0", "worker1.CPU:0"]),
    ("/job:worker/replica:0/task:1/gpu:2", []),
    ("/job:nobody", []),
    ("/device:TPU:0", []),
]


@pytest.mark.parametrize(("text", "expected"), MATCHES)
def test_matching(text: str, expected: list[str]) -> None:
    assert in_short([device.name for device in device_set(WORKER).matching(parse_python_spec(text))]) == expected


@pytest.mark.parametrize(("local", "client"), [(ANY, "worker0.CPU:0"), (DeviceName("ps", 0, 0), "ps0.CPU:0")])
def test_client_device(local: DeviceName, client: str) -> None:
    assert in_short([device_set(local).client.name]) == [client]


def test_a_sessions_own_devices_come_after_remote_ones() -> None:
    assert in_short([device.name for device in device_set(WORKER).devices])[-3:] == [
        "worker0.CPU:0",
        "worker0.GPU:0",
        "worker0.GPU:1",
    ]
