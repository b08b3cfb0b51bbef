"""Training reaches TensorFlow's values: seeded numbers are its, and optimizers compute as its."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.processes import run_process

HERE = Path(__file__).parent
RECORDED = json.loads((HERE.parent / "data" / "tf1" / "losses.json").read_text())
_PRINT = (
    "import json, sys; from placesim.tf1.importing import import_hook; import_hook.install(); sys.path.insert(0, sys.argv[1]); "
    "import training_programs as found; print(json.dumps({name: found.losses(name) for name in found.PROGRAMS}))"
)


@pytest.fixture(scope="module")
def found() -> dict[str, list[float]]:
    """The losses of all programs, from a process in which `tensorflow` is answered here."""
    done = run_process((sys.executable, "-c", _PRINT, str(HERE)), check=True)
    losses: dict[str, list[float]] = json.loads(done.output.splitlines()[-1])
    return losses


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_losses_agree_with_tensorflow(name: str, found: dict[str, list[float]]) -> None:
    assert found[name] == pytest.approx(RECORDED[name], rel=1e-4)


@pytest.mark.slow
def test_every_program_is_recorded(found: dict[str, list[float]]) -> None:
    assert set(found) == set(RECORDED)
