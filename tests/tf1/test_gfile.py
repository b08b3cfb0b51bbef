"""`tf.gfile`: files, and the errors of what fails, as TensorFlow 2.21 gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import placesim.tf1 as tf

gfile = tf.gfile


def test_a_file_is_written_and_read(tmp_path: Path) -> None:
    path = str(tmp_path / "a" / "t.txt")
    gfile.MakeDirs(str(tmp_path / "a"))
    with gfile.GFile(path, "w") as written:
        written.write("one\n")
        written.write(b"two\n")
        written.flush()
    read = gfile.Open(path)
    assert (read.name, read.mode, read.size(), read.seekable()) == (path, "r", 8, True)
    assert (read.readline(), read.tell(), read.read()) == ("one\n", 4, "two\n")
    read.seek(offset=2)
    assert read.read(1) == "e"
    assert list(gfile.FastGFile(path)) == gfile.GFile(path).readlines() == ["one\n", "two\n"]
    assert next(gfile.GFile(path)) == "one\n"
    assert gfile.GFile(path, "rb").read(3) == b"one"
    with gfile.GFile(path, "ab") as added:
        added.write("three")
    assert gfile.Stat(path).length == 13


def test_directories_are_listed_and_walked(tmp_path: Path) -> None:
    top = str(tmp_path / "top")
    gfile.MakeDirs(f"{top}/a")
    with gfile.GFile(f"{top}/t", "w") as written:
        written.write("q")
    gfile.Copy(f"{top}/t", f"{top}/u")
    gfile.Rename(f"{top}/u", f"{top}/v")
    gfile.Copy(f"{top}/t", f"{top}/v", overwrite=True)
    gfile.Remove(f"{top}/t")
    assert sorted(gfile.ListDirectory(top)) == ["a", "v"]
    assert (gfile.IsDirectory(top), gfile.Exists(f"{top}/t"), gfile.Stat(top).is_directory) == (True, False, True)
    assert gfile.Glob([f"{top}/*", f"{top}/no*"]) == [f"{top}/a", f"{top}/v"]
    assert [(where, list(inside), list(files)) for where, inside, files in gfile.Walk(top)] == [
        (top, ["a"], ["v"]),
        (f"{top}/a", [], []),
    ]
    gfile.DeleteRecursively(f"{top}/v")
    gfile.DeleteRecursively(top)
    assert not gfile.Exists(top)


@pytest.mark.parametrize(
    ("call", "kind", "told"),
    [
        (lambda no, _: gfile.GFile(no).read(), tf.errors.NotFoundError, "{no}; No such file or directory"),
        (lambda no, _: gfile.Remove(no), tf.errors.NotFoundError, "{no}; No such file or directory"),
        (lambda no, _: gfile.Stat(no), tf.errors.NotFoundError, "{no}; No such file or directory"),
        (lambda no, _: gfile.Copy(no, no + "/q"), tf.errors.NotFoundError, "{no}; No such file or directory"),
        (lambda no, _: gfile.Rename(no, no + "q"), tf.errors.NotFoundError, "{no}; No such file or directory"),
        (lambda no, _: gfile.MkDir(no + "/dir"), tf.errors.NotFoundError, "{no}/dir; No such file or directory"),
        (lambda no, _: gfile.ListDirectory(no), tf.errors.NotFoundError, "Could not find directory {no}"),
        (lambda no, _: gfile.DeleteRecursively(no), tf.errors.NotFoundError, "{no} not found"),
        (lambda _, there: gfile.Copy(there, there), tf.errors.AlreadyExistsError, "file already exists"),
        (lambda _, there: gfile.GFile(there).write("q"), tf.errors.PermissionDeniedError, "File isn't open for writing"),
        (lambda _, there: gfile.GFile(there, "w").read(), tf.errors.PermissionDeniedError, "File isn't open for reading"),
        (
            lambda no, _: gfile.GFile(no, "q"),
            tf.errors.InvalidArgumentError,
            "mode is not 'r' or 'w' or 'a' or 'r+' or 'w+' or 'a+'",
        ),
    ],
)
def test_a_failure_has_tensorflows_error(call: Any, kind: type[Exception], told: str, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("text")
    no = str(tmp_path / "no")
    with pytest.raises(kind) as refused:
        call(no, str(there))
    assert str(refused.value) == told.format(no=no)
