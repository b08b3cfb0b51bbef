"""Files are read, never waited for and never mapped: pipes and devices in a file's place, files shortened under the reader."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placesim.core.checkpoints.checkpoint import Checkpoint, data_path
from placesim.core.checkpoints.writer import SavedTensor, write_bundle
from placesim.core.dtypes import FLOAT
from placesim.core.errors import DataLossError
from placesim.core.files.reader import NoFileError, ShortenedError, is_stream, open_file, read_file, read_part, read_stream_path
from placesim.formats.tensorflow.file_bytes import file_bytes
from placesim.runtime.partitioning.step_requests import load_npy
from tests.cli.shell import Shell

GRAPH = "nodes:\n  - {op: Placeholder, name: x, dtype: float32}\n  - {op: Neg, name: y, inputs: [x]}\nfetch: [y]\n"


@pytest.mark.posix("named pipes")
def test_only_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name, kind in (("pipe", "a pipe"), ("link", "a pipe"), ("/dev/zero", "a device")):
        with pytest.raises(NoFileError, match=f"{kind}, not a file"):
            open_file(tmp_path / name)
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path)
    with pytest.raises(ValueError, match="null byte"):
        read_file("a\0b")


@pytest.mark.posix("named pipes")
def test_what_a_shell_hands_over_is_read(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"all")
    os.close(writer)
    try:
        path = f"/dev/fd/{reader}"
        assert is_stream(path)
        assert read_stream_path(path) == b"all"
    finally:
        os.close(reader)
    os.mkfifo(tmp_path / "pipe")
    assert not is_stream(tmp_path / "pipe")
    with pytest.raises(NoFileError):
        read_stream_path(tmp_path / "pipe")


def test_a_part_is_whole_or_an_error(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    assert read_part(path, 2, 3) == b"234"
    assert read_part(path, 10, 0) == b""
    for offset, size in ((8, 3), (1 << 50, 1), (0, 1 << 60)):
        with pytest.raises(ShortenedError, match="was truncated"):
            read_part(path, offset, size)


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "pipe"),
        ("place", "pipe"),
        ("place", "pipe.jsonl"),
        ("explain", "pipe"),
        ("check", "pipe"),
        ("check", "g.yaml", "--policy", "pipe"),
        ("diff", "pipe", "g.yaml"),
        ("show", "pipe"),
        ("convert", "pipe", "-"),
        ("place", "g.yaml", "--inventory", "pipe"),
        ("place", "g.yaml", "--checkpoint", "pipe"),
        ("place", "model"),
        ("place", "state", "--checkpoint", "state"),
        ("run", "g.yaml", "--feed", "x=@pipe"),
        ("run", "g.yaml", "--feed", "x=@/dev/zero", "--allow-all-files"),
        ("run", "fed.yaml", "--allow-all-files"),
        ("run", "/dev/zero"),
        ("show", "/dev/zero"),
    ],
    ids=" ".join,
)
@pytest.mark.posix("named pipes")
def test_a_pipe_in_a_files_place_is_an_error(arguments: tuple[str, ...], shell: Shell) -> None:
    shell.write("g.yaml", GRAPH)
    shell.write("fed.yaml", f"{GRAPH}feed: {{x: {{file: pipe}}}}\n")
    for name in ("model", "state"):
        (shell.directory / name).mkdir()
    for name in ("pipe", "pipe.jsonl", "pipe.index", "model/saved_model.pb", "state/checkpoint"):
        os.mkfifo(name)
    ended = shell(*arguments)
    assert ended.code in (1, 2)
    assert "Error: " in ended.complaint
    assert "defect" not in ended.complaint


# --- files that change ------------------------------------------------------------------------------------------------


def test_values_outlive_their_files(tmp_path: Path) -> None:
    """No value is a view of a mapped file: where that is shortened, the next look at the value ends the process."""
    array = np.arange(100_000, dtype=np.float32)
    path, prefix = tmp_path / "x.npy", str(tmp_path / "m")
    np.save(path, array)
    write_bundle(prefix, [SavedTensor("w", FLOAT, array)])
    big = tmp_path / "big.pb"
    big.write_bytes(bytes(1 << 20))
    values: list[Any] = [load_npy(path, ValueError), Checkpoint(prefix).read("w")]
    content = file_bytes(big)
    for file in (path, data_path(prefix, 0, 1), big):
        os.truncate(file, 0)
    for value in values:
        np.testing.assert_array_equal(value, array)
        assert not value.flags.writeable
    assert content == bytes(1 << 20)


def test_a_checkpoint_that_is_shortened_is_named(tmp_path: Path) -> None:
    prefix = str(tmp_path / "m")
    write_bundle(prefix, [SavedTensor(name, FLOAT, np.ones(1000, np.float32)) for name in "ab"])
    checkpoint = Checkpoint(prefix)
    assert checkpoint.read("a").sum() == 1000
    os.truncate(data_path(prefix, 0, 1), 6000)
    with pytest.raises(DataLossError, match=rf"{data_path(prefix, 0, 1)}; the file was truncated while being read"):
        checkpoint.read("b")


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_arrays_of_every_form(version: tuple[int, int], tmp_path: Path) -> None:
    for array in (
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.array(7),
        np.zeros((0, 3)),
        np.array(["ab", "c"]),
    ):
        with (tmp_path / "x.npy").open("wb") as file:
            np.lib.format.write_array(file, array, version)
        found = load_npy(tmp_path / "x.npy", ValueError)
        assert found.dtype == array.dtype
        assert found.flags.f_contiguous == array.flags.f_contiguous
        np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}",
            "it has 4 bytes of data, its header says 4000000000000",
        ),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", r"its shape is \(-1,\)"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "it holds pickled objects, which are not supported"),
        ("{'descr': 'x', 'fortran_order': False, 'shape': (1,)}", "invalid header"),
        ("nonsense", "is not a .npy file of numbers"),
    ],
)
def test_headers_that_lie(header: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + b"\0\0\0\0")
    with pytest.raises(ValueError, match=message):
        load_npy(path, ValueError)
    path.write_bytes(b"\x93NUMPY\x09\x00" + path.read_bytes()[8:])
    with pytest.raises(ValueError, match="unknown format version"):
        load_npy(path, ValueError)


def test_a_shortened_npy_is_an_error(shell: Shell) -> None:
    shell.write("g.yaml", GRAPH)
    np.save("x.npy", np.arange(1000, dtype=np.float32))
    os.truncate("x.npy", 2000)
    ended = shell("run", "g.yaml", "--feed", "x=@x.npy")
    assert (ended.code, ended.output) == (2, "")
    assert "x.npy is not a .npy file of numbers: it has 1872 bytes of data, its header says 4000" in ended.complaint
