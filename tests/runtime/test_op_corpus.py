"""Every recorded op case: outputs, state, static shapes, error classes and messages."""

from __future__ import annotations

import pytest

from tests.runtime.op_cases import FAMILIES, Case, load_cases, load_recorded_cases, load_varied_cases

DAMAGED = {
    "SerializeTensor/bool/basic/4": "the recorded string lost the NUL bytes at its end: it declares 4 bytes, 3 follow",
    "SerializeTensor/int64/basic/7": "the recorded string lost the NUL bytes at its end: it declares 32 bytes, 25 follow",
}
"""Recordings that contradict themselves, each with the reason."""


@pytest.mark.parametrize("family", FAMILIES)
def test_family_agrees_with_tensorflow(family: str) -> None:
    total, differing = 0, {}
    for recorded in load_cases(family):
        total += 1
        found = list(Case(recorded).differences())
        if found and recorded["id"] not in DAMAGED:
            differing[recorded["id"]] = found
    print(f"{family}: {total - len(differing)} / {total} agreed")
    assert total
    assert not differing


@pytest.mark.parametrize("case_id", DAMAGED)
def test_damaged_recording_is_still_damaged(case_id: str) -> None:
    """The day the corpus is mended, the entry in `DAMAGED` has to go."""
    (recorded,) = (case for case in load_cases("string") if case["id"] == case_id)
    assert list(Case(recorded).differences())


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_varied_cases_agree_with_tensorflow() -> None:
    total, differing = 0, {}
    for recorded in load_varied_cases():
        total += 1
        found = list(Case(recorded).differences())
        if found:
            differing[recorded["id"]] = found
    assert total
    assert not differing


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_recorded_cases_agree_with_tensorflow() -> None:
    differing = {recorded["id"]: found for recorded in load_recorded_cases() if (found := list(Case(recorded).differences()))}
    assert not differing
