"""`run --checkpoint-every` and `--restart`: what is written, what goes on from it, and what is said where nothing can."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import placesim
from placesim.core.checkpoints.checkpoint import Checkpoint
from placesim.core.checkpoints.checkpoint_state import latest_checkpoint, listed_checkpoints
from tests.cli.shell import Shell
from tests.cli.warm import start_warm
from tests.runtime.saving.graphs import write_training

W = "  - {variable: w, shape: [2], initializer: zeros}\n"
ENDS = "  - {initializer: init}\nrun: [{fetch: [init], repeat: 3}]\n"


def prefix_of(shell: Shell) -> str:
    return str(shell.directory / "out" / "model")


def saved(shell: Shell, graph: str, *options: str) -> str:
    """What a run prints that writes checkpoints."""
    ended = shell("run", graph, "--checkpoint", prefix_of(shell), *options)
    assert (ended.code, ended.complaint) == (0, "")
    return ended.output


def by_step(output: str) -> dict[int, str]:
    """The lines of a report in JSON's lines that tell what a step gave, by its number."""
    found = [(json.loads(line), line) for line in output.splitlines()]
    return {row["step"]: line for row, line in found if row["kind"] == "step"}


def cut(shell: Shell, steps: int) -> None:
    """The folder as it is where a run was killed some steps after the checkpoint of so many."""
    (shell.directory / "out" / "checkpoint").write_text(f'model_checkpoint_path: "model-{steps}"\n')


def test_a_restart_prints_the_rest(shell: Shell) -> None:
    graph = write_training(shell.directory)
    whole = shell("run", graph).output
    assert saved(shell, graph, "--checkpoint-every", "2") == whole
    names = listed_checkpoints(shell.directory / "out")
    assert names == ("model-2", "model-4", "model-6", "model-7")  # the last one too, whatever its number
    for done in (2, 4, 6):
        cut(shell, done)
        ended = shell("run", graph, "--checkpoint", prefix_of(shell), "--restart")
        assert (ended.code, ended.complaint) == (0, f"resuming at step {done}, from {prefix_of(shell)}-{done}\n")
        assert ended.output
        assert whole.endswith(ended.output)
        assert ended.output.count("train:") == 7 - done


def test_json_has_the_numbers_of_an_undisturbed_run(shell: Shell) -> None:
    graph = write_training(shell.directory)
    whole = by_step(saved(shell, graph, "--checkpoint-every", "4", "--format", "jsonl"))
    cut(shell, 4)
    rest = shell("run", graph, "--checkpoint", prefix_of(shell), "--restart", "--format", "jsonl", "-q")
    assert rest.complaint == ""
    assert by_step(rest.output) == {step: line for step, line in whole.items() if step >= 4}


def test_a_run_may_be_made_longer(shell: Shell) -> None:
    saved(shell, write_training(shell.directory, 3), "--checkpoint-every", "9")
    longer = write_training(shell.directory, 6)
    ended = shell("run", longer, "--checkpoint", prefix_of(shell), "--checkpoint-every", "9", "--restart")
    assert ended.output.count("train:") == 3
    assert shell("run", longer).output.endswith(ended.output)
    ended = shell("run", longer, "--checkpoint", prefix_of(shell), "--restart")
    assert (ended.code, ended.output) == (0, "")
    assert ended.complaint == f"nothing left to run: all steps are done in {prefix_of(shell)}-7\n"


def test_old_ones_go(shell: Shell) -> None:
    graph = write_training(shell.directory, 9)
    saved(shell, graph, "--checkpoint-every", "1")
    out = shell.directory / "out"
    assert listed_checkpoints(out) == tuple(f"model-{i}" for i in (6, 7, 8, 9, 10))
    assert len(list(out.iterdir())) == 11
    saved(shell, graph, "--checkpoint-every", "1", "--checkpoint-keep", "0")
    assert len(listed_checkpoints(out)) == 10
    cut(shell, 9)
    shell("run", graph, "--checkpoint", prefix_of(shell), "--checkpoint-every", "1", "--checkpoint-keep", "1", "--restart")
    assert listed_checkpoints(out) == ("model-10",)
    assert not (out / "model-9.index").exists()


def test_a_folder_of_two_runs(shell: Shell) -> None:
    graph = write_training(shell.directory, 3)
    saved(shell, graph, "--checkpoint-every", "2")
    other = str(shell.directory / "out" / "model-b")
    assert shell("run", graph, "--checkpoint", other, "--checkpoint-every", "4").code == 0
    assert shell("run", graph, "--checkpoint", prefix_of(shell), "--restart").complaint.endswith("model-4\n")
    ended = shell("run", graph, "--checkpoint", str(shell.directory / "out" / "mod"), "--restart")
    assert ended.complaint.startswith("no checkpoint ")
    assert ended.output == shell("run", graph).output


def test_variables_are_as_tensorflow_has_them(shell: Shell) -> None:
    """`tf.train.load_checkpoint` and a `Saver` of TensorFlow 2.21 read these files; here our reader of its format does."""
    graph = write_training(shell.directory, 1)
    saved(shell, graph, "--checkpoint-every", "1")
    found = Checkpoint(latest_checkpoint(shell.directory / "out"))
    assert found.names == ("_PLACESIM_SESSION", "w")
    trained = [row.value for row in placesim.run(graph).results if row.name == "train"]
    assert np.array_equal(trained[-1], found.read("w"))


def test_first_values_come_from_a_checkpoint_that_is_there(shell: Shell) -> None:
    """The same option says what to begin with, where it names a checkpoint, and what to write."""
    nodes = "nodes:\n" + W + "  - {op: AssignAdd, name: more, inputs: [w, [1.0, 2.0]]}\n"
    saved(shell, shell.write("g.yaml", nodes + "  - {initializer: init}\nrun: [{fetch: [init]}]\n"), "--checkpoint-every", "1")
    graph = shell.write("g.yaml", nodes + "run: [{fetch: [more], repeat: 2}]\n")
    assert shell("run", graph).code == 1  # nothing has initialized it
    begin = f"{prefix_of(shell)}-1"
    ended = shell("run", graph, "--checkpoint", begin, "--checkpoint-every", "1")
    assert ended.output == "[1. 2.]\n[2. 4.]\n"
    (shell.directory / "out" / "checkpoint").write_text('model_checkpoint_path: "model-1-1"\n')
    assert shell("run", graph, "--checkpoint", begin, "--restart").output == "[2. 4.]\n"


def test_the_python_api(tmp_path: Path) -> None:
    graph, prefix = write_training(tmp_path, 3), str(tmp_path / "model")
    whole = placesim.run(graph, checkpoint=prefix, checkpoint_every=2).results
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model-2"\n')
    rest = placesim.run(graph, checkpoint=prefix, restart=True).results
    assert [(row.step, row.name, row.value.tolist()) for row in rest] == [
        (row.step, row.name, row.value.tolist()) for row in whole if row.step >= 2
    ]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            ["--restart"],
            "--restart needs a prefix for checkpoints: got none, expected --checkpoint (in Python: `checkpoint`) with a",
        ),
        (
            ["--checkpoint-every", "2"],
            "--checkpoint-every needs a prefix for checkpoints: got none, expected --checkpoint (in Python: `checkpoint`)",
        ),
        (["--checkpoint-every", "0", "--checkpoint", "x"], "checkpoint_every out of range: got 0"),
        (["--checkpoint-every", "1", "--checkpoint", "."], "checkpoint prefix is a directory: got ., expected"),
        (["--checkpoint-every", "1", "--checkpoint", "x", "--checkpoint-keep", "-1"], "checkpoint_keep out of range: got -1"),
        (["--checkpoint", "x", "--checkpoint-keep", "3"], "checkpoints are kept but not written"),
        (["--restart", "--checkpoint", "x", "--no-execute"], "nothing to save: got --no-execute"),
        (["--checkpoint-every", "1", "--checkpoint", "train.yaml/x"], "cannot write checkpoint train.yaml/x: got '"),
    ],
)
def test_options_that_mean_nothing(options: list[str], complaint: str, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shell.directory)
    ended = shell("run", write_training(shell.directory), *options)
    assert (ended.code, ended.output) == (2, "")
    assert complaint in ended.complaint


def test_a_file_of_settings_does_not_say_where_to_write(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shell.directory)
    shell.write("placesim.toml", "[run]\ncheckpoint-every = 1\n")
    ended = shell("run", write_training(shell.directory))
    assert ended.code == 0
    assert ended.complaint.startswith(
        "Warning: placesim.toml:2: ignored checkpoint-every: a file found in a folder may not set it"
    )
    assert sorted(path.name for path in shell.directory.iterdir()) == ["placesim.toml", "train.yaml"]


@pytest.mark.parametrize(
    ("nodes", "complaint", "place"),
    [
        (W + "  - {variable: b, shape: [], initializer: zeros}\n", "NotFoundError: Key b not found in checkpoint", "g.yaml:3"),
        (
            "  - {variable: w, shape: [3], initializer: zeros}\n",
            "variable w has shape [3] in the graph, [2] in checkpoint",
            "g.yaml:2",
        ),
        (
            "  - {variable: w, shape: [2], dtype: double, initializer: zeros}\n",
            "variable w has dtype double in the graph, float in checkpoint",
            "g.yaml:2",
        ),
        ("  - {variable: v, shape: [2], initializer: zeros}\n", "NotFoundError: Key v not found in checkpoint", "g.yaml:2"),
        ("  - {op: NoOp, name: none}\n", "has variable w, which this one lacks", "model-3.index"),
    ],
)
def test_another_graph(nodes: str, complaint: str, place: str, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shell.directory)
    saved(shell, shell.write("g.yaml", "nodes:\n" + W + ENDS), "--checkpoint-every", "5")
    ended = shell("run", shell.write("g.yaml", "nodes:\n" + nodes + ENDS), "--checkpoint", prefix_of(shell), "--restart")
    assert (ended.code, ended.output) == (1, "")
    assert complaint in ended.complaint
    assert place in ended.complaint
    assert f"`--checkpoint {prefix_of(shell)}-3` without --restart" in ended.complaint


def test_a_checkpoint_of_somebody_else(shell: Shell) -> None:
    graph = write_training(shell.directory)
    from placesim.core.checkpoints.writer import write_bundle

    write_bundle(f"{prefix_of(shell)}-2", ())
    cut(shell, 2)
    ended = shell("run", graph, "--checkpoint", prefix_of(shell), "--restart")
    assert ended.code == 1
    assert "Key _PLACESIM_SESSION not found in checkpoint: the checkpoint was not written by placesim" in ended.complaint


def test_damage_is_told(shell: Shell) -> None:
    graph = write_training(shell.directory)
    saved(shell, graph, "--checkpoint-every", "9")
    data = shell.directory / "out" / "model-7.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[3] ^= 1
    data.write_bytes(content)
    ended = shell("run", graph, "--checkpoint", prefix_of(shell), "--restart")
    assert ended.code == 1
    assert "DataLossError: TensorBundle at" in ended.complaint
    assert "model-7.index" in ended.complaint
    data.unlink()  # what is not whole is no checkpoint
    assert shell("run", graph, "--checkpoint", prefix_of(shell), "--restart").complaint.startswith("no checkpoint ")


def test_half_a_checkpoint_is_none(shell: Shell) -> None:
    """What a run leaves that is killed between its files: the state file names the one before."""
    graph = write_training(shell.directory)
    saved(shell, graph, "--checkpoint-every", "3")
    out = shell.directory / "out"
    cut(shell, 3)
    (out / "model-7.index").unlink()  # killed when only the tensors had their name
    (out / ".placesim-0123456789abcdef").write_bytes(b"half")  # and while it wrote
    assert shell("run", graph, "--checkpoint", prefix_of(shell), "--restart").complaint.endswith("model-3\n")


def test_what_checkpoints_lack_is_said_once(shell: Shell) -> None:
    nodes = "  - {op: WholeFileReaderV2, name: reader}\n  - {op: ReaderNumRecordsProducedV2, name: count, inputs: [reader]}\n"
    graph = shell.write("g.yaml", "nodes:\n" + nodes + "run: [{fetch: [count], repeat: 3}]\n")
    ended = shell("run", graph, "--checkpoint", prefix_of(shell), "--checkpoint-every", "1")
    assert ended.code == 0
    assert ended.complaint.count("checkpoints omit") == 1
    assert "Reader '" in ended.complaint


@pytest.mark.slow
@pytest.mark.posix("SIGKILL")
def test_a_client_that_is_killed(shell: Shell) -> None:
    """SIGKILL at any moment: what is whole is at most one step old, and the rest comes out as it would have."""
    graph = write_training(shell.directory, 400)
    whole = by_step(shell("run", graph, "--format", "jsonl").output)
    with start_warm("run", graph, "--format", "jsonl", "--checkpoint", prefix_of(shell), "--checkpoint-every", "1") as client:
        assert client.stdout is not None
        lines = [client.stdout.readline() for _ in range(30)]
        time.sleep(0.05)
        client.send_signal(signal.SIGKILL)
        lines += client.stdout.readlines()
    done = max(by_step(b"".join(lines).decode())) + 1
    assert done < 401
    ended = shell("run", graph, "--format", "jsonl", "--checkpoint", prefix_of(shell), "--restart")
    first = int(ended.complaint.split()[3].rstrip(","))
    assert first >= done - 1
    assert by_step(ended.output) == {step: line for step, line in whole.items() if step >= first}
