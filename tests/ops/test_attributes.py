"""Attr values as text (5.9), op definitions as text, and what an op definition does not allow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from placesim.core.dtypes import COMPLEX64, DOUBLE, DTYPES, FLOAT, INT32, INT64, QINT32, QUINT8, STRING, DataType
from placesim.ops.attributes import (
    UNKNOWN_RANK,
    AttrValue,
    FunctionName,
    Placeholder,
    Shape,
    TensorValue,
    as_held_by_kernel,
    c_escape,
    decode_attr_value,
    format_attr_value,
    format_elements,
    format_tensor,
)
from placesim.ops.definitions import ArgDef, AttrDef, OpDef, attr_problem, format_op_def
from placesim.ops.registry import load_registry

LONG = "x" * 40 + "y" * 41
NUMBERS = tuple(range(30))
LIST_HASH = "[0, 1, 2, 3, 4, ..., 25, 26, 27, 28, 29]{attr_hash=6212846312491382606}"

VALUES: list[tuple[AttrValue, str]] = [
    (True, "true"),
    (False, "false"),
    (7, "7"),
    (-1, "-1"),
    # a float takes 6 digits where they are enough, and else 9
    (1e-05, "1e-05"),
    (0.1, "0.1"),
    (1.0, "1"),
    (100000.0, "100000"),
    (1000000.0, "1e+06"),
    (1 / 3, "0.333333343"),
    (16777217.0, "16777216"),
    (3.4028234663852886e38, "3.40282347e+38"),
    (-0.0, "-0"),
    (float("inf"), "inf"),
    (float("-inf"), "-inf"),
    (float("nan"), "nan"),
    (FLOAT, "DT_FLOAT"),
    (DTYPES["float8_e4m3fn"], "DT_FLOAT8_E4M3FN"),
    (Shape((2, 3)), "[2,3]"),
    (Shape((-1, 3)), "[?,3]"),
    (Shape(()), "[]"),
    (UNKNOWN_RANK, "<unknown>"),
    ((), "[]"),
    ((FLOAT, INT32), "[DT_FLOAT, DT_INT32]"),
    (("loc:@a", "loc:@b"), '["loc:@a", "loc:@b"]'),
    ((Shape((1,)), UNKNOWN_RANK), "[[1], <unknown>]"),
    (NUMBERS[:29], f"[{', '.join(map(str, NUMBERS[:29]))}]"),
    (NUMBERS, LIST_HASH),
    (FunctionName("f"), "f[]"),
    (FunctionName("f", (("b", 1), ("T", FLOAT))), "f[T=DT_FLOAT, b=1]"),
    (Placeholder("T"), "$T"),
    ("", '""'),
    ("a\tb\n\"'\\", '"a\\tb\\n\\"\\\'\\\\"'),
    (b"\x00\xff", '"\\000\\377"'),
    ("é", '"\\303\\251"'),
    ("x" * 79, f'"{"x" * 79}"'),
    # 80 characters and more once they are escaped: the first and the last ten
    (LONG, '"xxxxxxxxxx...yyyyyyyyyy"'),
    ("\n" * 40, '"\\n\\n\\n\\n\\n...\\n\\n\\n\\n\\n"'),
]

TENSORS: list[tuple[DataType, Any, tuple[int, ...], str]] = [
    # type, elements, shape, text
    (FLOAT, [1], (), "1"),
    (FLOAT, [1, 2], (2,), "1 2"),
    (FLOAT, range(1, 5), (4,), "1 2 3..."),
    (FLOAT, [], (0,), ""),
    (FLOAT, [], (2, 0), ""),
    (FLOAT, range(1, 5), (2, 2), "[1 2][3...]..."),
    (FLOAT, range(1, 7), (3, 2), "[1 2][3...]..."),
    (FLOAT, range(1, 7), (2, 3), "[1 2 3]..."),
    (FLOAT, range(1, 5), (4, 1), "[1][2][3]..."),
    (FLOAT, range(1, 9), (2, 2, 2), "[[1 2][3...]]..."),
    (FLOAT, range(1, 5), (1, 1, 4), "[[1 2 3...]]..."),
    (FLOAT, [1, 2], (2, 1), "[1][2]"),
    (FLOAT, [0.1, 1 / 3], (2,), "0.1 0.333333343"),
    (DOUBLE, [0.1, 1 / 3], (2,), "0.1 0.33333333333333331"),
    (DTYPES["half"], [0.1], (1,), "0.0999755859"),
    (DTYPES["bool"], [True, False], (2,), "1 0"),
    (QUINT8, [3], (1,), "3"),
    (QINT32, [3, 4], (2,), "? ?"),
    (COMPLEX64, [1 + 2j], (1,), "?"),
    (COMPLEX64, [1j] * 4, (2, 2), "? ? ?..."),
    (STRING, [b"a\n", b"b"], (2,), "a\\n b"),
]


@pytest.mark.parametrize(("value", "text"), VALUES, ids=[text[:40] for _, text in VALUES])
def test_format_attr_value(value: AttrValue, text: str) -> None:
    assert format_attr_value(value) == text


@pytest.mark.parametrize(("dtype", "elements", "shape", "text"), TENSORS)
def test_format_tensor(dtype: DataType, elements: Any, shape: tuple[int, ...], text: str) -> None:
    tensor = TensorValue(dtype, np.array(list(elements), dtype.numpy).reshape(shape))
    dims = ",".join(map(str, shape))
    assert format_attr_value(tensor) == format_tensor(tensor) == f"Tensor<type: {dtype.name} shape: [{dims}] values: {text}>"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "..."), (1, "[1...]..."), (4, "[1 2][3 4]..."), (5, "[1 2][3 4][5...]..."), (-1, "[1 2][3 4][5 6]")]
)
def test_format_elements(count: int, text: str) -> None:
    assert format_elements(TensorValue(INT32, np.arange(1, 7, dtype=np.int32).reshape(3, 2)), count) == text


@pytest.mark.parametrize(("data", "text"), [("a b", "a b"), ("\r\x7f", "\\r\\177"), (b"\x01", "\\001"), ("~", "~")])
def test_c_escape(data: str | bytes, text: str) -> None:
    assert c_escape(data) == text


FACTS = [
    # JSON of the data file, attr type, value
    (3, "int", 3),
    ("NHWC", "string", "NHWC"),
    ({"type": "float"}, "type", FLOAT),
    ({"list": [{"type": "float"}, {"type": "int64"}]}, "list(type)", (FLOAT, INT64)),
    ({"list": []}, "list(int)", ()),
    ({"shape": [2, -1]}, "shape", Shape((2, -1))),
    ({"shape": None}, "shape", UNKNOWN_RANK),
    ({"s": "x"}, "string", "x"),
]


@pytest.mark.parametrize(("facts", "attr_type", "value"), FACTS)
def test_decode_attr_value(facts: Any, attr_type: str, value: AttrValue) -> None:
    assert decode_attr_value(facts, attr_type) == value


OP_DEFS = [
    (
        "NoOp",
        "Op<name=NoOp; signature= -> >",
    ),
    (
        "Placeholder",
        "Op<name=Placeholder; signature= -> output:dtype; attr=dtype:type; attr=shape:shape,default=<unknown>>",
    ),
    (
        "VariableV2",
        "Op<name=VariableV2; signature= -> ref:Ref(dtype); attr=shape:shape; attr=dtype:type; "
        'attr=container:string,default=""; attr=shared_name:string,default=""; is_stateful=true>',
    ),
    (
        "Assign",
        "Op<name=Assign; signature=ref:Ref(T), value:T -> output_ref:Ref(T); attr=T:type; "
        "attr=validate_shape:bool,default=true; attr=use_locking:bool,default=true; allows_uninitialized_input=true>",
    ),
    (
        "AssignVariableOp",
        "Op<name=AssignVariableOp; signature=resource:resource, value:dtype -> ; attr=dtype:type; "
        "attr=validate_shape:bool,default=false; is_stateful=true>",
    ),
    (
        "Pack",
        "Op<name=Pack; signature=values:N*T -> output:T; attr=N:int,min=1; attr=T:type; attr=axis:int,default=0>",
    ),
    (
        "IdentityN",
        "Op<name=IdentityN; signature=input: -> output:; attr=T:list(type),min=1>",
    ),
    (
        "AddN",
        "Op<name=AddN; signature=inputs:N*T -> sum:T; attr=N:int,min=1; attr=T:type,allowed=[DT_FLOAT, DT_DOUBLE, "
        "DT_INT32, DT_UINT8, DT_INT16, DT_INT8, DT_COMPLEX64, DT_INT64, DT_QINT8, DT_QUINT8, DT_QINT32, DT_BFLOAT16, "
        "DT_QINT16, DT_QUINT16, DT_UINT16, DT_COMPLEX128, DT_HALF, DT_UINT32, DT_UINT64, DT_VARIANT]; "
        "is_commutative=true; is_aggregate=true>",
    ),
]


@pytest.mark.parametrize(("name", "text"), OP_DEFS, ids=[name for name, _ in OP_DEFS])
def test_format_op_def(name: str, text: str) -> None:
    definition = load_registry().op(name)
    assert definition is not None
    assert format_op_def(definition) == text


TOY = OpDef(
    "Toy",
    (ArgDef("x", type_attr="T"),),
    (ArgDef("y", dtype=FLOAT),),
    {
        "T": AttrDef("T", "type", allowed=(FLOAT, INT32)),
        "N": AttrDef("N", "int", minimum=2),
        "names": AttrDef("names", "list(string)", ("a",), has_default=True, minimum=1),
        "mode": AttrDef("mode", "string", allowed=("SAME", "VALID")),
        "types": AttrDef("types", "list(type)", allowed=(FLOAT,)),
    },
)
TOY_TEXT = (
    "Op<name=Toy; signature=x:T -> y:float; attr=T:type,allowed=[DT_FLOAT, DT_INT32]; attr=N:int,min=2; "
    'attr=names:list(string),default=["a"],min=1; attr=mode:string,allowed=["SAME", "VALID"]; '
    "attr=types:list(type),allowed=[DT_FLOAT]>"
)
PROBLEMS = [
    ({"T": STRING}, "Value for attr 'T' of string is not in the list of allowed values: float, int32"),
    ({"N": 1}, "Value for attr 'N' of 1 must be at least minimum 2"),
    ({"names": ()}, "Length for attr 'names' of 0 must be at least minimum 1"),
    ({"mode": "FULL"}, 'Value for attr \'mode\' of "FULL" is not in the list of allowed values: "SAME", "VALID"'),
    ({"types": (FLOAT, INT32)}, "Value for attr 'types' of int32 is not in the list of allowed values: float"),
]


@pytest.mark.parametrize(("attrs", "message"), PROBLEMS)
def test_attr_problem(attrs: dict[str, AttrValue], message: str) -> None:
    assert attr_problem(TOY, attrs, "n") == f"{message}\n\t; NodeDef: {{{{node n}}}}; {TOY_TEXT}"


@pytest.mark.parametrize("attrs", [{}, {"T": FLOAT, "N": 2, "names": ("b",), "mode": "SAME", "types": ()}, {"other": 1}])
def test_allowed_attrs(attrs: dict[str, AttrValue]) -> None:
    assert attr_problem(TOY, attrs, "n") is None


@pytest.mark.parametrize(
    ("value", "held"),
    [
        (0.2, 0.20000000298023224),
        ((0.1, -0.5), (0.10000000149011612, -0.5)),
        (1e300, math.inf),
        (-1e300, -math.inf),
        (math.inf, math.inf),
        (True, True),
        (7, 7),
        ((1, 2), (1, 2)),
        ("0.2", "0.2"),
    ],
)
def test_kernels_read_floats_as_float32(value: AttrValue, held: AttrValue) -> None:
    assert as_held_by_kernel(value) == held
    assert type(as_held_by_kernel(value)) is type(value)
