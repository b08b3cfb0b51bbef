"""This room is about the graphs of scripts, not about their processes."""

from __future__ import annotations

import os

import pytest

from placesim.formats.sources import scripts
from tests.scripts import run_in_fork


@pytest.fixture(autouse=True)
def fork_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run scripts in forked processes where there are any."""
    if hasattr(os, "fork"):
        monkeypatch.setattr(scripts, "_run", run_in_fork)
