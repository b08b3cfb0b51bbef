"""The best known plans that `planning_bench` keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from placesim.planning.graphs.plan_comparison import DEFAULT
from placesim.planning.portfolio import Effort
from tests.benchmarks.planning_graphs import BestPlans


def study(value: float, default: float = 5.0) -> Any:
    """A study whose plan takes `value` seconds, and TensorFlow's default `default` seconds."""
    placements = [SimpleNamespace(label=DEFAULT, seconds=default)]
    return SimpleNamespace(value=value, bound=SimpleNamespace(value=1.0), method="move", placements=placements)


def test_a_longer_search_improves_the_best_known_plan_and_never_worsens_it(tmp_path: Path) -> None:
    path = tmp_path / "best.json"
    seeds: list[tuple[float, int]] = []

    def finds(value: float) -> Callable[[Effort], Any]:
        def plan(effort: Effort) -> Any:
            seeds.append((effort.seconds, effort.seed))
            return study(value)

        return plan

    for found, seconds, best in ((2.0, 10.0, 2.0), (2.5, 20.0, 2.0), (1.5, 5.0, 1.5)):
        BestPlans(path).search("net", study(3.0), seconds, finds(found))
        assert BestPlans(path).record("net", study(3.0))["step_seconds"] == best
    record = BestPlans(path).record("net", study(3.0))
    assert (record["searches"], record["searched_seconds"]) == (3, 35.0)
    assert seeds == [(10.0, 1), (20.0, 2), (5.0, 3)]
    # with other costs, the record does not count
    assert BestPlans(path).record("net", study(3.0, default=6.0))["step_seconds"] == 3.0
