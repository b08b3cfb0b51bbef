"""A shell for the tests of this room."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.cli.warm import fork_workers


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, capsys)


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of searches and sweeps that need not start Python."""
    fork_workers(monkeypatch)
