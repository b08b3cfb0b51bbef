"""Entries that are read piece by piece are what the parser makes of them, and stand where it says."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from placesim.core.errors import GraphFileError
from placesim.formats.graph_file.parsing import flow_mappings, sequence_splitting, yaml_tree
from placesim.formats.graph_file.reader import read_graph_file

PLAIN = [
    "a",
    "layer/x_1",
    "-5",
    "1.5",
    "0x1F",
    "true",
    "null",
    "'q r'",
    '"d: e"',
    "a:0",
    "^c",
    "1:30",
    "1_000",
    "_",
    "on",
    "''",
]
NESTED = ["[]", "{}", "[a, b]", "[[1, 2], [3, {a: b}]]", "{T: float32}", "{k: [a, b], m: {}}", "[ a ,b ]"]
ODD = [
    "'it''s'",
    '"e\\n"',
    "é",
    "a b",
    "*al",
    "&an x",
    "!!str 5",
    "- x",
    "#c",
    "a#b",
    "@x",
    "[a, ]",
    "{a}",
    "",
    "~",
    "<<",
    "a:",
]
ODD += ["'unb", "x\ty", "?", "|", "%a", "-", ".inf", "http://x", "a:b:c", "=", "[" * 12 + "]" * 12, "x" * 1500, "{a: 1, a: 2}"]
KEYS = ["op", "name", "inputs", "attrs", "on", "2", "'value'"]
HEADS = [
    "nodes:\n",
    "name: é\nnodes: # c\n\n",
    '# é\nname: "a\nnodes:\n  - {op: x}\n b"\nnodes:\n',
    "description: |\n  nodes:\n    - {a: b}\n\nnodes:\n # k\n",
]
BETWEEN = [
    "",
    "  # hello",
    "#x",
    "    more",
    "  - op: Add\n    name: z",
    "  - [a]",
    "  - {op: x,\n   name: y}",
    "   - {op: A}",
    "  - {}",
]
TAILS = ["", "\n", "\nrun: {fetch: a}\n", "\n...\n", "\n---\na\n", "\n   junk\n", "\n# end", "\nfoo: \u0007"]


class _Nodes(yaml_tree.Sequence):
    """Takes the entries of `nodes` as trees."""

    alike = None


def _read(text: str, take_pieces: Callable[..., Any] | None) -> Any:
    """What is in a text and where, or what is said of it."""
    try:
        tree = yaml_tree.read_tree(text, "f.yaml", lambda _, key: _Nodes() if key == "nodes" else None, take_pieces)
    except GraphFileError as error:
        return str(error)
    return list(_described(tree))


def _described(tree: Any) -> Iterator[Any]:
    is_map = tree.__class__ is yaml_tree.Mapping
    if not is_map and not isinstance(tree, yaml_tree.Sequence):
        yield type(tree), repr(tree)
        return
    count = 1 if tree.__class__ is _Nodes else len(tree) * (2 if is_map else 1) + 1
    yield tree.__class__, repr(list(tree) if is_map else len(tree)), [yaml_tree.pack_mark(tree.marks[i]) for i in range(count)]
    for value in tree.values() if is_map else tree:
        yield from _described(value)


def _entry(rng: random.Random, share: float, depth: int) -> str:
    """An entry on one line, or, up to a depth, a scope with entries; a share of both has something odd."""
    is_odd = rng.random() < share
    if not depth or rng.random() < 0.6:
        return _line(rng, is_odd)
    values = PLAIN + NESTED + (ODD if is_odd else [])
    keys = [*rng.sample(["scope", "device", "nodes", "scope"] if is_odd else ["scope", "device"], rng.randint(0, 2))]
    lines = [f"{key}: {rng.choice(values)}" if rng.random() < 0.9 else f"{key}: a" for key in keys] if is_odd else []
    lines = lines or [f"{key}: {rng.choice(PLAIN)}" for key in keys]
    inner = [line for _ in range(rng.randint(0 if is_odd else 1, 5)) for line in _entry(rng, share, depth - 1).split("\n")]
    if is_odd and inner:
        inner[rng.randrange(len(inner))] = rng.choice(BETWEEN)
    shift = rng.choice([2, 2, 2, 0, 3])
    opening = rng.choice(["nodes:", "nodes:", "nodes: # c", "my nodes:"]) if is_odd else "nodes:"
    lines += [opening, *(" " * shift + line[2:] for line in inner)]
    if is_odd:
        lines.insert(rng.randrange(len(lines) + 1), rng.choice([*BETWEEN, "colocate_with: a", "more: 'a", "name: |"]))
    return "  - " + "\n    ".join(lines)


def _line(rng: random.Random, is_odd: bool) -> str:
    values = PLAIN + NESTED + (ODD if is_odd else [])
    keys = rng.sample(KEYS, rng.randint(0, 4)) if rng.random() < 0.97 else [rng.choice(KEYS) for _ in range(3)]
    return "  - {" + ", ".join(f"{key}: {rng.choice(values)}" for key in keys) + "}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_entries_are_read_as_the_parser_reads_them(seed: int) -> None:
    rng = random.Random(seed)
    taken = 0

    def counted(*place: Any) -> Iterator[Any]:
        nonlocal taken
        for rest in sequence_splitting.take_pieces(*place):
            taken += len(place[-1])
            yield rest

    for _ in range(60):
        share = rng.choice([0, 0.02, 0.1, 0.1, 0.5])
        depth = rng.choice([0, 0, 1, 3])
        lines = [_entry(rng, share, depth) for _ in range(rng.choice([1, 15, 17, 60]))]
        if rng.random() < 0.5:
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(BETWEEN))
        text = rng.choice(HEADS) + "\n".join(lines) + rng.choice(TAILS)
        assert _read(text, counted) == _read(text, None), text
    assert taken > 200


@pytest.mark.parametrize("dash", ["  - ", "   - ", "    - ", "      - ", "      -  ", "      -\t"])
@pytest.mark.parametrize("head", ["scope: a", "scope: a\n    scope: a", "nodes: a", "on: a\n    true: b", "device: [a]", "my"])
def test_scopes_are_read_as_the_parser_reads_them(head: str, dash: str) -> None:
    scope = f"  - {head}\n    nodes:\n{dash}{{op: a}}\n{dash}op: b\n"
    for text in (scope, scope.replace("my\n    ", "my "), scope.replace("op: b\n", "op: b\n    device: a\n")):
        assert _read("nodes:\n" + text * 20, sequence_splitting.take_pieces) == _read("nodes:\n" + text * 20, None)


@pytest.mark.parametrize("depth", [1, 20, 46, 47, 48, 49, 50, 60])
@pytest.mark.parametrize("last", ["{op: a}", "{op: [[a], {b: [c]}]}", "op: a\n{}  inputs: [[a], {{b: [c]}}]"])
def test_scopes_in_scopes_are_refused_where_the_parser_refuses_them(depth: int, last: str) -> None:
    scopes = "".join(f"{'  ' * level}  - scope: s\n{'  ' * level}    nodes:\n" for level in range(depth))
    text = "nodes:\n" + (scopes + "  " * depth + "  - " + last.replace("{}", "  " * (depth + 1)) + "\n") * 20
    assert _read(text, sequence_splitting.take_pieces) == _read(text, None)


def test_more_entries_than_are_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_splitting, "_CHUNK_LETTERS", 600)
    monkeypatch.setattr(flow_mappings, "_MAX_FORMS", 3)
    rng = random.Random(1)
    text = "nodes:\n" + "\n".join(_line(rng, False) for _ in range(300)) + "\nname: x\n"
    assert _read(text, sequence_splitting.take_pieces) == _read(text, None)


@pytest.mark.slow
def test_the_entries_end_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_splitting, "_FEWEST_LINES", 2)
    for count in range(2, 60):
        lines = [f"  - {{op: Const, name: c{i}, value: 1.0}}" for i in range(count)]
        for rest in ("  # a comment\n  - op: Add\n    name: b\n", "  - op: Add\n    name: b\n", "name: x\n", "\t# a tab\n"):
            text = "nodes:\n" + "\n".join(lines) + "\n" + rest
            expected = _read(text, None)
            for letters in (100, 333, 600):
                monkeypatch.setattr(sequence_splitting, "_FIRST_LETTERS", letters)
                monkeypatch.setattr(sequence_splitting, "_CHUNK_LETTERS", letters)
                assert _read(text, sequence_splitting.take_pieces) == expected, (letters, text)


def test_what_is_wrong_in_a_line_is_said_at_its_place() -> None:
    lines = [f"  - {{op: Const, name: c{i}, value: 1.0}}" for i in range(100)]
    lines[70] = "  - {op: Add, name: a, inputs: [c1, nowhere]}"
    lines[80] = "  - {op: Add, name: b, inputs: [c1, c2], attrs: {T: float32, nope: 1}}"
    with pytest.raises(GraphFileError) as caught:
        read_graph_file("nodes:\n" + "\n".join(lines) + "\n", "g.yaml")
    places = [(problem.location.line, problem.location.column) for problem in caught.value.problems]
    assert places == [(72, lines[70].index("nowhere") + 1), (82, lines[80].index("nope") + 1)]


def test_a_key_that_is_there_twice_is_refused_at_its_place() -> None:
    lines = [f"  - {{op: Const, name: c{i}, value: 1.0}}" for i in range(100)]
    lines[60] = "  - {op: Const, op: Const, name: b, value: 1.0}"
    with pytest.raises(GraphFileError, match=r"g.yaml:62:17: duplicate key: got .op. again.*g.yaml:62:6\)"):
        read_graph_file("nodes:\n" + "\n".join(lines) + "\n", "g.yaml")
