"""The registry: all of its data decodes, and a few ops and kernels that are known from elsewhere."""

from __future__ import annotations

import re

import pytest

from placesim.core.dtypes import DTYPES, FLOAT, INT32, STRING, DataType
from placesim.core.errors import UnimplementedError
from placesim.core.releases import CURRENT
from placesim.ops.attributes import Shape
from placesim.ops.definitions import ArgDef, KernelDef, OpDef, format_op_def
from placesim.ops.deprecation import check_not_removed
from placesim.ops.registry import Registry, load_registry

REGISTRY = load_registry()
ATTR_TYPES = {
    f(t) for t in ("string", "int", "float", "bool", "type", "shape", "tensor", "func") for f in (str, "list({})".format)
}


def test_every_op_decodes() -> None:
    for name in REGISTRY.op_names:
        op = REGISTRY.op(name)
        assert op is not None
        assert format_op_def(op).startswith(f"Op<name={name}; signature=")
        assert {attr.type for attr in op.attrs.values()} <= ATTR_TYPES


def test_every_argument_has_one_source_of_its_type() -> None:
    for op in filter(None, map(REGISTRY.op, REGISTRY.op_names)):
        for arg in (*op.inputs, *op.outputs):
            assert sum(source is not None for source in (arg.dtype, arg.type_attr, arg.type_list_attr)) == 1
            for attr in filter(None, (arg.type_attr, arg.type_list_attr, arg.number_attr)):
                assert attr in op.attrs, (op.name, arg.name)


def test_every_kernel_decodes() -> None:
    count = 0
    for name in REGISTRY.op_names:
        for kernel in REGISTRY.kernels(name):
            assert kernel.op == name
            assert all(kernel.constraint.values())
            count += 1
    assert count > len(REGISTRY.op_names)


def test_host_memory_names_arguments() -> None:
    for op in filter(None, map(REGISTRY.op, REGISTRY.op_names)):
        arguments = {arg.name for arg in (*op.inputs, *op.outputs)}
        for kernel in REGISTRY.kernels(op.name):
            assert arguments.issuperset(kernel.host_memory), kernel


KERNELS = [
    # op, device type, an attr and a type, whether a kernel accepts it (4.2)
    ("MatMul", "GPU", "T", FLOAT, True),
    ("MatMul", "GPU", "T", STRING, False),
    ("Const", "GPU", "dtype", STRING, False),
    ("Const", "CPU", "dtype", STRING, True),
    ("Placeholder", "CPU", "dtype", STRING, True),
]


@pytest.mark.parametrize(("op", "device_type", "attr", "dtype", "accepts"), KERNELS)
def test_known_kernels(op: str, device_type: str, attr: str, dtype: DataType, accepts: bool) -> None:
    kernels = [kernel for kernel in REGISTRY.kernels(op) if kernel.device_type == device_type]
    assert any(kernel.accepts({attr: dtype}) for kernel in kernels) is accepts


ACCEPTED = [
    # constraint, attrs, accepted (4.2d)
    ({}, {}, True),
    ({"T": (FLOAT, INT32)}, {"T": INT32}, True),
    ({"T": (FLOAT,)}, {"T": INT32}, False),
    ({"T": (FLOAT,)}, {}, False),
    ({"T": (FLOAT, INT32)}, {"T": (INT32, FLOAT)}, True),
    ({"T": (FLOAT,)}, {"T": (FLOAT, INT32)}, False),
    ({"T": (FLOAT,)}, {"T": ()}, True),
    ({"T": (FLOAT,), "S": (INT32,)}, {"T": FLOAT, "S": FLOAT}, False),
]


@pytest.mark.parametrize(("constraint", "attrs", "accepted"), ACCEPTED)
def test_constraints(
    constraint: dict[str, tuple[DataType, ...]], attrs: dict[str, DataType | tuple[DataType, ...]], accepted: bool
) -> None:
    assert KernelDef("Op", "CPU", constraint, (), 0, "").accepts(attrs) is accepted


ARGUMENTS = [
    (ArgDef("x", dtype=FLOAT), {}, (FLOAT,)),
    (ArgDef("x", type_attr="T"), {"T": INT32}, (INT32,)),
    (ArgDef("x", type_attr="T", number_attr="N"), {"T": INT32, "N": 3}, (INT32,) * 3),
    (ArgDef("x", dtype=STRING, number_attr="N"), {"N": 0}, ()),
    (ArgDef("x", type_list_attr="T"), {"T": (FLOAT, STRING)}, (FLOAT, STRING)),
]


@pytest.mark.parametrize(("arg", "attrs", "dtypes"), ARGUMENTS)
def test_argument_types(
    arg: ArgDef, attrs: dict[str, DataType | int | tuple[DataType, ...]], dtypes: tuple[DataType, ...]
) -> None:
    assert arg.dtypes(attrs) == dtypes


def test_defaults() -> None:
    op = REGISTRY.op("Placeholder")
    assert op is not None
    assert (op.attrs["dtype"].has_default, op.attrs["shape"].default) == (False, Shape(None))


def test_unknown_names() -> None:
    assert REGISTRY.op("NoSuchOp") is None
    assert REGISTRY.kernels("NoSuchOp") == ()
    with pytest.raises(KeyError):
        load_registry("0.1")


def test_records_are_taken_as_they_are() -> None:
    op, kernel = OpDef("Toy", (), (), {}), KernelDef("Toy", "TPU", {}, (), 0, "")
    registry = Registry("toy", {"Toy": op}, {"Toy": (kernel,)})
    assert registry.op("Toy") is op
    assert registry.kernels("Toy") == (kernel,)
    assert registry.op_names == ("Toy",)


REMOVED = [
    ("BatchCholesky", "It has been removed in version 13. Use Cholesky instead.."),
    ("TensorArrayReadV2", "It has been removed in version 26. Use TensorArrayReadV3."),
    ("TensorArray", "It has been removed in version 16. Use TensorArrayV3."),
    ("TextLineReader", "It has been removed in version 26. Use TextLineReaderV2."),
    ("TopK", "It has been removed in version 7. Use TopKV2 instead."),
    ("Conv3DBackpropInput", "It has been removed in version 10. Use Conv3DBackpropInputV2."),
    ("SelfAdjointEig", "It has been removed in version 11. Use SelfAdjointEigV2 instead.."),
    ("TileGrad", "It has been removed in version 3. TileGrad has been replaced with reduce_sum."),
]


@pytest.mark.parametrize(("name", "reason"), REMOVED)
def test_removed_ops(name: str, reason: str) -> None:
    op = REGISTRY.op(name)
    assert op is not None
    with pytest.raises(UnimplementedError) as raised:
        check_not_removed(op)
    assert str(raised.value) == f"Op {name} is not available in GraphDef version {CURRENT.producer}. {reason}"


def test_replacements_exist() -> None:
    removed = [op for op in map(REGISTRY.op, REGISTRY.op_names) if op is not None and op.deprecated_at is not None]
    for op in removed:
        with pytest.raises(UnimplementedError) as raised:
            check_not_removed(op)
        named = re.findall(r"(?:Use|by) (\w+V\d)\b", str(raised.value))
        assert all(map(REGISTRY.op, named)), raised.value
    assert len(removed) > 50


def test_a_graph_of_its_time_may_contain_a_removed_op() -> None:
    op = OpDef("Toy", (), (), {}, deprecated_at=10)
    check_not_removed(op, 9)
    with pytest.raises(UnimplementedError, match=r"^Op Toy is not available in GraphDef version 10\. "):
        check_not_removed(op, 10)
    check_not_removed(op._replace(deprecated_at=None))


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_numpy_holds_every_type(dtype: DataType) -> None:
    packed = dtype.name in ("int4", "uint4", "int2", "uint2", "float4_e2m1fn")
    assert dtype.numpy.kind == "O" if not dtype.size else dtype.numpy.itemsize == dtype.size or packed
