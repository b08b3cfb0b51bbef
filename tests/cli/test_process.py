"""The command line as a process: pipes, signals, terminals, and how fast it starts."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.shell import ROOT, start

ENDLESS = """nodes:
  - {op: Fill, name: x, inputs: [[2000, 2000], 0.5]}
  - {op: MatMul, name: product, inputs: [x, x]}
run: [{fetch: [product], repeat: 100000}]
"""
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def test_a_closed_pipe_is_quiet() -> None:
    process = start("place", "graphs/alexnet.yaml", "graphs/cifar10-towers.yaml", stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 0
    process.stderr.close()


def test_only_the_first_line_is_wanted() -> None:
    command = f"{sys.executable} -m placesim place graphs/alexnet.yaml | head -1"
    ended = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "Device mapping:\n", "")


def ended_in_bash(command: str, **environment: str) -> tuple[int, str, str]:
    """Exit code, output and complaint of `placesim COMMAND` with what follows it."""
    script = f"set -o pipefail; {sys.executable} -m placesim {command}"
    ended = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, check=False, env=os.environ | environment)
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


@pytest.mark.parametrize(
    ("command", "code", "complaint"),
    [
        (
            "run graphs/logging.yaml > /dev/full",
            2,
            "UsageError: cannot write to standard output: got 'No space left on device'",
        ),
        ("--help >/dev/full", 2, "UsageError: cannot write to standard output: got 'No space left on device'"),
        ("devices >&-", 2, "UsageError: cannot write to standard output: got 'Bad file descriptor'"),
        ("run - <&-", 2, "GraphFileError: <stdin>: cannot read it: got 'Bad file descriptor'"),
        ("explain - <&-", 2, "GraphFileError: <stdin>: cannot read it: got 'Bad file descriptor'"),
        ("devices <&- >/dev/null", 0, ""),
        ("run nosuch.yaml 2>&-", 2, ""),
        ("devices >/dev/null 2>&-", 0, ""),
        ("devices <&- >&- 2>&-", 2, ""),
        ("check graphs/towers.yaml --gpu 1 --soft-placement --rule no-soft-fallback | true", 1, ""),
        ("diff graphs/towers.yaml --soft-placement --a-gpu 4 --b-gpu 1 | true", 1, ""),
    ],
)
def test_streams_that_fail(command: str, code: int, complaint: str) -> None:
    ended = ended_in_bash(command)
    assert ended[0] == code
    assert ended[2].startswith(complaint)
    assert ended[2].count("\n") == bool(complaint)


def test_a_script_whose_prints_nobody_reads_any_more(tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    script.write_text("for i in range(100000):\n    print(i)\n")
    assert ended_in_bash(f"run {script} | head -1")[1:] == ("0\n", "")
    script.write_text("import errno\nraise BrokenPipeError(errno.EPIPE, 'mine')\n")
    assert ended_in_bash(f"run {script} | cat")[2].startswith("BrokenPipeError: [Errno 32] mine\n")


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=["ascii", "locale C"],
)
def test_an_encoding_that_lacks_characters(environment: dict[str, str], tmp_path: Path) -> None:
    graph = tmp_path / "é\N{GRINNING FACE}.json"
    graph.write_text('{"nodes": [{"op": "Const", "name": "a", "value": "é\N{GRINNING FACE}"}]}', encoding="utf-8")
    for options in ("run '{}'", "run '{}' --format json", "place '{}' '{}' --format json", "place '{0}' '{0}nosuch'"):
        code, output, complaint = ended_in_bash(options.replace("{}", str(graph)).replace("{0}", str(graph)), **environment)
        assert code == (2 if "nosuch" in options else 0)
        assert output.isascii()
        assert complaint.isascii()
        assert "defect" not in complaint
        if "json" in options:
            documents = list(map(json.loads, output.splitlines()))
            assert [row["value"] for row in documents[0]["results"]] in ([], ["é\N{GRINNING FACE}"])
    shown = ended_in_bash("show graphs/towers.yaml --gpu 4", FORCE_COLOR="1", **environment)[1]
    assert shown.isascii()
    assert "\\u" not in shown


def test_interrupting_ends_with_130() -> None:
    process = start("run", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(ENDLESS.encode())
    process.stdin.close()
    time.sleep(2.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    if process.stdout is not None:
        process.stdout.close()


def test_a_timeout_ends_a_step() -> None:
    process = start("run", "-", "--timeout", "0.000001", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    _, complaint = process.communicate(ENDLESS.encode(), 60)
    assert process.returncode == 1
    assert complaint.startswith(b"DeadlineExceededError: ")


LOOP = """nodes:
  - {op: Const, name: a, value: true}
  - {op: While, name: w, inputs: [a], attrs: {T: [bool], cond: {func: F}, body: {func: F}, output_shapes: []}}
functions:
  - name: F
    inputs: [{name: a, type: bool}]
    outputs: [{name: o, type: bool, value: 'x:output:0'}]
    nodes: [{op: Identity, name: x, inputs: [a], attrs: {T: bool}}]
"""


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("graph", [ENDLESS, LOOP], ids=["product", "loop"])
def test_a_timeout_ends_what_is_in_the_middle(graph: str, threads: str) -> None:
    process = start("run", "-", "--timeout", "1", "--inter-op-threads", threads, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    _, complaint = process.communicate(graph.replace("2000, 2000", "20000, 20000").encode(), 60)
    assert (process.returncode, complaint) == (
        1,
        b"DeadlineExceededError: Timed out waiting for notification\n  step 0 was running\n",
    )


WAITING = """nodes:
  - {op: FIFOQueueV2, name: q, attrs: {component_types: [float32]}}
  - {op: QueueDequeueV2, name: d, inputs: [q], attrs: {component_types: [float32]}}
fetch: [d]
"""


def test_an_empty_queue_that_nothing_can_fill_is_an_error() -> None:
    process = start("run", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    _, complaint = process.communicate(WAITING.encode(), 60)
    assert process.returncode == 1
    assert complaint.startswith(b"InternalError: node d (defined at <stdin>:3) would wait forever")


def test_a_timeout_says_what_was_waiting() -> None:
    process = start("run", "-", "--timeout", "0.5", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    _, complaint = process.communicate(WAITING.encode(), 60)
    assert complaint.decode().splitlines() == [
        "DeadlineExceededError: Timed out waiting for notification",
        "  d was waiting, and nothing else of the step could run",
        "  step 0 was running",
    ]


CALLED = "".join(
    f"""  - name: F{number}
    inputs: [{{name: a, type: float}}]
    outputs: [{{name: o, type: float, value: 'y:output:0'}}]
    nodes:
      - &call {{op: PartitionedCall, name: x, inputs: [a], attrs: {{f: {{func: F{number - 1}}}, Tin: [float], Tout: [float]}}}}
      - {{<<: *call, name: y, inputs: ['x:output:0']}}
"""
    for number in range(1, 23)
)


def test_a_timeout_ends_calls_in_calls() -> None:
    text = f"""nodes:
  - {{op: Const, name: a, value: 1.0}}
  - {{op: PartitionedCall, name: c, inputs: [a], attrs: {{f: {{func: F22}}, Tin: [float], Tout: [float]}}}}
functions:
  - name: F0
    inputs: [{{name: a, type: float}}]
    outputs: [{{name: o, type: float, value: 'y:y:0'}}]
    nodes: [{{op: Neg, name: y, inputs: [a], attrs: {{T: float}}}}]
{CALLED}"""
    process = start("run", "-", "--timeout", "2", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    _, complaint = process.communicate(text.encode(), 60)
    assert (process.returncode, complaint) == (
        1,
        b"DeadlineExceededError: Timed out waiting for notification\n  step 0 was running\n",
    )


@pytest.mark.parametrize("moment", [0.0, 0.02, 0.1, 0.5, 2.0])
def test_interrupting_says_nothing_even_during_imports(moment: float) -> None:
    process = start("run", "-", "--inter-op-threads", "2", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin is not None
    process.stdin.write(ENDLESS.replace("2000, 2000", "20000, 20000").encode())
    process.stdin.close()
    process.stdin = None
    maps = Path(f"/proc/{process.pid}/maps")
    while "numpy" not in maps.read_text():  # its first library: the imports have begun
        time.sleep(0.002)
    time.sleep(moment)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert (process.returncode, complaint) == (130, b"")


def test_interrupts_are_taken_before_anything_that_takes_its_time() -> None:
    command = [sys.executable, "-S", "-X", "importtime", "-m", "placesim", "--version"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    imported = [line.rpartition("|")[2].strip() for line in ended.stderr.splitlines() if line.startswith("import time:")]
    assert not {"typing", "enum", "signal", "re"} & set(imported[: imported.index("placesim.interrupts")])
    assert "typing" in imported


def on_a_terminal(*arguments: str, interrupt_at: str | None = None, **environment: str) -> str:
    """What a command writes to a terminal, results and errors alike; with a text at which it is interrupted."""
    master, slave = pty.openpty()
    variables = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    process = subprocess.Popen(
        [sys.executable, "-m", "placesim", *arguments],
        cwd=ROOT,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=variables | {"TERM": "xterm-256color"} | environment,
    )
    os.close(slave)
    pieces = []
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        pieces.append(piece)
        if interrupt_at is not None and interrupt_at.encode() in b"".join(pieces):
            process.send_signal(signal.SIGINT)
            interrupt_at = None
    os.close(master)
    process.wait(60)
    return b"".join(pieces).decode().replace("\r\n", "\n")


def test_colour_on_a_terminal() -> None:
    golden = (ROOT / "tests/golden/towers.run.modern.txt").read_text()
    shown = on_a_terminal("run", "graphs/towers.yaml", COLUMNS="60")
    assert ESCAPE.search(shown)
    assert ESCAPE.sub("", shown) == golden


def test_a_bar_shows_long_work(tmp_path: Path) -> None:
    (tmp_path / "endless.yaml").write_text(ENDLESS)
    shown = on_a_terminal("run", str(tmp_path / "endless.yaml"), interrupt_at="nodes")
    assert "steps" in shown
    assert "nodes" in shown
    assert "Traceback" not in shown


def test_a_pipe_gets_no_bar() -> None:
    command = [sys.executable, "-m", "placesim", "run", "graphs/cifar10-towers.yaml", "--no-log-placement"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    assert len(ended.stdout.splitlines()) == 4


def test_no_color_is_obeyed() -> None:
    shown = on_a_terminal("run", "graphs/towers.yaml", NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", shown)


def test_force_color_is_obeyed_in_a_pipe() -> None:
    command = [sys.executable, "-m", "placesim", "run", "graphs/logging.yaml"]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, env=os.environ | {"FORCE_COLOR": "1", "TERM": "xterm"}
    )
    assert ESCAPE.search(ended.stdout)


def test_devices_are_a_table_on_a_terminal() -> None:
    shown = ESCAPE.sub("", on_a_terminal("devices", "--gpu", "1", COLUMNS="200")).splitlines()
    assert shown[0].split() == ["name", "type", "memory", "limit", "physical", "description"]
    assert shown[1].startswith("/job:localhost/replica:0/task:0/device:CPU:0 ")
    assert "\t" not in "".join(shown)


def test_an_error_on_a_terminal() -> None:
    shown = on_a_terminal("run", "graphs/missing-gpu.yaml")
    assert "\x1b[1;31mInvalidArgumentError:" in shown


@pytest.mark.parametrize("module", ["numpy", "yaml", "rich", "scipy", "json"])
def test_devices_starts_without(module: str) -> None:
    code = f"import sys; from placesim.cli import main; main(['devices', '--gpu', '2']); print({module!r} in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "False"


def test_run_in_a_pipe_starts_without_what_it_does_not_need() -> None:
    code = (
        "import sys; from placesim.cli import main; main(['run', 'graphs/logging.yaml'])\n"
        "print(sorted({'rich', 'scipy', 'ml_dtypes', 'google.protobuf'} & set(sys.modules)))\n"
        "print(sum(name.startswith('placesim.runtime.kernels.') for name in sys.modules) < 20)"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-2:] == ["[]", "True"]
