"""What a graph may touch: its own folder and what is named, links followed, never what is no file."""

from __future__ import annotations

import ast
import os
import re
import shutil
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import placesim
from placesim.core.errors import DataLossError, InvalidArgumentError, NotFoundError, PermissionDeniedError, UsageError
from placesim.core.files.access import FileAccess, checkpoint_files
from placesim.formats.sources.loading import load
from tests.cli.shell import ROOT
from tests.ops.kernels.kernel_calls import Machine
from tests.ops.kernels.test_files import queue_of, restore, save, scalar, strings

PACKAGE = Path(placesim.__file__).parent
MODEL = ROOT / "tests" / "data" / "tensorflow-files" / "tf2_model"


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A graph's folder, and another beside it with a file that is none of its business."""
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    (own / "a.txt").write_text("a")
    (other / "b.txt").write_text("b")
    return own, other


# --- the decision -----------------------------------------------------------------------------------------------------


def test_what_lies_below_a_folder_may_be_read(folders: tuple[Path, Path]) -> None:
    own, other = folders
    files = FileAccess.of([own])
    assert files.readable(own / "a.txt") == own / "a.txt"
    assert files.readable(own / "new" / "x") == own / "new" / "x"
    for name in (other / "b.txt", own / ".." / "other" / "b.txt", own.parent, own.with_name("own2"), "/etc/passwd", "/nowhere"):
        with pytest.raises(PermissionDeniedError, match=f"^{name}; Permission denied: .*--allow-read .*--allow-all-files"):
            files.readable(name)
    with pytest.raises(PermissionDeniedError, match=f"may not write this file.*--allow-write {own} "):
        files.writable(own / "a.txt")


def test_what_may_be_written_may_be_read(folders: tuple[Path, Path]) -> None:
    own, other = folders
    files = FileAccess.of([own], [other / "b.txt"])
    assert files.writable(other / "b.txt") == files.readable(other / "b.txt") == other / "b.txt"
    with pytest.raises(PermissionDeniedError):
        files.writable(other / "c.txt")


def test_links_are_followed(folders: tuple[Path, Path]) -> None:
    own, other = folders
    (own / "out").symlink_to(other)
    (own / "circle").symlink_to(own / "circle")
    with pytest.raises(PermissionDeniedError):
        FileAccess.of([own]).readable(own / "out" / "b.txt")
    (other / "in").symlink_to(own)
    assert FileAccess.of([other / "in"]).readable(own / "a.txt") == own / "a.txt"
    for name in (own / "circle", "a\0b"):
        with pytest.raises(InvalidArgumentError, match="is not a valid file name"):
            FileAccess.of([own]).readable(name)


@pytest.mark.posix("named pipes and sockets")
def test_what_is_no_file_is_refused_whatever_is_allowed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket"))
        for name in ("pipe", "link", "socket", "/dev/null", "/dev/new", "/proc/self/environ", "/sys/kernel"):
            for allowed in (FileAccess(all_files=True), FileAccess.of(["/"], ["/"])):
                for check in (allowed.readable, allowed.writable):
                    with pytest.raises(PermissionDeniedError, match=r"files alone, and this is (a|the) "):
                        check(tmp_path / name)


def test_a_checkpoint_that_is_named_may_be_read(tmp_path: Path) -> None:
    for name in ("m.index", "m.data-00000-of-00001", "mine", "m.other"):
        (tmp_path / name).touch()
    found = checkpoint_files(tmp_path / "m")
    assert sorted(path.name for path in found) == ["m.data-00000-of-00001", "m.index"]
    assert checkpoint_files(tmp_path) == [tmp_path]
    assert checkpoint_files(tmp_path / "no" / "m") == [tmp_path / "no" / "m.index"]


# --- every op that opens files ----------------------------------------------------------------------------------------


def _sampler(machine: Machine, path: Path) -> None:
    attrs = {"num_true": 1, "num_sampled": 1, "unique": False, "range_max": 1, "vocab_file": str(path)}
    machine.run("FixedUnigramCandidateSampler", np.zeros((1, 1), np.int64), **attrs)


def _table(machine: Machine, path: Path) -> None:
    table = machine.run("HashTableV2", node="t", key_dtype="string", value_dtype="int64", shared_name="t")
    machine.run("InitializeTableFromTextFileV2", table, scalar(path), key_index=-2, value_index=-1)


def _reader(op: str, **attrs: Any) -> Any:
    def read(machine: Machine, path: Path) -> None:
        machine.run("ReaderReadV2", machine.run(op, node="r", **attrs), queue_of(machine, path))

    return read


def _dataset(op: str, *inputs: Any) -> Any:
    def read(machine: Machine, path: Path) -> None:
        (handle,) = (machine.run(op, strings(str(path)), *inputs),)
        next(iter(handle.start()))

    return read


NONE, ONE = np.array(b"", object), np.int64(1)
READING = {
    "ReadFile": lambda m, p: m.run("ReadFile", scalar(p)),
    "MatchingFiles": lambda m, p: m.run("MatchingFiles", strings(str(p.parent / "*"))),
    "MatchingFiles of one": lambda m, p: m.run("MatchingFiles", scalar(p)),
    "MatchingFiles of folders": lambda m, p: m.run("MatchingFiles", strings(f"{p.parent}/../o*/../*/*.txt")),
    "MatchingFilesDataset": _dataset("MatchingFilesDataset"),
    "RestoreV2": lambda m, p: restore(m, p, "w"),
    "FixedUnigramCandidateSampler": _sampler,
    "InitializeTableFromTextFileV2": _table,
    "WholeFileReaderV2": _reader("WholeFileReaderV2"),
    "TextLineReaderV2": _reader("TextLineReaderV2"),
    "FixedLengthRecordReaderV2": _reader("FixedLengthRecordReaderV2", record_bytes=1),
    "TFRecordReaderV2": _reader("TFRecordReaderV2"),
    "TextLineDataset": _dataset("TextLineDataset", NONE, ONE),
    "TFRecordDataset": _dataset("TFRecordDataset", NONE, ONE),
    "FixedLengthRecordDataset": _dataset("FixedLengthRecordDataset", ONE * 0, ONE, ONE * 0, ONE),
}
WRITING = {
    "WriteFile": lambda m, p: m.run("WriteFile", scalar(p), scalar("x")),
    "PrintV2": lambda m, p: m.run("PrintV2", scalar("x"), output_stream=f"file://{p}"),
    "SaveV2": lambda m, p: save(m, p, w=np.zeros(1, np.float32)),
    "MergeV2Checkpoints": lambda m, p: m.run("MergeV2Checkpoints", strings(str(p.with_name("c"))), scalar(p)),
}


@pytest.mark.parametrize("op", [*READING, *WRITING])
def test_an_op_touches_only_what_it_may(op: str, folders: tuple[Path, Path]) -> None:
    own, other = folders
    before = sorted(os.listdir(other)), (other / "b.txt").read_bytes()
    machine = Machine()
    machine.files = FileAccess.of([own])
    with pytest.raises(PermissionDeniedError, match=r"; Permission denied: the graph may not (read|write) this file"):
        (READING | WRITING)[op](machine, other / "b.txt")
    assert (sorted(os.listdir(other)), (other / "b.txt").read_bytes()) == before


@pytest.mark.parametrize("op", [*READING, *WRITING])
@pytest.mark.parametrize("folder", ["reads", "writes"])
def test_an_op_touches_what_it_may(op: str, folder: str, folders: tuple[Path, Path]) -> None:
    if (op in WRITING) != (folder == "writes"):
        return
    own, other = folders
    machine = Machine()
    machine.files = FileAccess.of(reads=[own.parent]) if folder == "reads" else FileAccess.of(writes=[own.parent])
    # it is no checkpoint and no file of records
    with suppress(DataLossError, NotFoundError, InvalidArgumentError):
        (READING | WRITING)[op](machine, other / "b.txt")


def test_a_link_to_be_listed_is_no_way_out(folders: tuple[Path, Path]) -> None:
    own, other = folders
    (own / "out").symlink_to(other)
    machine = Machine()
    machine.files = FileAccess.of([own])
    assert len(machine.run("MatchingFiles", scalar(own / "*"))) == 2
    with pytest.raises(PermissionDeniedError):
        machine.run("MatchingFiles", scalar(own / "*" / "*"))


class Uses(NamedTuple):
    """The modules that a file imports, and the functions that it calls."""

    modules: set[str]
    calls: list[str]


@cache
def _uses(path: Path) -> Uses:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    modules = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    modules |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return Uses(modules, [ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)])


@pytest.mark.slow
def test_kernels_open_files_in_one_module() -> None:
    """No kernel goes past the decision: what opens, finds or changes files is called in one module, and with what it allows."""
    opening = ("open", "read_bytes", "write_bytes", "read_text", "write_text", "load", "fromfile", "memmap", "glob", "unlink")
    own = ("file_access.py", "unicode_scripts.py", "op_families.py")
    for path in [
        *(PACKAGE / "ops").rglob("kernels/**/*.py"),
        *(PACKAGE / "ops/process").glob("*.py"),
        *(PACKAGE / "runtime").rglob("*.py"),
    ]:
        if path.name not in own and path.parent.name not in ("cluster", "dask"):
            found = [
                call
                for call in _uses(path).calls
                if call.rpartition(".")[2] in opening and call not in ("read_bytes", "write_bytes", "_pillow().open")
            ]
            assert not found, path


STARTING = {"subprocess", "socket", "ssl", "http", "urllib", "multiprocessing", "asyncio", "pty", "webbrowser", "distributed"}
"""Modules that start programs, or reach a network."""
STARTED = re.compile(r"os\.(system|popen|fork\w*|exec\w*|spawn\w*|posix_spawn\w*)")
"""Functions that start programs."""


@pytest.mark.slow
def test_no_op_starts_a_program_or_opens_a_connection() -> None:
    """Nor does what runs ops; only a cluster that the command line names is started, and connected to."""
    folders = (PACKAGE / "ops", PACKAGE / "runtime")
    paths = [path for folder in folders for path in folder.rglob("*.py") if path.parent.name not in ("cluster", "dask")]
    assert len(paths) > 200
    for path in paths:
        uses = _uses(path)
        assert not {module.partition(".")[0] for module in uses.modules} & STARTING, path
        assert not [call for call in uses.calls if STARTED.fullmatch(call)], path


# --- a whole run ------------------------------------------------------------------------------------------------------


def test_options_allow_more(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = folders
    monkeypatch.chdir(own)
    nodes = """nodes:
  - {op: Const, name: from, value: %s}
  - {op: Const, name: to, value: %s}
  - {op: ReadFile, name: r, inputs: [from]}
  - {op: WriteFile, name: w, inputs: [to, from]}
fetch: [%s]
"""
    for fetched, option in (("r", "allow_read"), ("w", "allow_write")):
        graph = own / "g.yaml"
        graph.write_text(nodes % (other / "b.txt", other / "c" / "d.txt", fetched))
        with pytest.raises(PermissionDeniedError) as caught:
            placesim.run(graph)
        assert (caught.value.node, caught.value.location.line) == (fetched, 4 if fetched == "r" else 5)  # type: ignore[union-attr]
        assert caught.value.exit_code == 1
        placesim.run(graph, **{option: str(other)})  # type: ignore[arg-type]
        placesim.run(graph, **{option: [other]})  # type: ignore[arg-type]
        placesim.run(graph, allow_all_files=True)
    assert (other / "c" / "d.txt").read_text() == str(other / "b.txt")
    for wrong in ("", "a\0b", [3], 3):
        with pytest.raises(UsageError, match="wrong allow_read"):
            placesim.run(graph, allow_read=wrong)  # type: ignore[arg-type]


@pytest.mark.posix("named pipes and sockets")
def test_feeds_from_files(folders: tuple[Path, Path]) -> None:
    own, other = folders
    for folder in folders:
        np.save(folder / "x.npy", np.array(2, np.float32))
    text = "nodes:\n  - {op: Placeholder, name: x, dtype: float32}\n  - {op: Neg, name: y, inputs: [x]}\nfetch: [y]\n"
    graph = own / "g.yaml"
    graph.write_text(f"{text}feed: {{x: {{file: x.npy}}}}")
    assert placesim.run(graph).results["y"] == -2
    for path in ("../other/x.npy", other / "x.npy"):
        graph.write_text(f"{text}feed: {{x: {{file: {path}}}}}")
        with pytest.raises(PermissionDeniedError, match="may not read this file") as caught:
            placesim.run(graph)
        assert str(caught.value.location) == f"{graph}:5:8"
        assert placesim.run(graph, allow_read=other).results["y"] == -2
    graph.write_text(text)
    assert placesim.run(graph, feed={"x": {"file": str(other / "x.npy")}}).results["y"] == -2
    os.mkfifo(own / "pipe")
    with pytest.raises(PermissionDeniedError, match="this is a pipe"):
        placesim.run(graph, feed={"x": {"file": "pipe"}}, allow_all_files=True)


def test_a_saved_model_reads_below_its_own_directory(tmp_path: Path) -> None:
    """Not what lies beside it; its file alone is as any graph's."""
    model = Path(shutil.copytree(MODEL, tmp_path / "model"))
    assert load(model).folder == model
    assert load(model / "saved_model.pb").folder == model
    assert load({}).folder == Path()
    (model / "variables" / "variables.data-00000-of-00001").rename(tmp_path / "data")
    (model / "variables" / "variables.data-00000-of-00001").symlink_to(tmp_path / "data")
    with pytest.raises(InvalidArgumentError, match="is outside the model's directory"):
        placesim.run(model, feed={"x": [[1.0, 2.0, 3.0, 4.0]]})


@pytest.mark.parametrize(
    ("name", "error"), [("", NotFoundError), ("a" * 5000, InvalidArgumentError), ("\udcff", NotFoundError)]
)
def test_names_that_name_nothing(name: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        Machine().run("ReadFile", np.array(os.fsencode(name), object))
