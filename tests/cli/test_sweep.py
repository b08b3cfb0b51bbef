"""`placesim sweep`: a row for each combination, what is kept in a file, and how it ends."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placesim.cli import main
from placesim.cli.progress import TerminalProgress
from placesim.core.errors import UsageError
from placesim.core.process import interrupts
from placesim.studies.sweeping import processes
from placesim.studies.sweeping.axes import make_axes
from placesim.studies.sweeping.row_dependencies import identity_of
from placesim.studies.sweeping.row_simulation import RowOutcome, SweepJob, simulate_row
from placesim.studies.sweeping.row_store import read_sweep
from tests.cli.shell import Shell, rows
from tests.cli.warm import start_warm
from tests.processes import interrupt, read_until, until

GRAPH = """
devices: {cpu: 1, gpu: {count: 2, model: Tesla K80}}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [null, 1024]}
  - {op: Const, name: w, value: 0.1, shape: [1024, 1024]}
  - {op: MatMul, name: a, inputs: [x, w], device: /gpu:0}
  - {op: Relu, name: b, inputs: [a], device: /gpu:1}
fetch: [b]
"""
ENDINGS = ("csv", "json", "html")


@pytest.fixture
def graph(shell: Shell) -> str:
    return shell.write("g.yaml", GRAPH)


def table(output: str) -> list[dict[str, str]]:
    head, *lines = (line.split("\t") for line in output.splitlines())
    return [dict(zip(head, line, strict=True)) for line in lines]


def test_the_best_combination_is_named_as_in_the_table(shell: Shell, graph: str) -> None:
    ended = shell("sweep", graph, "--batch", "8", "--set", "soft-placement=true,false", "--jobs", "1")
    assert ended.complaint.startswith("Best: batch 8, soft-placement true (")


def test_a_pipe_gets_a_line_for_each_combination(shell: Shell, graph: str) -> None:
    ended = shell("sweep", graph, "--gpu", "2..3", "--gpu-model", "Tesla K80,Tesla T4", "--batch", "64,128", "--jobs", "1")
    best = "Best: gpu 2, gpu-model Tesla T4, batch 128 (most examples per second of the combinations that fit)\n"
    assert (ended.code, ended.complaint) == (0, best)
    found = table(ended.output)
    assert [(row["gpu"], row["gpu-model"], row["batch"]) for row in found[:3]] == [
        ("2", "Tesla K80", "64"),
        ("2", "Tesla K80", "128"),
        ("2", "Tesla T4", "64"),
    ]
    assert len(found) == 8
    for row in found:
        assert 0 < float(row["low"]) <= float(row["seconds"]) <= float(row["high"])
        assert float(row["examples_per_second"]) == pytest.approx(float(row["batch"]) / float(row["seconds"]), rel=1e-4)
        assert (row["fits"], row["error"], row["peak_device"]) == ("true", "-", "GPU:0")
        assert (int(row["transfers"]), int(row["transfer_bytes"])) == (3, 3 * int(row["batch"]) * 4096)


def test_sorted_rows_begin_with_the_best_and_end_with_those_that_failed(shell: Shell, graph: str) -> None:
    words = ("sweep", graph, "--gpu", "1..3", "--batch", "64,3000000,128", "--columns", "fits", "--jobs", "1")
    plain, ended = shell(*words), shell(*words, "--sort")
    found = [(row["batch"], row["gpu"], row["fits"]) for row in table(ended.output)]
    fitting, full, failed = (
        [("128", "true"), ("64", "true")],
        [("3000000", "false")],
        [("64", "-"), ("3000000", "-"), ("128", "-")],
    )
    assert found == [
        *((batch, gpu, fits) for batch, fits in (*fitting, *full) for gpu in ("2", "3")),
        *((batch, "1", fits) for batch, fits in failed),
    ]
    assert sorted(plain.output.splitlines()) == sorted(ended.output.splitlines())
    assert ended.complaint == plain.complaint
    assert "Best: gpu 2, batch 128 " in ended.complaint
    refused = shell(*words[:-4], "--sort", "--format", "csv")
    assert (refused.code, refused.output) == (2, "")
    assert "--sort sorts text and markdown: got format csv" in refused.complaint


def test_a_row_is_what_simulate_says(shell: Shell, graph: str) -> None:
    (row,) = table(shell("sweep", graph, "--gpu-model", "Tesla T4", "--batch", "96", "--link", "GPU:0-GPU:1=1GB/s").output)
    told = shell("simulate", graph, "--gpu-model", "Tesla T4", "--batch", "96", "--link", "GPU:0-GPU:1=1GB/s").output
    assert [row["seconds"], row["low"], row["high"]] == rows(told, "time")[0]
    assert max(rows(told, "bound"), key=lambda bound: float(bound[2]))[1] == row["bound"]
    assert [device[8] for device in rows(told, "device") if device[0] == "GPU:0"] == [row["peak_bytes"]]


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.slow
def test_processes_find_what_one_does(shell: Shell, graph: str) -> None:
    arguments = ("sweep", graph, "--gpu", "1..3", "--batch", "32..128*2")
    assert shell(*arguments, "--jobs", "3").output == shell(*arguments, "--jobs", "1").output


def test_a_combination_that_fails_is_a_row(shell: Shell, graph: str) -> None:
    ended = shell("sweep", graph, "--gpu", "1,2", "--batch", "64,3000000", "--jobs", "1")
    assert ended.code == 1
    found = table(ended.output)
    assert [row["fits"] for row in found] == ["-", "-", "true", "false"]
    assert found[0]["error"].startswith("InvalidArgumentError: Cannot assign a device for operation b")
    assert found[0]["seconds"] == "-"
    assert found[3]["error"].startswith("ResourceExhaustedError: ")
    assert float(found[3]["seconds"]) > float(found[2]["seconds"])
    assert int(found[3]["peak_bytes"]) > int(found[3]["limit_bytes"])


def test_what_is_wrong_with_all_is_an_error(shell: Shell, graph: str) -> None:
    ended = shell("sweep", graph, "--gpu", "2,3", "--jobs", "1")
    assert (ended.code, ended.output) == (2, "")
    assert ended.complaint == (
        "UsageError: placeholders have unknown shapes: x [?,1024]\n  `--batch N` sets the first dimension of all\n"
        "  `--assume-unknown N` assumes N for each unknown dimension\n"
    )
    wrong = shell.write("wrong.yaml", "nodes: [{op: MatMull}]")
    assert shell("sweep", wrong, "--gpu", "1,2", "--format", "json", "--jobs", "1").complaint.startswith(
        "GraphFileError: wrong.yaml:1:14: unknown op"
    )
    assert shell("sweep", "none.yaml", "--gpu", "1").code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "gpus=1"), "unknown key of a sweep: got 'gpus'"),
        (("--set", "gpu"), "wrong --set: got 'gpu'"),
        (("--gpu", "8..1"), "empty range of gpu"),
        (("--gpu", "1", "--set", "gpu=2"), "duplicate key gpu"),
        (("--batch", "1..20", "--max-combinations", "10"), "too many combinations: got 20"),
        (("--batch", "4", "--fetch", "nothing"), "nothing"),
        (("--batch", "4", "--set", "config:gpu_memory=1"), "unknown key of a config: got 'gpu_memory'"),
        (("--batch", "4", "--set", "config:per_process_gpu_memory_fraction=-3"), "per_process_gpu_memory_fraction"),
        (("--batch", "4", "--format", "yaml"), "expected text or csv or markdown or json or html"),
        (("--batch", "4", "--link", "a"), "bad link"),
    ],
)
def test_options_that_mean_nothing(shell: Shell, graph: str, arguments: tuple[str, ...], message: str) -> None:
    ended = shell("sweep", graph, *arguments)
    assert ended.code == 2
    assert message in ended.complaint


def test_parts_of_options_are_keys(shell: Shell, graph: str) -> None:
    def seconds(*sets: str) -> list[float]:
        arguments = [part for text in sets for part in ("--set", text)]
        return [float(row["seconds"]) for row in table(shell("sweep", graph, "--jobs", "1", *arguments).output)]

    fast, slow = seconds("shape:x=64x1024", "link:GPU:0-GPU:1=100GB/s,1MB/s")
    assert slow > 100 * fast
    one, two = seconds("shape:x=64x1024", "device:b=/gpu:0,/gpu:1")
    assert one < two
    small, large = seconds("shape:x=64x1024,128x1024")
    assert small < large
    ended = shell("sweep", graph, "--batch", "64", "--set", "config:per_process_gpu_memory_fraction=0.0001,0.5", "--jobs", "1")
    assert [row["fits"] for row in table(ended.output)] == ["false", "true"]


def test_examples_say_how_many_a_step_takes(shell: Shell, graph: str) -> None:
    (row,) = table(shell("sweep", graph, "--set", "shape:x=64x1024").output)
    assert row["examples_per_second"] == "-"
    (row,) = table(shell("sweep", graph, "--set", "shape:x=64x1024", "--examples", "10").output)
    assert float(row["examples_per_second"]) == pytest.approx(10 / float(row["seconds"]), rel=1e-4)


def test_without_a_key_there_is_one_row(shell: Shell, graph: str) -> None:
    closed = shell.write("h.yaml", GRAPH.replace("null", "8"))
    (row,) = table(shell("sweep", closed).output)
    assert next(iter(row)) == "seconds"


def test_a_terminal_gets_a_table(shell: Shell, graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    arguments = ("sweep", graph, "--gpu", "1,2", "--batch", "64,128,3000000", "--jobs", "1")
    for width, titles in (
        (80, "gpu batch step time examples/s peak limit fits"),
        (110, "gpu batch step time examples/s peak limit fits bound"),
        (160, "gpu batch step time low high examples/s device peak limit fits transfers bytes bound share"),
    ):
        monkeypatch.setenv("COLUMNS", str(width))
        head, *lines = re.sub(r"\x1b\[[0-9;]*m", "", shell(*arguments).output).splitlines()
        assert " ".join(head.split()) == titles
        assert max(map(len, lines)) <= width
        table, notes = lines[:6], lines[6:]
        assert [row[:15].split() for row in table] == [
            ["1", "64"],
            ["1", "128"],
            ["1", "3000000"],
            ["2", "64"],
            ["*", "2", "128"],
            ["2", "3000000"],
        ]
        assert all("b was explicitly assigned to /device:GPU:1" in row for row in table[:3])
        assert "no: GPU:0 is full" in table[5]
        assert notes[0] == "* most examples per second of the combinations that fit"
        assert notes[1].startswith("3 of 6: InvalidArgumentError: Cannot assign a device for operation b")
    chosen = re.sub(r"\x1b\[[0-9;]*m", "", shell(*arguments, "--columns", "fits,seconds").output)
    assert chosen.splitlines()[0].split() == ["gpu", "batch", "fits", "step", "time"]


def test_columns_may_be_chosen(shell: Shell, graph: str) -> None:
    arguments = ("sweep", graph, "--batch", "64,128", "--jobs", "1")
    assert list(table(shell(*arguments, "--columns", "fits,seconds").output)[0]) == ["batch", "fits", "seconds"]
    lines = shell(*arguments, "--no-header", "--columns", "batch").complaint
    assert "got 'batch', expected seconds or" in lines
    assert shell(*arguments, "--no-header", "--columns", "fits").output == "64\ttrue\n128\ttrue\n"
    markdown = shell(*arguments, "--format", "markdown", "--columns", "fits").output
    assert markdown.splitlines()[0] == "| batch | fits |"
    ended = shell(*arguments, "--format", "csv", "--columns", "fits")
    assert ended.code == 2
    assert "got format csv" in ended.complaint


def test_a_stream_is_read_once(shell: Shell, graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BytesIO(GRAPH.encode())

    monkeypatch.setattr("sys.stdin", Input())
    assert len(table(shell("sweep", "-", "--batch", "8,16", "--jobs", "1").output)) == 2


# --- files ----------------------------------------------------------------------------------------------------------


class Counter:
    """Counts what is simulated in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[Any] = []
        simulate = simulate_row

        def counted(job: Any, values: Any) -> RowOutcome:
            self.seen.append(values)
            return simulate(job, values)

        monkeypatch.setattr(processes, "simulate_row", counted)


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Counter:
    return Counter(monkeypatch)


@pytest.mark.parametrize("ending", ENDINGS)
def test_finished_rows_are_kept(shell: Shell, graph: str, counter: Counter, ending: str) -> None:
    arguments = (
        "sweep",
        graph,
        "--jobs",
        "1",
        "--output",
        f"s.{ending}",
        "--batch",
        "64",
        "--set",
        "soft-placement=true,false",
    )
    first = shell(*arguments, "--gpu", "1..2")
    assert (first.code, first.output) == (1, "")
    written = Path(f"s.{ending}").read_bytes()
    assert len(counter.seen) == 4
    assert shell(*arguments, "--gpu", "1..2").code == 1
    assert len(counter.seen) == 4
    assert Path(f"s.{ending}").read_bytes() == written
    shell(*arguments, "--gpu", "2..3")
    assert counter.seen[4:] == [(3, 64, True), (3, 64, False)]
    shell(*arguments, "--gpu", "1..3")  # what was not asked for between stays
    assert len(counter.seen) == 6
    fresh = ("sweep", graph, "--jobs", "1", "--output", f"t.{ending}", "--batch", "64", "--set", "soft-placement=true,false")
    shell(*fresh, "--gpu", "1..3")
    assert Path(f"s.{ending}").read_bytes() == Path(f"t.{ending}").read_bytes()


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("change", ["graph", "options", "keys"])
def test_a_file_of_something_else_is_an_error(shell: Shell, graph: str, ending: str, change: str) -> None:
    arguments = ["sweep", graph, "--jobs", "1", "--output", f"s.{ending}", "--batch", "64"]
    shell(*arguments)
    written = Path(f"s.{ending}").read_bytes()
    what = {"graph": "another graph", "options": "other options", "keys": "other keys, batch"}[change]
    if change == "graph":
        shell.write("g.yaml", GRAPH.replace("0.1", "0.2"))
    else:
        arguments += ["--no-soft-placement"] if change == "options" else ["--gpu", "2"]
    ended = shell(*arguments)
    assert ended.code == 2
    assert ended.complaint == (
        f"UsageError: cannot resume s.{ending}: got a sweep of {what}, expected rows of this sweep\n"
        "  choose another `--output`, or remove the file\n"
    )
    assert Path(f"s.{ending}").read_bytes() == written


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    "content", [b"hello", b"{}", b"[1]", b'{"rows":3}', b"a,b\n1,2\n", b"\xff\xfe", b"<html></html>", b"[" * 100000]
)
def test_a_file_that_is_no_sweep_is_not_touched(shell: Shell, graph: str, ending: str, content: bytes) -> None:
    shell.write(f"s.{ending}", content)
    ended = shell("sweep", graph, "--output", f"s.{ending}", "--batch", "64")
    assert ended.code == 2
    assert f"cannot resume s.{ending}: got no sweep in format {ending}" in ended.complaint
    assert Path(f"s.{ending}").read_bytes() == content


def test_rows_of_another_release_are_simulated_again(shell: Shell, graph: str, counter: Counter) -> None:
    arguments = ("sweep", graph, "--jobs", "1", "--output", "s.json", "--batch", "64,128")
    shell(*arguments)
    document = json.loads(Path("s.json").read_text())
    Path("s.json").write_text(json.dumps(document | {"version": "0.0.1"}))
    shell(*arguments)
    assert len(counter.seen) == 4
    assert json.loads(Path("s.json").read_text()) == document


@pytest.mark.parametrize("ending", ENDINGS)
def test_two_sweeps_to_one_file_keep_the_rows_of_both(
    shell: Shell, graph: str, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """The other begins and ends between the first one's beginning and end, and again between two of its writings."""
    seen: list[Any] = []

    def simulated(job: Any, values: Any) -> RowOutcome:
        seen.append(values)
        if values == (8,):
            assert main(["sweep", graph, "--jobs", "1", "--output", f"s.{ending}", "--batch", "32,64"]) == 0
        if values == (16,):
            assert main(["sweep", graph, "--jobs", "1", "--output", f"s.{ending}", "--batch", "128"]) == 0
        return simulate_row(job, values)

    monkeypatch.setattr(processes, "simulate_row", simulated)
    monkeypatch.setattr("placesim.cli.commands.sweep.WRITING_SECONDS", 0.0)
    assert shell("sweep", graph, "--jobs", "1", "--output", f"s.{ending}", "--batch", "8,16").code == 0
    assert seen == [(8,), (32,), (64,), (16,), (128,)]
    found = read_sweep(Path(f"s.{ending}").read_bytes(), ending)
    assert found is not None
    assert sorted(row.settings for row in found.rows) == [(8,), (16,), (32,), (64,), (128,)]
    assert sorted(path.name for path in shell.directory.iterdir()) == ["g.yaml", f"s.{ending}"]


def test_another_sweep_in_the_file_is_not_overwritten(shell: Shell, graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both begin where there is no file."""

    def simulated(job: Any, values: Any) -> RowOutcome:
        if values == (8,):
            assert main(["sweep", graph, "--jobs", "1", "--output", "s.csv", "--gpu", "2", "--batch", "8"]) == 0
        return simulate_row(job, values)

    monkeypatch.setattr(processes, "simulate_row", simulated)
    ended = shell("sweep", graph, "--jobs", "1", "--output", "s.csv", "--batch", "8")
    assert ended.code == 2
    assert "cannot resume s.csv: got a sweep of other keys, gpu, batch" in ended.complaint
    assert "gpu,batch" in Path("s.csv").read_text()


FED = """
devices: {cpu: 1, gpu: {count: 2, model: Tesla K80}}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [null, 1024]}
  - {op: Const, name: w, value: 0.1, shape: [1024, 1024]}
  - {op: MatMul, name: a, inputs: [x, w]}
feed: {x: {file: n.npy}}
fetch: [a]
"""


@pytest.mark.parametrize("is_own", [True, False])
def test_no_file_is_looked_at_that_the_graph_may_not_read(is_own: bool, shell: Shell) -> None:
    from placesim.studies.sweeping.row_dependencies import identity_of
    from placesim.studies.sweeping.row_simulation import SweepJob

    (shell.directory / "theirs").mkdir()
    fed = shell.directory / "theirs/fed.npy" if is_own else shell.directory / "secret.npy"
    nodes = "{op: Placeholder, name: x, dtype: float32}"
    graph = shell.write("theirs/graph.yaml", f"nodes: [{nodes}]\nrun: [{{fetch: [x], feed: {{x: {{file: {fed}}}}}}}]\n")
    job = SweepJob(graph, "graph", (), {})
    found = set()
    for content in (b"1", b"2"):
        fed.write_bytes(content)
        found.add(identity_of(job, (), "1"))
    assert len(found) == 1 + is_own


@pytest.mark.parametrize(
    ("options", "theirs"),
    [
        (("--feed", "x=@n.npy"), "other options"),
        (("--feed", "x={file: n.npy}"), "other options"),
        (("--set", "feed:x=@n.npy"), "other options"),
        ((), "another graph"),
    ],
)
def test_rows_of_a_file_that_has_changed_are_not_taken(
    shell: Shell, graph: str, counter: Counter, options: tuple[str, ...], theirs: str
) -> None:
    name = graph if options else shell.write("fed.yaml", FED)
    arguments = ("sweep", name, "--jobs", "1", "--gpu", "2", *options, "--output", "s.json")
    np.save("n.npy", np.ones((8, 1024), np.float32))
    for _ in range(2):
        assert shell(*arguments).code == 0
    assert len(counter.seen) == 1
    written = Path("s.json").read_bytes()
    np.save("n.npy", np.ones((9, 1024), np.float32))
    ended = shell(*arguments)
    assert ended.code == 2
    assert f"cannot resume s.json: got a sweep of {theirs}" in ended.complaint
    assert Path("s.json").read_bytes() == written


@pytest.mark.parametrize(
    "options", [{"profile": ("f/a", "f/b")}, {"inventory": "f/b"}, {"checkpoint": "f"}, {"checkpoint": "f/x"}]
)
@pytest.mark.parametrize("is_axis", [False, True])
def test_files_of_options_are_known_by_their_contents(shell: Shell, graph: str, options: dict[str, Any], is_axis: bool) -> None:
    (shell.directory / "f").mkdir()
    for name in ("f/a", "f/b", "f/x.index", "f/x.data-00000-of-00001", "f/y"):
        shell.write(name, "1")
    if is_axis and "profile" in options:
        with pytest.raises(UsageError, match="unknown key of a sweep"):
            make_axes([("profile", "f/b")])
        return
    axes = make_axes(options.items()) if is_axis else ()
    job = SweepJob(graph, graph, (), {} if is_axis else options)
    before = identity_of(job, axes, "1")
    shell.write("f/x.data-00000-of-00001" if options == {"checkpoint": "f/x"} else "f/b", "2")
    assert identity_of(job, axes, "1").options != before.options
    assert identity_of(job, axes, "1").graph == before.graph


def test_tensors_beside_an_onnx_model_are_known(shell: Shell) -> None:
    onnx = pytest.importorskip("onnx", reason="of the extra `onnx`")
    weights = onnx.numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    onnx.external_data_helper.set_external_data(weights, "w.bin")
    weights.ClearField("raw_data")
    weights.data_location = onnx.TensorProto.EXTERNAL
    shell.write("w.bin", np.ones((4, 4), np.float32).tobytes())
    info = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 4]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], "g", info[:1], info[1:], [weights])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    job = SweepJob(shell.write("m.onnx", model.SerializeToString()), "m.onnx", (), {})
    before = identity_of(job, (), "1")
    assert identity_of(job, (), "1") == before
    shell.write("w.bin", np.zeros((4, 4), np.float32).tobytes())
    assert identity_of(job, (), "1").graph != before.graph


def test_modules_and_arguments_of_a_script_are_known(shell: Shell) -> None:
    script = shell.write("build.py", "import layers\n")
    shell.write("layers.py", "from parts import width\n")
    (shell.directory / "parts").mkdir()
    shell.write("parts/__init__.py", "")
    shell.write("parts/width.py", "WIDTH = 1\n")
    shell.write("data", "1")
    job = SweepJob(script, script, (), {"arguments": ("--data=data",)})
    seen = [identity_of(job, (), "1")]
    for changed in ("layers.py", "parts/__init__.py", "parts/width.py", "data", "build.py"):
        with open(changed, "a") as file:
            file.write("# changed\n")
        seen.append(identity_of(job, (), "1"))
    assert len(set(seen)) == len(seen)
    shell.write("parts/other.py", "WIDTH = 2\n")
    assert identity_of(job, (), "1") == seen[-1]


def test_csv_and_json_say_the_same(shell: Shell, graph: str) -> None:
    arguments = ("sweep", graph, "--jobs", "1", "--gpu", "1..2", "--batch", "64,3000000")
    listed = list(csv.DictReader(io.StringIO(shell(*arguments, "--format", "csv").output)))
    document = json.loads(shell(*arguments, "--format", "json").output)
    assert document["keys"] == ["gpu", "batch"]
    assert len(listed) == len(document["rows"]) == 4
    for line, row in zip(listed, document["rows"], strict=True):
        for name, value in row.items():
            written = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
            assert line[name] == written
        assert (line["graph_id"], line["options_id"], line["version"]) == tuple(
            document[name] for name in ("graph", "options", "version")
        )


def test_a_process_that_dies_is_a_row(shell: Shell, graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nowhere")  # no Python starts
    ended = shell("sweep", graph, "--jobs", "2", "--batch", "64,128")
    assert ended.code == 1
    assert all("UnavailableError: its process ended with" in row["error"] for row in table(ended.output))


def test_a_process_that_cannot_be_started_is_a_row(shell: Shell, graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    ended = shell("sweep", graph, "--jobs", "2", "--batch", "64,128,256")
    assert ended.code == 1
    errors = [row["error"] for row in table(ended.output)]
    assert len(errors) == 3
    assert all("UnavailableError: its process could not be started: " in error for error in errors)


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(GRAPH)
    output = tmp_path / "s.csv"
    with start_warm("sweep", str(tmp_path / "g.yaml"), "--batch", "1..2000", "--jobs", "2", "--output", str(output)) as process:
        assert until(output.exists)
        ended = interrupt(process)
    assert ended.code == 130
    assert re.match(r"interrupted: simulated \d+ of \d+ combinations", ended.complaint)
    kept = list(csv.DictReader(io.StringIO(output.read_text())))
    assert 0 < len(kept) < 2000
    assert all(row["fits"] == "true" for row in kept)
    assert [name for name in os.listdir(tmp_path) if name.startswith(".placesim")] == []


@pytest.mark.slow
def test_ctrl_c_prints_the_rows_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # as on a busy machine: what is left to do after an interrupt takes longer than the time in which others must end
    monkeypatch.setattr(interrupts, "GRACE_SECONDS", 0.001)
    monkeypatch.setattr(TerminalProgress, "clear", lambda self: time.sleep(0.2))
    (tmp_path / "g.yaml").write_text(GRAPH)
    with start_warm("sweep", str(tmp_path / "g.yaml"), "--batch", "1..5000", "--jobs", "1") as process:
        printed = read_until(process, b"\n").decode()
        ended = interrupt(process)
    assert ended.code == 130
    assert re.match(r"interrupted: simulated \d+ of \d+ combinations", ended.complaint)
    assert 0 < len(table(printed + ended.output)) < 5000
