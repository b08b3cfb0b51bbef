"""Entries that become nodes like those before them are what the long way makes of them, and so is what is said of them."""

from __future__ import annotations

import marshal
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from placesim.core.errors import GraphFileError
from placesim.core.process.ahead import computed_ahead
from placesim.formats.graph_file import reader
from placesim.formats.graph_file.parsing import entry_kinds, entry_templates, sequence_splitting
from placesim.formats.graph_file.reader import read_graph_file

_OPS = ["Add", "Mul", "Identity", "Split", "AssignAdd", "Cast", "Pack", "NoOp", "Nope", "'Add'", "Merge", "Switch", "5"]
_NAMES = [
    "a",
    "B",
    "b",
    "on",
    "true",
    "'on'",
    '"no"',
    "5",
    "'5'",
    "0x1F",
    "_x",
    "x/",
    "a/b",
    "é",
    "'it''s'",
    "a:1",
    "~",
    "a b",
    "-",
]
_VALUES = [
    "0.5",
    "3",
    "-2",
    "010",
    "1_0",
    "1:30",
    "1e5",
    "1.0e+5",
    ".5",
    "true",
    "x",
    "'5'",
    "[1, 2]",
    "1e60",
    "3000000000",
    "~",
]
_DEVICES = ["/gpu:0", "'/device:CPU:0'", "/job:x/task:1", "nowhere", "", "~", "5", "{text: x}"]
_ATTRS = [
    "{T: float32}",
    "{T: int32}",
    "{DstT: half}",
    "{num_split: 2}",
    "{nope: 1}",
    "{T: &a float32}",
    "{name: x}",
    "{T: 'name: x'}",
]
_ODD = [
    "- [a]",
    "- 5",
    "-",
    "- {}",
    "# name: x, inputs: [a]",
    "",
    "- {variable: v, shape: [2], initial_value: 0.0}",
    "- {scope: s, nodes: [{op: Const, name: c, value: 1.0}, {op: Add, name: d, inputs: [c, n0]}]}",
    "- scope: a\n  nodes:\n    - {op: NoOp, name: n}",
    "- op: Const\n  name: text\n  value: |\n    name: x\n\n     more\n",
    "- op: Const\n  name: 'folded\n    name'\n  value: 1.0",
    "- {op: NoOp, name: a,\n   device: /gpu:0}",
    "- !!map {op: NoOp}",
    "- {op: NoOp, name: x} # inputs: [a]",
    "- {op: NoOp, name: n1, name: n2}",
    "- {op: Add, name: k, inputs: [n0, *a]}",
    "- {op: Const, name: tab\tbed, value: 1}",
    "- {op: NoOp, name: k, control_inputs: [n0]}",
    "- {op: NoOp, name: k, colocate_with: n0}",
    "- {op: NoOp, raw: true, name: on}",
]
_STYLES = ["flow", "block", "quoted", "lists", "wide"]


def _read(text: str) -> Any:
    """A graph with all that is known of its nodes, or what is said of its file."""
    try:
        file = read_graph_file(text, "g.yaml")
    except GraphFileError as error:
        return str(error)
    graph = file.graph
    nodes = [
        (
            node.id,
            node.name,
            node.op,
            [(key, _comparable(value)) for key, value in node.attrs.items()],
            [dtype.name for dtype in (*node.signature.input_dtypes, *node.signature.output_dtypes)],
            node.input_nodes,
            node.input_slots,
            node.control_inputs,
            node.device,
            node.location,
        )
        for node in graph.nodes
    ]
    return nodes, graph.ids, graph.handles, graph.tensors, graph.values, file.doubts


def _comparable(value: Any) -> Any:
    if not isinstance(getattr(value, "array", None), np.ndarray):
        return type(value), repr(value)
    return value.dtype.name, value.array.dtype, value.array.shape, value.array.tolist()


def _entry(rng: random.Random, number: int, share: float, style: str, known: list[str]) -> str:
    """An entry that most likely stands for a node, and is like others; `known` are the names of tensors before it."""

    def is_odd() -> bool:
        return rng.random() < share / 5

    name = rng.choice(_NAMES) if is_odd() else f"{rng.choice(['n', 'layer/N'])}{number}"
    odd_reads = [*_NAMES, "2.0", "^c0", "c0:0", "c0:1", f"n{number + 2}", "s:1"]
    reads = [rng.choice(odd_reads) if is_odd() else rng.choice(known[-4:]) for _ in range(2)]
    kind = rng.choice(["Const", "Add", "Identity", "NoOp", "AddN"])
    pairs: dict[str, str | list[str]] = {"op": rng.choice(_OPS) if is_odd() else kind, "name": name}
    if kind == "Const":
        pairs["value"] = rng.choice(_VALUES) if is_odd() else f"{number}.5"
    elif kind != "NoOp":
        pairs["inputs"] = reads[:1] if kind == "Identity" else reads if kind == "Add" else reads * rng.randint(1, 2)
    for key, values, usual in (("device", _DEVICES, 0.3), ("attrs", _ATTRS, 0.0), ("dtype", ["int64", "float32"], 0.0)):
        if rng.random() < usual or is_odd():
            pairs[key] = rng.choice(values) if is_odd() else values[0]
    if is_odd():
        pairs["id"] = rng.choice([f"n{number + 3}", "on", "c0", "id"])
    if rng.random() < share:
        pairs = dict(rng.sample(list(pairs.items()), len(pairs)))
    if kind != "NoOp" and pairs["name"] not in _NAMES:
        known.append(name)
    return _written(pairs, style)


def _written(pairs: dict[str, Any], style: str) -> str:
    def flow(value: Any) -> str:
        return f"[{', '.join(value)}]" if isinstance(value, list) else value

    if style == "flow":
        return "- {" + ", ".join(f"{key}: {flow(value)}" for key, value in pairs.items()) + "}"
    if style == "quoted":
        quoted = {key: [f"'{v}'" for v in value] if isinstance(value, list) else value for key, value in pairs.items()}
        return "- {" + ", ".join(f'"{key}": {flow(value)}' for key, value in quoted.items()) + "}"
    if style == "wide":
        return "- { " + ",\n    ".join(f"{key}:  {flow(value)}" for key, value in pairs.items()) + " }"
    if style == "lists":
        pairs |= {"inputs": [f"'{name}'" for name in pairs["inputs"]]} if "inputs" in pairs and len(pairs) == 3 else {}
        pairs = {
            key: "".join(f"\n  - {item}" for item in value) if isinstance(value, list) else f" {value}"
            for key, value in sorted(pairs.items())
        }
        return "- " + "\n  ".join(f"{key}:{value}" for key, value in pairs.items())
    return "- " + "\n  ".join(f"{key}: {flow(value)}" for key, value in pairs.items())


def _documents(seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    for _ in range(25):
        share, style, known = rng.choice([0, 0, 0.02, 0.1, 0.3]), rng.choice(_STYLES), ["c0"]
        entries = ["- {op: Const, name: c0, value: 1.0}", "- {op: Split, name: s, inputs: [0, c0], attrs: {num_split: 2}}"]
        for number in range(rng.choice([3, 60, 150])):
            entries.append(_entry(rng, number, share, rng.choice(_STYLES) if rng.random() < share else style, known))
            if rng.random() < share / 20:
                entries.append(rng.choice(_ODD))
        indent = rng.choice(["", "  ", "    "])
        lines = "\n".join(entries).split("\n")
        body = "\n".join(indent + line for line in lines)
        tail = rng.choice(
            ["", "\n", "\nfetch: c0\n", "\n...\n", "\n# end\n", "\n" + indent + "- {op: NoOp, name: last", "\nfoo: \u0007"]
        )
        text = rng.choice(["nodes:\n", "# é\nname: é\nnodes: # c\n"]) + body + tail
        yield text.replace("\n", "\r\n") if rng.random() < 0.05 else text


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_entries_become_the_nodes_that_the_long_way_makes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made, take_texts = 0, entry_templates.AlikeEntries.take_texts

    def counted(self: Any, texts: list[str], first: int, line: int) -> tuple[int, int]:
        nonlocal made
        index, line = take_texts(self, texts, first, line)
        made += index - first
        return index, line

    monkeypatch.setattr(reader, "_SHORT_LETTERS", 0)
    monkeypatch.setattr(sequence_splitting, "_FIRST_LETTERS", 3000)
    monkeypatch.setattr(sequence_splitting, "_CHUNK_LETTERS", 900)
    monkeypatch.setattr(sequence_splitting, "_FEWEST_LINES", 2)
    monkeypatch.setattr(sequence_splitting, "_MANY_STRANGERS", 20 + seed)
    monkeypatch.setattr(entry_kinds, "_MAX_COMPARED", 1 + seed)
    monkeypatch.setattr(entry_kinds, "_MAX_KINDS", 20 * (1 + seed))
    monkeypatch.setattr(entry_templates.AlikeEntries, "take_texts", counted)
    for text in _documents(seed):
        found = _read(text)
        with monkeypatch.context() as patch:
            patch.setattr(reader, "take_pieces", lambda *_: iter(()))
            assert found == _read(text), text
    assert made > 20


@contextmanager
def computed_at_once(values: Iterator[Any]) -> Iterator[Iterator[Any]]:
    """What another process would compute and send, as `computed_ahead`, without the process."""
    yield iter(marshal.loads(marshal.dumps(list(values))))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_entries_that_are_recognized_ahead_become_the_same_nodes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, take_columns = 0, entry_templates.AlikeEntries.take_columns

    def counted(self: Any, columns: list[Any], line: int) -> tuple[int, int]:
        nonlocal taken
        count, line = take_columns(self, columns, line)
        taken += count
        return count, line

    monkeypatch.setattr(reader, "_SHORT_LETTERS", 0)
    monkeypatch.setattr(sequence_splitting, "_FIRST_LETTERS", 900)
    monkeypatch.setattr(sequence_splitting, "_CHUNK_LETTERS", 80)
    monkeypatch.setattr(sequence_splitting, "_FEWEST_LINES", 2)
    monkeypatch.setattr(sequence_splitting, "_MANY_LETTERS", 0)
    monkeypatch.setattr(sequence_splitting, "_MOST_TURNS", 40)
    monkeypatch.setattr(sequence_splitting, "can_compute_ahead", lambda: True)
    monkeypatch.setattr(entry_templates.AlikeEntries, "take_columns", counted)
    for number, text in enumerate(_documents(seed)):
        monkeypatch.setattr(sequence_splitting, "computed_ahead", computed_at_once if number else computed_ahead)
        found = _read(text)
        with monkeypatch.context() as patch:
            patch.setattr(reader, "take_pieces", lambda *_: iter(()))
            assert found == _read(text), text
    assert taken > 10


def test_each_name_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if a name that is no text without quotes and an id keep all entries from becoming nodes directly."""
    checked: list[str] = []

    def counted(name: str) -> bool:
        checked.append(name)
        return True

    monkeypatch.setattr(entry_templates, "is_plain_name", counted)
    first = "nodes:\n  - {op: NoOp, name: 'on'}\n  - {op: Const, name: c, id: k, value: 1.0}\n"
    read_graph_file(first + "".join(f"  - {{op: Neg, name: n{i}, inputs: [c]}}\n" for i in range(200)), "g.yaml")
    assert len(checked) == len(set(checked)) > 100


def test_an_entry_without_a_name_avoids_names_of_entries_that_became_nodes_directly() -> None:
    names = [*(f"n{i}" for i in range(100)), "noop", "NoOp_1"]
    lines = [f"  - {{op: NoOp, name: {name}}}\n" for name in names]
    graph = read_graph_file("nodes:\n" + "".join(lines) + "  - {op: NoOp}\n  - {op: NoOp}\n", "g.yaml").graph
    assert [node.name for node in graph.nodes[-2:]] == ["NoOp_2", "NoOp_3"]
