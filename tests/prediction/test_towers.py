"""The graph of any number of towers: the file's own for two, and the same training for all."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import yaml

import placesim
from tests.benchmarks.towers import FILE, FILE_IMAGES, FILE_TOWERS, simulated, tower_graph


def test_two_towers_are_the_file() -> None:
    assert tower_graph(FILE_TOWERS, FILE_IMAGES) == yaml.load(FILE.read_text(), Loader=yaml.CSafeLoader)


@cache
def losses(towers: int) -> list[float]:
    """The losses of four steps."""
    report = placesim.run(tower_graph(towers, 16 // towers))
    return [float(np.asarray(result.array)) for result in report.results]


@pytest.mark.slow
@pytest.mark.parametrize("towers", [1, 8])
def test_any_number_of_towers_trains_alike(towers: int) -> None:
    # the same batch, and averages of averages
    found = losses(towers)
    assert len(found) == 4
    assert found == pytest.approx(losses(FILE_TOWERS), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("towers", [1, 8])
def test_each_tower_has_its_gpu(towers: int) -> None:
    study = simulated(towers, 16, "Tesla K80").study
    gpus = [device for device in study.devices if "GPU" in device.device]
    assert len(gpus) == towers
    # the last digit of a sum differs with its order
    assert len({(gpu.nodes, round(gpu.busy, 12)) for gpu in gpus}) == 1
    assert gpus[0].nodes > 0
