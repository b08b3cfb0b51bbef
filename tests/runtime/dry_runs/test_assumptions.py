"""What a dry run assumes of loops, branches and dimensions, and what it says of that."""

from __future__ import annotations

import pytest

from placesim.runtime.dry_runs.assumptions import Assumptions, BranchChoice, OpenTensor, find_loop


@pytest.mark.parametrize(
    ("name", "loop", "is_found"),
    [
        ("train/while", "train/while/while_context", True),
        ("while", "train/while/while_context", True),
        ("train/while/while_context", "train/while/while_context", True),
        ("while_context", "train/while/while_context", True),
        ("ile", "train/while/while_context", False),
        ("train", "train/while", False),
        ("while", "while", True),
    ],
)
def test_a_loop_goes_by_its_frame_or_its_scope(name: str, loop: str, is_found: bool) -> None:
    assert find_loop({"other": 2, name: 3}, loop) == (name if is_found else None)


def test_a_loop_runs_once_unless_it_is_told_how_often() -> None:
    found = Assumptions(iterations={"a": 3})
    assert [found.goes_on("x/a", number) for number in range(5)] == [True, True, True, False, False]
    assert [found.goes_on("b", number) for number in range(3)] == [True, False, False]
    assert found.loops == {"x/a": 3, "b": 1}
    assert (found.tells("x/a"), found.tells("b"), Assumptions(is_free=True).tells("b")) == (True, False, True)
    assert found.unsaid_loops() == ["b"]
    assert found.warnings() == ["loop b is assumed to run once, as its trip count is unknown: set it with `--iterations b=N`"]


def test_of_two_branches_the_true_one_is_taken_and_of_more_the_first() -> None:
    found = Assumptions(branches={BranchChoice("told", 3): 2})
    assert [found.branch("if", 2), found.branch("case", 3), found.branch("told", 3)] == [1, 0, 2]
    assert found.chosen == {BranchChoice("if", 2): 1, BranchChoice("case", 3): 0, BranchChoice("told", 3): 2}
    assert [BranchChoice("if", 2).word(0), BranchChoice("if", 2).word(1), BranchChoice("case", 3).word(1)] == [
        "false",
        "true",
        "1",
    ]


def test_open_dimensions_are_assumed_and_counted() -> None:
    found = Assumptions(dimension=7)
    assert found.settled(1, 0, OpenTensor("x", (-1, 0, 3))) == (7, 0, 3)
    assert found.settled(1, 0, OpenTensor("y", None)) is None
    assert found.opened == {(1, "x", 0): OpenTensor("x", (-1, 0, 3))}
    assert Assumptions().settled(1, 0, OpenTensor("x", (-1,))) == (-1,)


def test_sentences_tell_all_assumptions() -> None:
    found = Assumptions(is_free=True, iterations={"a": 3, "unused": 2}, dimension=7)
    for loop in ("x/a", "b"):
        found.iterations_of(loop)
    found.branch("if", 2)
    found.branch("case", 3)
    found.failed[BranchChoice("case", 3)] = "the others fail"
    found.notes.append("and more")
    found.settled(1, 0, OpenTensor("x", (-1,)))
    expected = (
        "loop b is assumed to run once: trip count unknown, set it with `--iterations b=N`",
        "loop x/a runs 3 times, as given",
        "the iteration count for unused is ignored: its condition is known, or it does not run",
        "if is unknown: branch true is assumed, the slowest of 2",
        "case is unknown: branch 0 is assumed, the others fail",
        "unknown dimensions of 1 tensor are assumed to be 7",
        "and more",
    )
    assert found.sentences() == expected
    found.settled(1, 1, OpenTensor("x", (-1,)))
    assert found.sentences()[5] == "unknown dimensions of 2 tensors are assumed to be 7"
    assert Assumptions().sentences() == ()
