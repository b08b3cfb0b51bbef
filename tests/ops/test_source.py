"""The source of the op table: what it says is what is shipped, reading undoes writing, and what is wrong has its place."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.core.dtypes import DTYPES, FLOAT, INT32, STRING
from placesim.core.errors import GraphFileError
from placesim.core.releases import RELEASES
from placesim.ops import compile_tables as compiler
from placesim.ops.attributes import UNKNOWN_RANK, AttrValue, FunctionName, Shape, as_float32
from placesim.ops.compile_tables import FOLDER, compile_table, compress, table_lines, table_of
from placesim.ops.definitions import ArgDef, AttrDef, KernelDef, OpDef
from placesim.ops.notation import format_op
from placesim.ops.registry import Registry, load_registry
from placesim.ops.source import format_source, read_source

SOURCES = sorted(FOLDER.glob("tensorflow-*.ops"))
HEAD = "tensorflow 1.0\n\n"


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_table_says_what_its_source_says(source: Path) -> None:
    data = table_of(source).read_bytes()
    assert gzip.decompress(data).decode() == table_lines(read_source(source.read_text(), source.name)), "run `make tables`"
    assert data[4:8] == bytes(4), "a table bears no time"


def test_every_table_has_a_source() -> None:
    assert [table_of(source) for source in SOURCES] == sorted(FOLDER.glob("tensorflow-*.json.gz"))


@pytest.mark.parametrize("release", RELEASES)
def test_writing_a_registry_gives_its_source(release: str) -> None:
    source = next(path for path in SOURCES if path.stem == f"tensorflow-{release}")
    text = "".join(line for line in source.read_text().splitlines(keepends=True) if not line.startswith("#"))
    assert format_source(load_registry(release)) == text.replace("\n\n\n", "\n\n"), "write the source as placesim would"


def test_the_same_facts_give_the_same_bytes() -> None:
    text = table_lines(read_source(f"{HEAD}A() -> ()\n", "x.ops"))
    assert compress(text) == compress(text)
    assert compress(text)[4:8] == bytes(4)


# --- an op, as text and as a record ---------------------------------------------------------------------------------

TOY = OpDef(
    "Toy",
    (ArgDef("x", type_attr="T"), ArgDef("many", dtype=STRING, number_attr="N"), ArgDef("rest", type_list_attr="Ts")),
    (ArgDef("y", type_attr="T", is_ref=True), ArgDef("z", type_attr="T", number_attr="N", is_ref=True)),
    {
        "T": AttrDef("T", "type", FLOAT, True, (FLOAT, INT32)),
        "N": AttrDef("N", "int", minimum=2),
        "Ts": AttrDef("Ts", "list(type)", (FLOAT,), True, (FLOAT, STRING), 0),
        "mode": AttrDef("mode", "string", "a\tb", True, ("a\tb", '"')),
        "names": AttrDef("names", "list(string)", ("a", ""), True),
        "rate": AttrDef("rate", "float", as_float32(0.1), True),
        "big": AttrDef("big", "float", float("-inf"), True),
        "rates": AttrDef("rates", "list(float)", (1.0, as_float32(1e-5)), True),
        "shape": AttrDef("shape", "shape", UNKNOWN_RANK, True),
        "shapes": AttrDef("shapes", "list(shape)", (Shape((2, -1)), Shape(()), UNKNOWN_RANK), True),
        "f": AttrDef("f", "func", FunctionName("g"), True),
        "fs": AttrDef("fs", "list(func)", (), True, None, 1),
        "values": AttrDef("values", "tensor"),
        "yes": AttrDef("yes", "bool", True, True),
    },
    is_stateful=True,
    is_commutative=True,
    is_aggregate=True,
    is_distributed_communication=True,
    allows_uninitialized_input=True,
    deprecated_at=12,
    output_source="toy_op.cc:7",
    temporary_source="toy_op.cc:9",
)
TOY_KERNELS = (
    KernelDef("Toy", "CPU", {}, (), 0, ""),
    KernelDef("Toy", "XLA_GPU", {"T": (FLOAT,), "mode": ("a\tb",)}, ("x", "z"), 2, "fast"),
    KernelDef("Toy", "GPU", {"N": (-1, 3), "yes": (True,)}, (), 0, ""),
)
TOY_TEXT = r"""Toy(x: T, many: N * string, rest: Ts) -> (y: Ref(T), z: Ref(N * T))
  flags stateful, commutative, aggregate, distributed_communication, uninitialized_input
  deprecated 12
  attr T: {float, int32} = float
  attr N: int >= 2
  attr Ts: list({float, string}) >= 0 = [float]
  attr mode: {"a\tb", "\""} = "a\tb"
  attr names: list(string) = ["a", ""]
  attr rate: float = 0.1
  attr big: float = -inf
  attr rates: list(float) = [1.0, 1e-05]
  attr shape: shape = ?
  attr shapes: list(shape) = [[2, ?], [], ?]
  attr f: func = func("g")
  attr fs: list(func) >= 1 = []
  attr values: tensor
  attr yes: bool = true
  kernel CPU
  kernel XLA_GPU: T in {float}; mode in {"a\tb"}; host x, z; priority 2; label "fast"
  kernel GPU: N in {-1, 3}; yes in {true}
  source "toy_op.cc:7"
  source temporary "toy_op.cc:9"
"""


def registry_of(text: str) -> Registry:
    return Registry(*read_source(HEAD + text, "x.ops"))


def test_an_op_as_text() -> None:
    assert format_op(TOY, TOY_KERNELS) == TOY_TEXT


def test_the_text_of_an_op_is_read() -> None:
    registry = registry_of(TOY_TEXT)
    assert (registry.release, registry.op("Toy"), registry.kernels("Toy")) == ("1.0", TOY, TOY_KERNELS)


def test_comments_blanks_and_the_order_of_lines_mean_nothing() -> None:
    text = (
        "# ops\nA(x: T) -> ()\n  kernel CPU: host x;  T in { float }\n\n  # what it takes\n  attr T : type\n  flags stateful\n"
    )
    assert format_source(registry_of(text)) == (
        f"{HEAD}A(x: T) -> ()\n  flags stateful\n  attr T: type\n  kernel CPU: T in {{float}}; host x\n"
    )


singles = st.floats(width=32, allow_nan=False)
dims = st.one_of(st.none(), st.lists(st.integers(-1, 1 << 40), max_size=4).map(tuple))
VALUES = {
    "string": st.text(st.characters(exclude_categories=["Cs"])),
    "int": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": singles,
    "bool": st.booleans(),
    "type": st.sampled_from(list(DTYPES.values())),
    "shape": dims.map(Shape),
}
attr_values = st.sampled_from(sorted(VALUES)).flatmap(
    lambda kind: st.one_of(
        VALUES[kind].map(lambda value: (kind, value)),
        st.lists(VALUES[kind]).map(lambda values: (f"list({kind})", tuple(values))),
    )
)


@pytest.mark.slow
@given(attr_values)
def test_every_default_is_read_as_it_was_written(typed: tuple[str, AttrValue]) -> None:
    kind, value = typed
    op = OpDef("A", (), (), {"a": AttrDef("a", kind, value, True)})
    assert registry_of(format_op(op, ())).op("A") == op


# --- what is wrong --------------------------------------------------------------------------------------------------

WRONG = [
    # paragraph (its first line is the third), what is said of it
    ("A\n", ["3:2: got the end of the line, expected '('"]),
    ("A()\n", ["3:4: got the end of the line, expected '->'"]),
    ("A() -> () !\n", ["3:11: got '!', expected the end of the line"]),
    ("3() -> ()\n", ["3:1: got '3', expected an op's name"]),
    ("B() -> ()\nA() -> ()\n", ["4:1: got 'A' after 'B', expected ops sorted by name"]),
    ("A() -> ()\nA() -> ()\n", ["4:1: the op 'A' is there twice"]),
    ("A(x: flot) -> ()\n", ["3:6: got 'flot', expected an element type, or an attr of type type or list(type)"]),
    ("A(x: M * T) -> ()\n  attr T: type\n", ["3:6: got 'M *', expected an attr of type int before the '*'"]),
    ("A() -> ()\n  atr T: type\n", ["4:3: got 'atr', expected one of flags, deprecated, attr, kernel"]),
    ("A() -> ()\n  attr T: typ\n", ["4:11: got 'typ', expected a set of values, or one of string, int, float, bool, type,"]),
    ("A() -> ()\n  attr T: {}\n", ["4:11: expected types, or strings, in '{}'"]),
    ('A() -> ()\n  attr T: {float, "a"}\n', ["4:11: expected types, or strings, in '{}'"]),
    ("A() -> ()\n  attr N: int = 1.5\n", ["4:17: got 1.5, expected an integer"]),
    ("A() -> ()\n  attr N: int = two\n", ["4:17: got 'two', expected an integer"]),
    ("A() -> ()\n  attr N: bool = 1\n", ["4:18: got '1', expected true or false"]),
    ("A() -> ()\n  attr s: string = a\n", ["4:20: got 'a', expected a string in quotes"]),
    ('A() -> ()\n  attr s: string = "a\n', ["4:20: got '\"', expected a string in quotes"]),
    ('A() -> ()\n  attr s: string = "\\x"\n', ['4:20: got "\\x", expected a string with JSON\'s escapes']),
    ("A() -> ()\n  attr N: int\n  attr N: int\n", ["5:8: the attr 'N' is there twice"]),
    ("A() -> ()\n  flags stateful, odd\n", ["4:19: got 'odd', expected one of stateful, commutative, aggregate,"]),
    ("A(x: float) -> ()\n  kernel CPU: host y\n", ["4:20: got 'y', expected an argument of the op"]),
    ("A() -> ()\n  kernel CPU: T in {}\n", ["4:20: got '{}', expected at least one value"]),
    ("A() -> ()\n  kernel CPU: fast\n", ["4:15: got 'fast', expected ATTR in {...}, host, priority or label"]),
    # every line that is wrong by itself is told
    (
        "A() -> ()\n  attr N: int = x\n  flags odd\nB() ->\n",
        ["4:17: got 'x', expected an integer", "5:9: got 'odd', expected", "6:7: got the end of the line, expected '('"],
    ),
]


@pytest.mark.parametrize(("text", "expected"), WRONG, ids=[expected[-1] for _, expected in WRONG])
def test_what_is_wrong_is_told_with_its_place(text: str, expected: list[str]) -> None:
    with pytest.raises(GraphFileError) as raised:
        read_source(HEAD + text, "x.ops")
    told = list(map(str, raised.value.problems))
    assert len(told) == len(expected)
    for line, start in zip(told, expected, strict=True):
        assert line.startswith(f"x.ops:{start}")


@pytest.mark.parametrize(
    ("text", "place"), [("", "1:1"), ("A() -> ()\n", "1:1"), ("tensorflow two\n", "1:1"), ("tensorflow 1.0\n  more\n", "2:3")]
)
def test_the_first_line_is_the_release(text: str, place: str) -> None:
    with pytest.raises(GraphFileError, match=f"^x.ops:{place}: got '.*', expected a first line such as"):
        read_source(text, "x.ops")


# --- the command ----------------------------------------------------------------------------------------------------


def test_a_table_is_written_where_it_says_something_else(tmp_path: Path) -> None:
    source = tmp_path / "tensorflow-1.0.ops"
    source.write_text(f"{HEAD}A() -> ()\n  kernel CPU\n")
    assert [compile_table(source), compile_table(source)] == [True, False]
    assert gzip.decompress(table_of(source).read_bytes()) == (
        b'{"tensorflow": "1.0"}\n["A",{"inputs":[],"outputs":[],"attrs":[]},[{"device":"CPU"}]]\n'
    )


def test_the_command_compiles_every_source_that_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compiler, "FOLDER", tmp_path)
    (tmp_path / "tensorflow-1.0.ops").write_text(f"{HEAD}A() ->\n")
    (tmp_path / "tensorflow-2.0.ops").write_text(f"{HEAD}A() -> ()\n")
    assert compiler.main() == 2
    printed = capsys.readouterr()
    assert printed.out == "wrote tensorflow-2.0.json.gz\n"
    assert printed.err == f"{tmp_path}/tensorflow-1.0.ops:3:7: got the end of the line, expected '('\n"
