"""GPUs under a session's options: which there are, with which limits, and what TensorFlow says where they can't be had."""

from __future__ import annotations

from typing import Any

import pytest

from placesim.core.errors import (
    AlreadyExistsError,
    InternalError,
    InvalidArgumentError,
    Location,
    PlacesimError,
    UnknownError,
    UsageError,
)
from placesim.machine.gpu_memory import GpuLogLine, GpuProcess, gpu_memory_limit, visible_gpus
from placesim.machine.gpu_models import GPU_MODELS, MIB, GpuModel
from placesim.machine.gpu_options import DeviceOptions, GpuEnvironment, GpuOptions, VirtualDevices
from placesim.machine.inventory import MAX_DEVICES, Device, TaskInventory, build_devices

GIB = 1 << 30
K20M = GPU_MODELS["Tesla K20m"]
P4 = GPU_MODELS["Tesla P4"]
V = VirtualDevices


def gpus(
    options: GpuOptions,
    count: int = 2,
    model: GpuModel = P4,
    most: int | None = None,
    environment: dict[str, str] | None = None,
    process: GpuProcess | None = None,
) -> tuple[list[Device], list[GpuLogLine]]:
    """The GPUs of a machine with so many, and what is logged."""
    log: list[GpuLogLine] = []
    counts = {} if most is None else {"GPU": most}
    asked = DeviceOptions(options, counts, GpuEnvironment.of(environment or {}))
    devices = build_devices([TaskInventory(gpu=count, gpu_model=model)], asked, process, log.append)
    return [device for device in devices if device.type == "GPU"], log


def warnings(log: list[GpuLogLine]) -> list[tuple[str, str]]:
    return [tuple(line) for line in log if not line.text.startswith("Created device ")]  # type: ignore[misc]


# --- visible_device_list


VISIBLE = [("", 3, (0, 1, 2)), ("", 0, ()), ("1", 2, (1,)), ("5,3", 6, (5, 3)), (" 2,0 ,+1", 3, (2, 0, 1))]
LIST_ERRORS = [
    # 10.1.2
    ("a", 2, "Could not parse entry in 'visible_device_list': 'a'."),
    ("x,0", 2, "Could not parse entry in 'visible_device_list': 'x'."),
    ("0,", 2, "Could not parse entry in 'visible_device_list': ''."),
    ("0,1.5", 2, "Could not parse entry in 'visible_device_list': '1.5'."),
    ("0,\u00b2", 3, "Could not parse entry in 'visible_device_list': '\u00b2'."),
    ("2147483648", 3, "Could not parse entry in 'visible_device_list': '2147483648'."),
    ("9" * 5000, 3, f"Could not parse entry in 'visible_device_list': '{'9' * 5000}'."),
    ("7", 2, "'visible_device_list' listed an invalid Device id '7' but visible device count is 2"),
    ("-1", 2, "'visible_device_list' listed an invalid Device id '-1' but visible device count is 2"),
    ("0,0", 2, "visible_device_list contained a duplicate entry: 0,0"),
]


@pytest.mark.parametrize(("text", "count", "ids"), VISIBLE)
def test_visible_device_list(text: str, count: int, ids: tuple[int, ...]) -> None:
    assert visible_gpus(text, count) == ids


@pytest.mark.parametrize(("text", "count", "message"), LIST_ERRORS, ids=lambda value: str(value)[:30])
def test_visible_device_list_errors(text: str, count: int, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        gpus(GpuOptions(visible_device_list=text), count)
    assert str(raised.value) == message


def test_nothing_is_asked_where_no_gpu_is() -> None:
    assert gpus(GpuOptions(visible_device_list="7", virtual_devices=(V((0.5,)),)), count=0) == ([], [])


def test_a_list_is_not_read_where_no_gpu_is_wanted() -> None:
    assert gpus(GpuOptions(visible_device_list="x"), most=0) == ([], [])


# --- limits


LIMITS: list[tuple[GpuModel, dict[str, Any], int]] = [
    # 10.3.2: a fraction is of the total, and truncated
    (GpuModel("x", 12 * GIB), {"per_process_gpu_memory_fraction": 0.5}, 6 * GIB),
    (GpuModel("x", GIB + 1), {"per_process_gpu_memory_fraction": 0.3}, 322122547),
    (GpuModel("x", 12 * GIB, "6.0"), {"per_process_gpu_memory_fraction": 1.5}, 18 * GIB),
    # 10.3.3: small ones keep back 225 MiB, larger ones by compute capability
    (GpuModel("x", GIB), {}, 799 * MIB),
    (GpuModel("x", 200 * MIB), {}, 200 * MIB),
    (GpuModel("x", 225 * MIB), {}, 225 * MIB),
    (GpuModel("x", 2 * GIB - 1), {}, 2 * GIB - 1 - 225 * MIB),
    (GpuModel("x", 2 * GIB, "3.5"), {}, 1548 * MIB),
    (GpuModel("x", 12 * GIB, "6.1"), {}, 12 * GIB - 500 * MIB),
    (GpuModel("x", 16 * GIB, "7.0"), {}, 16 * GIB - 1050 * MIB),
    (GpuModel("x", 40 * GIB, "8.0"), {}, 40 * GIB - 1536 * MIB),
    (GpuModel("x", 80 * GIB, "9.0"), {}, 80 * GIB - 1800 * MIB),
    (GpuModel("x", 180 * GIB, "10.0"), {}, 180 * GIB - 1800 * MIB),
    # the reserve that is asked for stands in the place of either
    (GpuModel("x", 4 * GIB), {"gpu_system_memory_size_in_mb": 1000}, 4 * GIB - 1000 * MIB),
    (GpuModel("x", 4 * GIB), {"gpu_system_memory_size_in_mb": 24, "per_process_gpu_memory_fraction": 0.5}, 4072 * MIB),
]


@pytest.mark.parametrize(("model", "options", "limit"), LIMITS)
def test_memory_limits(model: GpuModel, options: dict[str, Any], limit: int) -> None:
    assert gpu_memory_limit(model, GpuOptions(**options)) == limit


REQUESTED = "The requested reserved device memory"
RESERVES = [
    ({}, {"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "96"}, 4000 * MIB, []),
    ({"gpu_system_memory_size_in_mb": 1000}, {"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": " 96 "}, 4000 * MIB, []),
    ({"gpu_system_memory_size_in_mb": 1000}, {"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": ""}, 3096 * MIB, []),
    (
        {"gpu_system_memory_size_in_mb": 5000},
        {},
        3596 * MIB,
        [f"{REQUESTED} 4.88GiB is larger than the available memory of 4.00GiB. The request is ignored."],
    ),
    (
        {"gpu_system_memory_size_in_mb": 96},
        {"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "1e3"},
        4000 * MIB,
        [f"{REQUESTED} 1e3 is invalid. The request will be ignored."],
    ),
    ({}, {"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "-1"}, 3596 * MIB, [f"{REQUESTED} -1 is invalid. The request will be ignored."]),
]


@pytest.mark.parametrize(("options", "environment", "limit", "texts"), RESERVES)
def test_a_reserve_that_is_asked_for(
    options: dict[str, Any], environment: dict[str, str], limit: int, texts: list[str]
) -> None:
    made, log = gpus(GpuOptions(**options), 1, GpuModel("x", 4 * GIB, "3.5"), environment=environment)
    assert [gpu.memory_limit for gpu in made] == [limit]
    assert warnings(log) == [("W", text) for text in texts]


@pytest.mark.parametrize("options", [{"per_process_gpu_memory_fraction": 1.25}, {"use_unified_memory": True}])
def test_old_gpus_have_no_unified_memory(options: dict[str, Any]) -> None:
    with pytest.raises(InternalError) as raised:
        gpus(GpuOptions(**options), model=K20M)
    assert str(raised.value) == (
        "Unified memory on GPUs with compute capability lower than 6.0 (pre-Pascal class GPUs) does not support "
        "oversubscription."
    )
    (first, _), _ = gpus(GpuOptions(**options), model=P4)
    assert first.gpu is not None
    assert first.gpu.is_unified


@pytest.mark.parametrize("options", [{"per_process_gpu_memory_fraction": 1e-12}, {"gpu_system_memory_size_in_mb": 7611}])
def test_a_limit_of_nothing(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"no memory for GPU:0: got a limit of 0 bytes out of the 7980711936 of a Tesla P4"):
        gpus(GpuOptions(**options))


# --- virtual devices


def test_virtual_devices_are_numbered_through() -> None:
    """10.1.5, its example."""
    made, log = gpus(GpuOptions(visible_device_list="1,0", virtual_devices=(V((2048, 1024)), V())))
    whole = gpu_memory_limit(P4)
    assert [gpu.memory_limit for gpu in made] == [2048 * MIB, 1024 * MIB, whole]
    found = [gpu.gpu for gpu in made if gpu.gpu is not None]
    assert [(gpu.tf_id, gpu.visible_id, gpu.platform_id, gpu.name) for gpu in found] == [
        (0, 0, 1, "GPU_0_bfc"),
        (1, 0, 1, "GPU_1_bfc"),
        (2, 1, 0, "GPU_2_bfc"),
    ]
    assert [line.text.partition(" with ")[2] for line in log] == [
        "2048 MB memory:  -> device: 1, name: Tesla P4, pci bus id: 0000:06:00.0, compute capability: 6.1",
        "1024 MB memory:  -> device: 1, name: Tesla P4, pci bus id: 0000:06:00.0, compute capability: 6.1",
        f"{whole >> 20} MB memory:  -> device: 0, name: Tesla P4, pci bus id: 0000:05:00.0, compute capability: 6.1",
    ]


def test_ordinals_number_them_and_priorities_go_along() -> None:
    listed = (V((1, 2), (-1, 0), (10, 1)), V((3, 4), (-5, -2), (1, 0)))
    made, _ = gpus(GpuOptions(virtual_devices=listed))
    found = [gpu.gpu for gpu in made if gpu.gpu is not None]
    assert [(gpu.memory_limit // MIB, gpu.platform_id, gpu.priority) for gpu in found] == [
        (4, 1, -2),
        (2, 0, 0),
        (3, 1, -5),
        (1, 0, -1),
    ]


def test_a_limit_loses_its_fraction_as_a_float_of_32_bits() -> None:
    made, _ = gpus(GpuOptions(virtual_devices=(V((1.75, 1023.99999999)), V())))
    assert [gpu.memory_limit // MIB for gpu in made[:2]] == [1, 1024]


def test_so_many_devices_from_each_gpu() -> None:
    made, _ = gpus(GpuOptions(num_virtual_devices_per_gpu=3))
    assert [gpu.memory_limit for gpu in made] == [gpu_memory_limit(P4) // 3] * 6
    assert [gpu.physical_device_desc.split(",")[0] for gpu in made] == ["device: 0"] * 3 + ["device: 1"] * 3
    for count in (0, 1):
        assert len(gpus(GpuOptions(num_virtual_devices_per_gpu=count))[0]) == 2


def test_nothing_is_checked_against_what_is_there() -> None:
    made, _ = gpus(GpuOptions(virtual_devices=(V((1 << 20,)),)), count=1)
    assert made[0].memory_limit == 1 << 40


INVALID, UNKNOWN = InvalidArgumentError, UnknownError
VIRTUAL_ERRORS: list[tuple[type[PlacesimError], dict[str, Any], int | None, str]] = [
    (
        INVALID,
        {"per_process_gpu_memory_fraction": 0.5, "virtual_devices": (V(), V(), V())},
        None,
        "It's invalid to set per_process_gpu_memory_fraction when virtual_devices is set.",
    ),
    (
        UNKNOWN,
        {"visible_device_list": "0", "virtual_devices": (V(), V())},
        None,
        "Not enough GPUs to create virtual devices. num_gpus_to_use: 1 #virtual_devices: 2",
    ),
    (
        UNKNOWN,
        {"visible_device_list": "x", "virtual_devices": (V(),)},
        0,
        "Not enough GPUs to create virtual devices. num_gpus_to_use: 0 #virtual_devices: 1",
    ),
    (
        UNKNOWN,
        {"virtual_devices": (V(), V((1,), (), (0,)))},
        1,
        "Not enough GPUs to create virtual devices. num_gpus_to_use: 1 #virtual_devices: 2",
    ),
    (
        INVALID,
        {"visible_device_list": "1,0", "virtual_devices": (V(),)},
        None,
        "The number of GPUs in visible_device_list doesn't match the number of elements in the virtual_devices list. "
        "#GPUs in visible_device_list: 2 virtual_devices.size(): 1",
    ),
    (
        UNKNOWN,
        {"virtual_devices": (V(),)},
        None,
        "The number of valid GPUs doesn't match the number of elements in the virtual_devices list. "
        "#valid GPUs: 2 virtual_devices.size(): 1",
    ),
    (
        INVALID,
        {"virtual_devices": (V((1,)), V((1,), (7,), (0,)))},
        None,
        "Device ordinals must be set for all virtual devices or none. But the device_ordinal is specified for 1 while "
        "previous devices didn't have any set.",
    ),
    (
        INVALID,
        {"virtual_devices": (V((1, 2), (7,), (0,)), V((1,), (), (0,)))},
        None,
        "Number of virtual device ordinals specified doesn't match with number of memory_limit_mb specified for GPU# 0 "
        "memory_limit_mb size: 2 and device_ordinal size: 1",
    ),
    (
        INVALID,
        {"virtual_devices": (V((1,)), V((1,), (7,)))},
        None,
        "Priority must be set for all virtual devices or none. But the priority is specified for 1 while previous devices "
        "didn't have any set.",
    ),
    (
        INVALID,
        {"virtual_devices": (V((1, 2), (7,)), V((1,)))},
        None,
        "Number of virtual device priorities specified doesn't match with number of memory_limit_mb specified for GPU# 0 "
        "memory_limit_mb size: 2 and priority size: 1",
    ),
    (
        INVALID,
        {"virtual_devices": (V((1,), (5,)), V((1,), (0,)))},
        None,
        "Priority 5 is outside the range of supported priorities [-5,0] for virtual device 0 on GPU# 0",
    ),
    (
        INVALID,
        {"visible_device_list": "1,0", "virtual_devices": (V((1,), (-6,)), V((1,), (0,)))},
        None,
        "Priority -6 is outside the range of supported priorities [-5,0] for virtual device 0 on GPU# 1",
    ),
]


@pytest.mark.parametrize(("error", "options", "most", "message"), VIRTUAL_ERRORS)
def test_virtual_device_errors(error: type[PlacesimError], options: dict[str, Any], most: int | None, message: str) -> None:
    with pytest.raises(error) as raised:
        gpus(GpuOptions(**options), most=most)
    assert str(raised.value) == message


def test_too_many_devices_are_never_made() -> None:
    with pytest.raises(UsageError, match=f"too many devices: got 16777216, expected at most {MAX_DEVICES}"):
        gpus(GpuOptions(num_virtual_devices_per_gpu=4096), count=4096)


# --- allocators


def test_options_of_the_allocator() -> None:
    made, _ = gpus(
        GpuOptions(allow_growth=True, internal_fragmentation_fraction=0.05, disallow_retry_on_allocation_failure=True)
    )
    (plain, *_), _ = gpus(GpuOptions(allocator_type="BFC"))
    assert [gpu.allow_growth for gpu in (made[1].gpu, plain.gpu) if gpu] == [True, False]
    assert [gpu.fragmentation_fraction for gpu in (made[1].gpu, plain.gpu) if gpu] == [0.05, 0.0]
    assert [gpu.retries for gpu in (made[1].gpu, plain.gpu) if gpu] == [False, True]
    assert [gpu.garbage_collection for gpu in (made[1].gpu, plain.gpu) if gpu] == [True, True]


VALID = 'Valid values are "true" or "false".'
FORCED = (
    'The TF_FORCE_GPU_ALLOW_GROWTH environment variable is set but could not be parsed: "{}". '
    f"{VALID} Using original config value of {{}}."
)
OVERRIDING = (
    "Overriding orig_value setting because the TF_FORCE_GPU_ALLOW_GROWTH environment variable is set. "
    "Original config value was {}."
)
COLLECTION = (
    'The TF_ENABLE_GPU_GARBAGE_COLLECTION environment variable is set but could not be parsed: "{}". '
    f'{VALID} Using the default value "true".'
)
ENVIRONMENTS: list[tuple[dict[str, str], bool, dict[str, Any], list[tuple[str, str]]]] = [
    ({"TF_FORCE_GPU_ALLOW_GROWTH": "true"}, False, {"allow_growth": True}, [("W", OVERRIDING.format(0))]),
    ({"TF_FORCE_GPU_ALLOW_GROWTH": "true"}, True, {"allow_growth": True}, []),
    ({"TF_FORCE_GPU_ALLOW_GROWTH": "false"}, True, {"allow_growth": False}, [("W", OVERRIDING.format(1))]),
    ({"TF_FORCE_GPU_ALLOW_GROWTH": "1"}, True, {"allow_growth": True}, [("E", FORCED.format("1", 1))]),
    ({"TF_FORCE_GPU_ALLOW_GROWTH": ""}, False, {"allow_growth": False}, [("E", FORCED.format("", 0))]),
    ({"TF_ENABLE_GPU_GARBAGE_COLLECTION": "false"}, False, {"garbage_collection": False}, []),
    ({"TF_ENABLE_GPU_GARBAGE_COLLECTION": "true"}, False, {"garbage_collection": True}, []),
    ({"TF_ENABLE_GPU_GARBAGE_COLLECTION": "no"}, False, {"garbage_collection": True}, [("E", COLLECTION.format("no"))]),
    (
        {"TF_GPU_ALLOCATOR": "cuda_malloc_async"},
        False,
        {"allocator": "cuda_malloc_async"},
        [("I", "Using CUDA malloc Async allocator for GPU: 1")],
    ),
    (
        {"TF_GPU_ALLOCATOR": "cuda_malloc"},
        False,
        {"allocator": "cuda_malloc"},
        [("I", "Using CUDA malloc allocator for GPU.")],
    ),
    (
        {"TF_GPU_ALLOCATOR": "memory_guard"},
        False,
        {"allocator": "memory_guard"},
        [("I", "Using memory guard allocator for GPU.")],
    ),
    ({"TF_GPU_ALLOCATOR": "bfc"}, False, {"allocator": ""}, []),
    ({"HOME": "/"}, False, {"allocator": "", "allow_growth": False}, []),
]


@pytest.mark.parametrize(("environment", "allow_growth", "fields", "lines"), ENVIRONMENTS)
def test_environment(
    environment: dict[str, str], allow_growth: bool, fields: dict[str, Any], lines: list[tuple[str, str]]
) -> None:
    options = GpuOptions(allow_growth=allow_growth, visible_device_list="1")
    (gpu,), log = gpus(options, environment=environment)
    assert {name: getattr(gpu.gpu, name) for name in fields} == fields
    assert warnings(log) == lines
    assert log[-1].text.startswith("Created device ")


@pytest.mark.parametrize(("text", "limit"), [(None, 131072), ("512", 512), ("x", 131072)])
def test_pinned_host_memory(text: str | None, limit: int) -> None:
    environment = {} if text is None else {"TF_GPU_HOST_MEM_LIMIT_IN_MB": text}
    assert GpuEnvironment.of(environment).host_memory_limit == limit * MIB


def test_an_unknown_allocator() -> None:
    log: list[GpuLogLine] = []
    options = DeviceOptions(GpuOptions(allocator_type="buddy"), location=Location("f.yaml", 3, 5))
    with pytest.raises(InternalError) as raised:
        build_devices([TaskInventory(gpu=2, gpu_model=P4)], options, log=log.append)
    assert str(raised.value) == "Failed to get memory allocator for TF GPU 0 with 7456423936 bytes of memory."
    assert raised.value.location == Location("f.yaml", 3, 5)
    assert log == [("E", "Invalid allocator type: buddy")]


# --- one process


def test_a_later_session_gets_the_first_ones_allocators() -> None:
    """10.3.5."""
    process = GpuProcess()
    first, _ = gpus(GpuOptions(per_process_gpu_memory_fraction=0.5, allow_growth=True), count=1, process=process)
    environment = {"TF_FORCE_GPU_ALLOW_GROWTH": "x"}
    later, log = gpus(GpuOptions(per_process_gpu_memory_fraction=0.25), count=2, process=process, environment=environment)
    assert later[0].gpu is first[0].gpu
    assert [gpu.memory_limit for gpu in later] == [P4.memory // 2, P4.memory // 4]
    assert [line.severity for line in log] == ["I", "E", "I"], "an allocator that is there is asked nothing"
    assert "with 3805 MB memory" in log[0].text


def test_a_number_stays_with_its_gpu() -> None:
    """10.1.6."""
    process = GpuProcess()
    gpus(GpuOptions(), process=process)
    with pytest.raises(AlreadyExistsError) as raised:
        gpus(GpuOptions(visible_device_list="1,0"), process=process)
    assert str(raised.value) == (
        "TensorFlow device (GPU:0) is being mapped to multiple devices (1 now, and 0 previously), which is not supported. "
        "This may be the result of providing different GPU configurations (ConfigProto.gpu_options, for example different "
        "visible_device_list) when creating multiple Sessions in the same process. This is not currently supported, see "
        "https://github.com/tensorflow/tensorflow/issues/19083"
    )
    gpus(GpuOptions(visible_device_list="0"), process=process)


def test_tasks_are_processes_of_their_own() -> None:
    process = GpuProcess()
    machine = [TaskInventory(gpu=1, gpu_model=P4, job="worker", tasks=2)]
    build_devices(machine, None, process)
    names = [device.name for device in build_devices(machine, None, process) if device.gpu]
    assert [process.find(name) is not None for name in names] == [True, True]
    assert process.find("/job:worker/replica:0/task:2/device:GPU:0") is None
