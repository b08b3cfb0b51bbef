"""Which kernel would run: device type, `DEFAULT`, labels, priorities, and the error texts (section 4)."""

from __future__ import annotations

import pytest

from placesim.core.dtypes import FLOAT, HALF, INT32, STRING
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import AttrValue
from placesim.ops.definitions import KernelDef, OpDef
from placesim.ops.kernel_lookup import find_kernel, format_kernel, format_registered_kernels, no_kernel_message
from placesim.ops.registry import Registry


def kernel(device_type: str, *types: AttrValue, priority: int = 0, label: str = "", op: str = "Toy") -> KernelDef:
    return KernelDef(op, device_type, {"T": types} if types else {}, (), priority, label)


def registry(*kernels: KernelDef) -> Registry:
    return Registry("toy", {"Toy": OpDef("Toy", (), (), {})}, {"Toy": kernels})


CPU = kernel("CPU", FLOAT, INT32)
GPU = kernel("GPU", FLOAT)
FAST = kernel("GPU", FLOAT, priority=2)
LABELLED = kernel("GPU", FLOAT, label="eager")
DEFAULT = kernel("DEFAULT")

FOUND = [
    # kernels, device type, attrs, the one that is found
    ((CPU, GPU), "CPU", {"T": FLOAT}, CPU),
    ((CPU, GPU), "GPU", {"T": FLOAT}, GPU),
    ((CPU, GPU), "GPU", {"T": INT32}, None),
    ((CPU, GPU), "TPU", {"T": FLOAT}, None),
    ((CPU, GPU), "CPU", {}, None),
    # 4.2b: the highest priority, wherever it stands
    ((GPU, FAST), "GPU", {"T": FLOAT}, FAST),
    ((FAST, GPU), "GPU", {"T": FLOAT}, FAST),
    # 4.2a: a label asks for kernels with that label alone
    ((GPU, LABELLED), "GPU", {"T": FLOAT}, GPU),
    ((GPU, LABELLED), "GPU", {"T": FLOAT, "_kernel": "eager"}, LABELLED),
    ((GPU, LABELLED), "GPU", {"T": FLOAT, "_kernel": "other"}, None),
    ((GPU, DEFAULT), "GPU", {"T": FLOAT, "_kernel": "other"}, None),
    # 4.2c: any type has what is registered for DEFAULT, unless it has its own or only compiles
    ((CPU, DEFAULT), "CPU", {"T": FLOAT}, CPU),
    ((CPU, DEFAULT), "CPU", {"T": STRING}, DEFAULT),
    ((CPU, DEFAULT), "TPU", {"T": FLOAT}, DEFAULT),
    ((CPU, DEFAULT), "XLA_GPU_JIT", {"T": FLOAT}, None),
    ((kernel("XLA_GPU_JIT"), DEFAULT), "XLA_GPU_JIT", {}, kernel("XLA_GPU_JIT")),
]


@pytest.mark.parametrize(("kernels", "device_type", "attrs", "expected"), FOUND)
def test_lookup(
    kernels: tuple[KernelDef, ...], device_type: str, attrs: dict[str, AttrValue], expected: KernelDef | None
) -> None:
    assert find_kernel(registry(*kernels), "Toy", device_type, attrs, "n") == expected


TYPED = 'constraint { name: "T" allowed_values { list { type: DT_FLOAT } } }'
SAME = "Multiple OpKernel registrations match NodeDef at the same priority '{{node n}}': "
AMBIGUOUS = [
    (
        (GPU, kernel("GPU")),
        "GPU",
        f'{SAME}\'op: "Toy" device_type: "GPU" {TYPED}\' and \'op: "Toy" device_type: "GPU"\'',
    ),
    (
        (GPU, FAST, FAST),
        "GPU",
        f'{SAME}\'op: "Toy" device_type: "GPU" {TYPED} priority: 2\' and \'op: "Toy" device_type: "GPU" {TYPED} priority: 2\'',
    ),
    (
        (DEFAULT, kernel("DEFAULT", FLOAT)),
        "CPU",
        "Multiple Default OpKernel registrations match NodeDef '{{node n}}': "
        f'\'op: "Toy" device_type: "DEFAULT"\' and \'op: "Toy" device_type: "DEFAULT" {TYPED}\'',
    ),
]


@pytest.mark.parametrize(("kernels", "device_type", "message"), AMBIGUOUS)
def test_two_matches(kernels: tuple[KernelDef, ...], device_type: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        find_kernel(registry(*kernels), "Toy", device_type, {"T": FLOAT}, "n")
    assert (str(raised.value), raised.value.node) == (message, "n")


def test_two_matches_below_the_best_are_fine() -> None:
    assert find_kernel(registry(FAST, GPU, GPU), "Toy", "GPU", {"T": FLOAT}, "n") == FAST


def test_registered_kernels_as_text() -> None:
    text = format_registered_kernels(registry(LABELLED, CPU, DEFAULT, kernel("GPU", HALF, "a\n")), "Toy")
    assert text == (
        "  device='GPU'; label='eager'; T in [DT_FLOAT]\n"
        "  device='CPU'; T in [DT_FLOAT, DT_INT32]\n"
        "  device='DEFAULT'\n"
        "  device='GPU'; T in [DT_HALF, \"a\\n\"]\n"
    )
    assert format_registered_kernels(registry(), "Toy") == "  <no registered kernels>\n"


def test_a_registration_as_text() -> None:
    full = KernelDef("Toy", "GPU", {"T": (FLOAT, INT32), "mode": ("SAME",)}, ("x", "y"), 3, "eager")
    assert format_kernel(full) == (
        'op: "Toy" device_type: "GPU" constraint { name: "T" allowed_values { list { type: DT_FLOAT type: DT_INT32 } } } '
        'constraint { name: "mode" allowed_values { list { s: "SAME" } } } '
        'host_memory_arg: "x" host_memory_arg: "y" label: "eager" priority: 3'
    )


def test_no_kernel_message() -> None:
    message = no_kernel_message(registry(GPU), "Toy", {"T": INT32, "N": 2}, "a/b", ["GPU", "CPU", "GPU"])
    assert message == (
        "No OpKernel was registered to support Op 'Toy' used by {{node a/b}} with these attrs: [N=2, T=DT_INT32]\n"
        "Registered devices: [CPU, GPU]\nRegistered kernels:\n  device='GPU'; T in [DT_FLOAT]\n"
    )
