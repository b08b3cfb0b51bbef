"""Laws of accounting: it changes nothing, forgets nothing, keeps nothing, and a step that is walked through agrees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placesim.memory.sources import AllocatedMemory
from placesim.runtime.accounting.ledger import Ledger
from tests.memory.sessions import GRAPHS, Scenario, file_scenario, ledger_of, model_scenario, play, session_scenario
from tests.runtime.graph_cases import FILE as RECORDED_GRAPHS
from tests.runtime.list_cases import read_cases
from tests.runtime.test_models import CASES as MODELS
from tests.runtime.test_models import _shared_words as _shared_words  # a fixture

SESSIONS = {case["id"]: case for case in read_cases(RECORDED_GRAPHS)}


def hold_to_laws(scenario: Scenario, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a scenario without and with a ledger, and walk through it."""
    places = [root / name for name in ("plain", "accounted", "walked")]
    for place in places:
        place.mkdir(parents=True)
    monkeypatch.chdir(places[0])
    plain = list(play(scenario, places[0]))
    monkeypatch.chdir(places[1])
    ledger, walked_ledger = ledger_of(scenario), ledger_of(scenario)
    accounted = list(play(scenario, places[1], ledger, is_repeated=True))
    check_figures(ledger)
    for without, with_ledger in zip(plain, accounted, strict=False):
        assert with_ledger.error == without.error
        assert all(map(is_same, with_ledger.values, without.values))
    for step in accounted:
        assert step.error or not step.left_over
    if len(accounted) > len(plain):
        assert accounted[-1].in_use == accounted[-2].in_use
    monkeypatch.chdir(places[2])
    for step, walk in zip(accounted, play(scenario, places[2], walked_ledger, is_walked=True), strict=False):
        assert walk.error == step.error
        if step.error:
            return
        assert (walk.peaks, walk.in_use) == (step.peaks, step.in_use)
        assert not walk.left_over
    check_figures(walked_ledger)


def check_figures(ledger: Ledger) -> None:
    """What each memory says of itself agrees with what lives there."""
    for source in ledger.all_sources():
        assert source.in_use == sum(buffer.allocated for buffer in source.live) <= source.peak
        assert all(buffer.holders > 0 for buffer in source.live)
        if isinstance(source, AllocatedMemory):
            assert source.allocator.bytes_in_use == source.in_use


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are the same, bit for bit."""
    if not isinstance(one, np.ndarray) or one.dtype == object:
        return repr(one) == repr(other)
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


@pytest.mark.parametrize("path", sorted(GRAPHS.glob("*.yaml")), ids=lambda path: path.stem)
def test_graph_file_keeps_the_laws(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hold_to_laws(file_scenario(path), tmp_path, monkeypatch)


@pytest.mark.parametrize("case", MODELS, ids=lambda case: case["id"])
def test_recorded_model_keeps_the_laws(case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hold_to_laws(model_scenario(case), tmp_path, monkeypatch)


@pytest.mark.parametrize("name", SESSIONS)
def test_recorded_session_keeps_the_laws(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hold_to_laws(session_scenario(SESSIONS[name]), tmp_path, monkeypatch)
