"""A lock on a path that processes and threads share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from placesim.core.files.locking import lock_path


def test_no_writing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "count"
    path.write_text("0")

    def add(_: int) -> None:
        with lock_path(path):
            path.write_text(str(int(path.read_text()) + 1))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, range(200)))
    assert path.read_text() == "200"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.posix("removal of an open file")
def test_a_link_and_its_file_have_one_lock(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with lock_path(tmp_path / "link"):
        assert (tmp_path / ".file.placesim-lock").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_a_lock_that_a_dead_process_left_is_taken(tmp_path: Path) -> None:
    (tmp_path / ".file.placesim-lock").touch()
    with lock_path(tmp_path / "file"):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.posix("removal of an open file")
def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / ".file.placesim-lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"), lock_path(tmp_path / "file"):
        pass
    assert not (tmp_path / "elsewhere").exists()
