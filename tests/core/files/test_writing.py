"""Outputs are whole or as they were: a disk that is full, a wrong file among several, links, modes, and what is no file."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from placesim.core.errors import PermissionDeniedError, ResourceExhaustedError
from placesim.core.files.access import FileAccess
from placesim.core.files.writer import WholeFiles, write_whole
from tests.cli.shell import ROOT, Shell
from tests.ops.kernels.kernel_calls import Machine
from tests.ops.kernels.test_files import restore, save, scalar, strings

TOWERS = str(ROOT / "graphs" / "towers.yaml")


class _FullDisk:
    """A file that takes a quarter of what it is given."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, content: bytes) -> int:
        self._file.write(content[: len(content) // 4])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def __enter__(self) -> _FullDisk:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


@pytest.fixture
def fill_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets the disk be full from the Nth file on."""

    def fill(whole: int) -> None:
        real, opened = os.fdopen, [0]

        def fdopen(descriptor: int, *arguments: Any) -> Any:
            file = real(descriptor, *arguments)
            opened[0] += 1
            return file if opened[0] <= whole else _FullDisk(file)

        monkeypatch.setattr("placesim.core.files.writer.os.fdopen", fdopen)

    return fill


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a"
    write_whole(path, b"one", makes_folders=True)
    write_whole(path, b"two")
    assert (path.read_bytes(), os.listdir(path.parent)) == (b"two", ["a"])
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "no" / "a", b"")


def test_several_files_appear_together_or_not_at_all(tmp_path: Path, fill_disk: Callable[[int], None]) -> None:
    (tmp_path / "a").write_bytes(b"old")
    fill_disk(1)

    def write() -> None:
        with WholeFiles() as files:
            files.write(tmp_path / "a", (b"new",))
            files.write(tmp_path / "sub" / "deep" / "b", (b"new",), makes_folders=True)

    with pytest.raises(OSError, match="No space left on device"):
        write()
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"old")]


def test_a_move_is_undone(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(name.encode())

    def move() -> None:
        with WholeFiles() as files:
            files.write(tmp_path / "c", (b"c",))
            files.move(tmp_path / "a", tmp_path / "x")
            files.move(tmp_path / "missing", tmp_path / "y")

    with pytest.raises(FileNotFoundError):
        move()
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.posix("permissions of files")
def test_links_and_modes_stay(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o640
    old = os.umask(0o027)
    try:
        write_whole(tmp_path / "fresh", b"")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o640


@pytest.mark.linux("/dev/full")
def test_what_is_no_file_is_written_straight(tmp_path: Path) -> None:
    write_whole(Path(os.devnull), b"gone")
    with pytest.raises(OSError, match="No space left on device"):
        write_whole(Path("/dev/full"), b"x")
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, b"x")


# --- commands ---------------------------------------------------------------------------------------------------------


def test_a_full_disk_leaves_the_only_copy(shell: Shell, fill_disk: Callable[[int], None]) -> None:
    assert shell("convert", TOWERS, "o.yaml").code == 0
    before = Path("o.yaml").read_bytes()
    fill_disk(0)
    ended = shell("convert", "o.yaml", "o.yaml")
    assert (ended.code, ended.output) == (2, "")
    assert ended.complaint == ("UsageError: cannot write o.yaml: got 'No space left on device', expected a writable path\n")
    assert Path("o.yaml").read_bytes() == before
    assert shell("show", TOWERS, "--output", "page.html").code == 2
    assert os.listdir() == ["o.yaml"]


def test_partitions_are_written_all_or_none(shell: Shell, fill_disk: Callable[[int], None]) -> None:
    fill_disk(2)
    ended = shell("convert", TOWERS, "--partitioned", "parts/of", "--gpu", "4")
    assert (ended.code, os.listdir()) == (2, [])
    assert "cannot write parts/of/" in ended.complaint
    Path("parts").mkdir()
    assert shell("convert", TOWERS, "parts", "--format", "pb", "--partitioned", "new", "--gpu", "4").code == 2
    assert os.listdir() == ["parts"]


@pytest.mark.linux("/dev/full")
def test_an_output_may_be_a_device(shell: Shell) -> None:
    assert shell("convert", TOWERS, "/dev/null", "--format", "pb").code == 0
    assert "No space left on device" in shell("show", TOWERS, "--format", "dot", "--output", "/dev/full").complaint


# --- checkpoints and files of a graph -------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [0, 1])
def test_a_full_disk_leaves_the_old_checkpoint(whole: int, tmp_path: Path, fill_disk: Callable[[int], None]) -> None:
    machine, prefix = Machine(), tmp_path / "m"
    save(machine, prefix, w=np.zeros(3, np.float32))
    fill_disk(whole)
    with pytest.raises(ResourceExhaustedError, match="No space left on device"):
        save(machine, prefix, w=np.ones(5000, np.float32))
    assert restore(machine, prefix, "w").tolist() == [0] * 3
    assert sorted(os.listdir(tmp_path)) == ["m.data-00000-of-00001", "m.index"]


def test_a_full_disk_leaves_the_shards(tmp_path: Path, fill_disk: Callable[[int], None]) -> None:
    machine, prefixes = Machine(), strings(str(tmp_path / "a"), str(tmp_path / "b"))
    for name, prefix in zip("vw", prefixes, strict=True):
        save(machine, prefix.decode(), **{name: np.zeros(3, np.float32)})
    before = sorted(os.listdir(tmp_path))
    fill_disk(0)
    with pytest.raises(ResourceExhaustedError):
        machine.run("MergeV2Checkpoints", prefixes, scalar(tmp_path / "m"))
    assert sorted(os.listdir(tmp_path)) == before


def test_a_full_disk_leaves_a_graphs_file(tmp_path: Path, fill_disk: Callable[[int], None]) -> None:
    (tmp_path / "a").write_bytes(b"old")
    fill_disk(0)
    with pytest.raises(ResourceExhaustedError):
        Machine().run("WriteFile", scalar(tmp_path / "a"), scalar("something new"))
    assert (os.listdir(tmp_path), (tmp_path / "a").read_bytes()) == (["a"], b"old")
    machine = Machine()
    machine.files = FileAccess.of([tmp_path])
    with pytest.raises(PermissionDeniedError):
        machine.run("MergeV2Checkpoints", strings(str(tmp_path / "a")), scalar(tmp_path / "m"))
