"""Thin products that share their right operand: what is multiplied at once, what comes out, and who names a mistake."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from placesim.ops.kernels.linalg import products
from placesim.runtime.executors import node_steps, shared_operands
from placesim.runtime.executors.ordered_executor import Executor
from tests.runtime.sessions.graphs import assert_same_mistake, fetch, make_session

Node = dict[str, Any]
UNITS = 128
"""Whose square is as large as a right operand has to be."""


def given(name: str, dtype: str = "float32") -> Node:
    return {"op": "Placeholder", "name": name, "dtype": dtype}


def node(op: str, name: str, *inputs: Any, **more: Any) -> Node:
    return {"op": op, "name": name, "inputs": list(inputs), **more}


def recurrence(steps: int, order: str = "xh", **attrs: Any) -> list[Node]:
    """`h_t = tanh(concat(...) @ w)`, where the letters of `order` are `x_t`, `h_t` and a constant `c` of every step."""
    nodes = [given("w"), given("c"), given("h0"), *(given(f"x{t}") for t in range(steps))]
    for t in range(steps):
        parts = [letter if letter == "c" else f"{letter}{t}" for letter in order]
        nodes += [
            node("ConcatV2", f"xh{t}", *parts, t % 2 * 2 - 1),  # -1 and 1 are the same axis
            node("MatMul", f"z{t}", f"xh{t}", "w", attrs=attrs),
            node("Tanh", f"h{t + 1}", f"z{t}"),
        ]
    return nodes


def feeds_of(nodes: list[Node], random: np.random.Generator, rows: int, order: str, dtype: Any = np.float32) -> dict[str, Any]:
    transposed = any(found.get("attrs", {}).get("transpose_b") for found in nodes)
    weights = random.standard_normal((len(order) * UNITS, UNITS)) / 8
    feeds = {"w": weights.T if transposed else weights}
    names = [found["name"] for found in nodes if found["op"] == "Placeholder" and found["name"] != "w"]
    feeds |= {name: random.standard_normal((rows, UNITS)) for name in names}
    return {name: value.astype(dtype) for name, value in feeds.items()}


@pytest.fixture
def tall(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Rows and inner dimension of each product of early parts, from now on."""
    found: list[tuple[int, int]] = []
    blocks_of = shared_operands.SharedOperand._blocks

    def told(*args: Any) -> Any:
        blocks = blocks_of(*args)
        found.append((sum(map(len, blocks.values())), next(iter(blocks.values())).shape[1]))
        return blocks

    monkeypatch.setattr(shared_operands.SharedOperand, "_blocks", told)
    return found


def both(nodes: list[Node], feeds: dict[str, Any], *names: str) -> None:
    """Holds what is fetched to what each node by itself gives, but for rounding."""
    one, other = (fetch(make_session(nodes, fuses_ops=fuses), *names, **feeds) for fuses in (True, False))
    for found, expected in zip(*(value if isinstance(value, tuple) else (value,) for value in (one, other)), strict=True):
        assert found.dtype == expected.dtype
        limit = 1e-5 if found.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(found, expected, rtol=limit, atol=limit)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("order", ["xh", "hx", "xchcx"])
def test_early_parts_are_multiplied_at_once(order: str, dtype: str, tall: list[tuple[int, int]]) -> None:
    nodes = [{**found, "dtype": dtype} if "dtype" in found else found for found in recurrence(5, order)]
    both(nodes, feeds_of(nodes, np.random.default_rng(3), 3, order, dtype), "h5", "z2")
    # of the first step all is early; of the others what stands before `h`, and what stands after it
    widths = {"xh": [1], "hx": [1], "xchcx": [2, 2]}[order]
    assert tall == [(3, len(order) * UNITS), *((12, width * UNITS) for width in widths)]


def test_a_part_of_every_step_is_multiplied_once(tall: list[tuple[int, int]]) -> None:
    nodes = recurrence(6, "hc", transpose_b=True)
    both(nodes, feeds_of(nodes, np.random.default_rng(4), 4, "hc"), "h6")
    assert tall == [(4, 2 * UNITS), (4, UNITS)]


def test_a_tall_product_has_so_many_rows_and_no_more(tall: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_operands, "TALL_ROWS", 9)
    nodes = recurrence(7)
    both(nodes, feeds_of(nodes, np.random.default_rng(5), 4, "xh"), "h7")
    assert [rows for rows, _ in tall] == [4, 12, 12]


def test_products_without_a_concat_share_too(tall: list[tuple[int, int]]) -> None:
    nodes = [given("w"), *(given(f"x{t}") for t in range(4)), *(node("MatMul", f"z{t}", f"x{t}", "w") for t in range(4))]
    nodes += [node("MatMul", "late", "z0", "w")]
    both(nodes, feeds_of(nodes, np.random.default_rng(6), 2, "x"), "z0", "z1", "z2", "z3", "late")
    assert tall == [(8, UNITS)]


def test_a_concat_that_somebody_else_reads_is_made(tall: list[tuple[int, int]]) -> None:
    nodes = recurrence(4)
    both(nodes, feeds_of(nodes, np.random.default_rng(7), 2, "xh"), "h4", "xh1", "xh2")
    assert tall == [(2, 2 * UNITS), (2, UNITS)]  # of the first step and the last


def test_one_executor_does_what_fits_each_time(tall: list[tuple[int, int]]) -> None:
    nodes = recurrence(3)
    session = make_session(nodes)
    for rows in (2, shared_operands.THIN_ROWS + 1, 3):
        feeds = feeds_of(nodes, np.random.default_rng(rows), rows, "xh")
        expected = fetch(make_session(nodes, fuses_ops=False), "h3", **feeds)
        np.testing.assert_allclose(fetch(session, "h3", **feeds), expected, rtol=1e-5, atol=1e-5)
        (prepared,) = session._prepared.values()
        assert isinstance(prepared.executor, Executor)
        assert all(value is None for store in prepared.executor._stores for value in store)
    assert [rows for rows, _ in tall] == [2, 4, 3, 6]


MISTAKES = {
    "x1": (3, UNITS),
    "x2": (2, UNITS - 1),
    "h0": (2,),
    "w": (2 * UNITS + 1, UNITS),
}


@pytest.mark.parametrize("feed", MISTAKES)
@pytest.mark.parametrize("order", ["xh", "hx"])
def test_a_mistake_names_the_same_node(feed: str, order: str) -> None:
    nodes = recurrence(4, order)
    feeds = feeds_of(nodes, np.random.default_rng(8), 2, order) | {feed: np.ones(MISTAKES[feed], np.float32)}
    assert_same_mistake(nodes, "h4", **feeds)


def test_a_variable_that_changes_in_between_is_read_anew() -> None:
    """Products of one reference variable, before and after it is assigned to."""
    weights = np.random.default_rng(9).standard_normal((UNITS, UNITS)).astype(np.float32)
    nodes = [
        given("x"),
        given("new"),
        {"op": "VariableV2", "name": "v", "dtype": "float32", "attrs": {"shape": [UNITS, UNITS]}},
        node("Assign", "init", "v", "new"),
        node("MatMul", "before", "x", "v"),
        node("Identity", "read", "v"),
        node("MatMul", "before_read", "x", "read"),
        node("AssignAdd", "change", "v", "new", control_inputs=["before", "before_read"]),
        node("MatMul", "after", "x", "v", control_inputs=["change"]),
        node("MatMul", "after_read", "x", "read", control_inputs=["change"]),
    ]
    x = np.ones((2, UNITS), np.float32)
    for fuses in (True, False):
        session = make_session(nodes, fuses_ops=fuses)
        fetch(session, "^init", new=weights)
        found = fetch(session, "before", "before_read", "after", "after_read", x=x, new=weights)
        for value, times in zip(found, (1, 1, 2, 2), strict=True):
            np.testing.assert_allclose(value, times * (x @ weights), rtol=1e-4, atol=1e-4)


def read_at_each_step(changes_at: int | None) -> list[Node]:
    """Five steps, each of which reads the matrix anew; before one of them something is added to it."""
    nodes = [
        *(given(name) for name in ("first", "more", "h0", *(f"x{t}" for t in range(5)))),
        {"op": "VarHandleOp", "name": "w", "attrs": {"dtype": "float32", "shape": [2 * UNITS, UNITS]}},
        node("AssignVariableOp", "init", "w", "first"),
    ]
    for t in range(5):
        after: dict[str, Any] = {}
        if t == changes_at:
            nodes.append(node("AssignAddVariableOp", "change", "w", "more", control_inputs=[f"h{t}"]))
        if changes_at is not None and t >= changes_at:
            after = {"control_inputs": ["change"]}
        nodes += [
            node("ReadVariableOp", f"w{t}", "w", attrs={"dtype": "float32"}, **after),
            node("ConcatV2", f"xh{t}", f"x{t}", f"h{t}", 1, **after),
            node("MatMul", f"z{t}", f"xh{t}", f"w{t}"),
            node("Tanh", f"h{t + 1}", f"z{t}"),
        ]
    return nodes


@pytest.mark.parametrize("changes_at", [None, 2, 4])
def test_a_variable_that_each_step_reads(changes_at: int | None, tall: list[tuple[int, int]]) -> None:
    nodes = read_at_each_step(changes_at)
    random = np.random.default_rng(10)
    feeds = {name: random.standard_normal((3, UNITS)).astype(np.float32) for name in ("h0", *(f"x{t}" for t in range(5)))}
    first, more = ((random.standard_normal((2 * UNITS, UNITS)) / 8).astype(np.float32) for _ in range(2))
    found = []
    for fuses in (True, False):
        session = make_session(nodes, fuses_ops=fuses)
        fetch(session, "^init", first=first)
        # what a step adds, the next one finds
        found += [fetch(session, "h5", **feeds, **({} if changes_at is None else {"more": more})) for _ in range(2)]
    np.testing.assert_allclose(found[:2], found[2:], rtol=1e-5, atol=1e-5)
    again = [] if changes_at is None else [(3 * (5 - changes_at), UNITS)]  # all that come after the change
    assert tall == 2 * [(3, 2 * UNITS), (12, UNITS), *again]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_random_graphs(seed: int) -> None:
    """Layers of products of few right operands, of concats and sums of anything before them, some of which is fetched."""
    random = np.random.default_rng(seed)
    early = [f"x{i}" for i in range(4)]
    nodes = [given(name) for name in (*early, "w1", "w2", "w3")]
    values = list(early)
    for number in range(int(random.integers(6, 16))):
        count = int(random.integers(1, 4))
        parts = [str(random.choice(early if random.random() < 0.4 else values)) for _ in range(count)]
        left = parts[0]
        if count > 1:
            left = f"joined{number}"
            nodes.append(node("ConcatV2", left, *parts, int(random.choice([-1, 1]))))
        is_transposed = count == 1 and bool(random.random() < 0.3)  # only the square operand fits either way
        nodes.append(node("MatMul", f"product{number}", left, f"w{count}", attrs={"transpose_b": is_transposed}))
        nodes.append(node("Tanh", f"value{number}", f"product{number}"))
        values.append(f"value{number}")
    rows = int(random.choice([1, 2, 64, shared_operands.THIN_ROWS + 1]))
    feeds = {name: random.standard_normal((rows, UNITS)).astype(np.float32) for name in early}
    for count in (1, 2, 3):
        feeds[f"w{count}"] = (random.standard_normal((count * UNITS, UNITS)) / 16).astype(np.float32)
    names = {found["name"] for found in nodes if found["op"] != "Placeholder" and random.random() < 0.3} | {values[-1]}
    both(nodes, feeds, *sorted(names))


def test_the_matrix_of_time_steps_is_cut_into_pieces_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SMALL_PRODUCT", 1 << 16), ("COLUMNS", UNITS // 4), ("PART_WORK", 1 << 10), ("THIN_OUTPUT", 0)):
        monkeypatch.setattr(products, name, value)
    cut = Mock(side_effect=products._in_pieces)
    monkeypatch.setattr(products, "_in_pieces", cut)
    products.piece_width.cache_clear()
    nodes = recurrence(4)
    session, feeds = make_session(nodes), feeds_of(nodes, np.random.default_rng(0), 8, "xh")
    for _ in range(2):
        fetch(session, "h4:0", **feeds)
    products.piece_width.cache_clear()
    # once in each of the two steps: the rows for `h`, since those for `x` are multiplied only once
    assert [call.args[0].shape for call in cut.call_args_list] == [(UNITS, UNITS)] * 2


def test_a_constant_of_a_step_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    announced = Mock()
    monkeypatch.setattr(node_steps, "announce", announced)
    fetch(make_session([node("Const", "c", value=np.ones((2, 2)).tolist()), node("Identity", "i", "c")]), "i:0")
    announced.assert_called()
