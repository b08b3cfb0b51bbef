"""`placesim.testing`: a project's own tests hold its placements to policies."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import placesim
from placesim.api.testing import assert_placement
from tests.processes import run_process

ROOT = Path(__file__).parent.parent.parent
TOWERS = ROOT / "graphs" / "towers.yaml"
TESTS = """
import pytest

def test_kept(holds_placement):
    report = holds_placement({towers!r}, "no-soft-fallback", gpu=4)
    assert report.is_kept

def test_broken(holds_placement):
    holds_placement({towers!r}, "no-soft-fallback", gpu=1, soft_placement=True)
"""


def test_what_keeps_its_policy_is_given_back() -> None:
    assert assert_placement(TOWERS, "no-soft-fallback", gpu=4).rules == ("no-soft-fallback",)
    assert assert_placement(TOWERS, policy={"rules": [{"max-transfers": 2}]}, gpu=4).is_kept


def test_what_breaks_it_is_told_line_by_line() -> None:
    with pytest.raises(AssertionError, match=r"towers.yaml breaks its policy:\n.*:11:9: no-soft-fallback: MatMul requested"):
        assert_placement(TOWERS, "no-soft-fallback", gpu=1, soft_placement=True)
    with pytest.raises(AssertionError, match="placeable"):
        assert_placement(ROOT / "graphs" / "missing-gpu.yaml", "no-soft-fallback")
    with pytest.raises(placesim.UsageError, match="nothing to check"):
        assert_placement(TOWERS)


@pytest.mark.slow
def test_the_fixture_in_a_project(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["placesim.testing"]\n')
    (tmp_path / "test_it.py").write_text(TESTS.format(towers=str(TOWERS)))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rf", str(tmp_path)]
    shown = run_process(command, folder=tmp_path, environment={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}).output
    assert "1 failed, 1 passed" in shown, shown
    assert "no-soft-fallback: MatMul requested /device:GPU:2 but is on GPU:0" in shown
    assert "placesim/api/testing.py" not in shown  # the failure stands at the caller's line


def test_without_the_fixture_pytest_is_not_imported() -> None:
    script = "import sys, placesim.testing; print('pytest' in sys.modules)"
    assert run_process((sys.executable, "-c", script), check=True).output == "False\n"
