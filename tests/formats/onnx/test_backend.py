"""ONNX's own backend tests: those agree that the manual does not list, and the manual's page is what the rows are."""

from __future__ import annotations

import pytest

from tests.formats.onnx.backend import KINDS, Case, cases, failure
from tests.formats.onnx.page import PAGE, listed, row_lines

LEAST = {"simple": 1.0, "pytorch-operator": 0.95, "pytorch-converted": 0.95, "node": 0.85}
"""The share of a kind that has to agree."""


NODE_SLICES = 6


@pytest.mark.corpus
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "node"])
def test_all_tests_agree_but_those_that_the_manual_lists(kind: str) -> None:
    hold(kind, list(cases(kind)))


@pytest.mark.corpus
@pytest.mark.slow(5)
@pytest.mark.xdist_group("onnx")  # who loads the tests computes their outputs, longer than a slice takes
@pytest.mark.parametrize("first", range(NODE_SLICES))
def test_all_tests_of_nodes_agree_but_those_that_the_manual_lists(first: int) -> None:
    """Every sixth test, so that the slices take alike long."""
    hold("node", list(cases("node", part=slice(first, None, NODE_SLICES))))


def hold(kind: str, chosen: list[Case]) -> None:
    """The tests that fail are those of the manual's list, and no more than a share of all."""
    print(f"{kind}: {len(chosen)} tests compared")
    assert chosen
    failures = {case.name: reason for case in chosen if (reason := failure(case))}
    known = listed() & {case.name for case in chosen}
    assert not {name: reason for name, reason in failures.items() if name not in known}
    drawn = {case.name for case in chosen if case.name.startswith("test_bernoulli")}  # ten draws may be ONNX's by chance
    assert not known - failures.keys() - drawn, "these agree by now: python -m tests.formats.onnx.page"
    assert len(chosen) - len(failures) >= LEAST[kind] * len(chosen)


def test_the_page_lists_the_rows() -> None:
    assert "\n".join(row_lines()) in PAGE.read_text(encoding="utf-8")
