"""A shell for the tests of this room."""

import pytest

from placesim.runtime.cluster import cluster_setup
from tests.cli.conftest import shell

__all__ = ["shell"]


@pytest.fixture(autouse=True)
def no_long_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """If fewer workers are enough, nobody waits 2 s for more, which no test starts meanwhile."""
    monkeypatch.setattr(cluster_setup, "_MORE_SECONDS", 0.2)
