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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote

import pytest

from tests.cli.shell import ROOT, start
from tests.cli.warm import run_warm, start_warm
from tests.processes import CommandResult, interrupt, run_process, run_shell, until

pytestmark = pytest.mark.slow(2)
ENDLESS = """nodes:
  - {op: Fill, name: x, inputs: [[2000, 2000], 0.5]}
  - {op: MatMul, name: product, inputs: [x, x]}
run: [{fetch: [product], repeat: 100000}]
"""
LONG_PRODUCT = ENDLESS.replace("2000, 2000", "9000, 9000")
"""1.5 Tflop: a step that takes longer than these tests let it, on one processor."""
ALONE = ("--intra-op-threads", "1")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
TERMINAL = {"TERM": "xterm-256color"}


@contextmanager
def start_with(graph: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Steps of a graph that comes from a pipe."""
    with start("run", "-", *options, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        with process.stdin as pipe:
            pipe.write(graph.encode())
        process.stdin = None
        yield process


@pytest.mark.parametrize(
    ("command", "code", "complaint"),
    [
        ("place graphs/alexnet.yaml graphs/cifar10-towers.yaml", 0, ""),
        ("check graphs/towers.yaml --gpu 1 --soft-placement --rule no-soft-fallback", 1, "6 findings in 1 graph\n"),
        ("diff graphs/towers.yaml --soft-placement --a-gpu 4 --b-gpu 1", 1, ""),
    ],
)
def test_a_closed_pipe_is_quiet(command: str, code: int, complaint: str) -> None:
    with start_warm(*command.split()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read().decode() == complaint
        assert process.wait(60) == code


@pytest.mark.parametrize(
    ("command", "code", "complaint"),
    [
        ("devices >&-", 2, "UsageError: cannot write to standard output: got 'Bad file descriptor'"),
        ("run - <&-", 2, "GraphFileError: <stdin>: cannot read it: got 'Bad file descriptor'"),
        ("explain - <&-", 2, "GraphFileError: <stdin>: cannot read it: got 'Bad file descriptor'"),
        ("devices <&- >/dev/null", 0, ""),
        ("devices --gpu nosuch 2>&-", 2, ""),
        ("devices >/dev/null 2>&-", 0, ""),
        ("devices <&- >&- 2>&-", 2, ""),
    ],
)
def test_streams_that_are_closed(command: str, code: int, complaint: str) -> None:
    ended = run_shell(f"set -o pipefail; placesim {command}")
    assert ended[0] == code
    assert ended[2].startswith(complaint)
    assert ended[2].count("\n") == bool(complaint)


@pytest.mark.parametrize("command", ["run graphs/logging.yaml", "--help"])
@pytest.mark.linux("/dev/full")
def test_a_full_disk_is_told(command: str) -> None:
    with open("/dev/full", "wb") as full, start_warm(*command.split(), stdout=full) as process:
        _, complaint = process.communicate(timeout=60)
    assert process.returncode == 2
    assert (
        complaint
        == b"UsageError: cannot write to standard output: got 'No space left on device', expected a writable file or pipe\n"
    )


def test_a_script_whose_prints_nobody_reads_any_more(tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    script.write_text("for i in range(100000):\n    print(i)\n")
    assert run_shell(f"set -o pipefail; placesim run {quote(str(script))} | head -1") == (0, "0\n", "")
    script.write_text("import errno\nraise BrokenPipeError(errno.EPIPE, 'mine')\n")
    assert run_warm(tmp_path, "run", "s.py").complaint.startswith("BrokenPipeError: [Errno 32] mine\n")


ONE_AFTER_ANOTHER = """
import sys
from placesim.cli import main
words = []
for word in sys.argv[1:]:
    if word == ";":
        print("ended with", main(words))
        words = []
    else:
        words.append(word)
"""
"""Runs commands, each of which ends with a `;`."""


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=["ascii", "locale C"],
)
def test_an_encoding_that_lacks_characters(environment: dict[str, str], tmp_path: Path) -> None:
    graph = tmp_path / "é\N{GRINNING FACE}.json"
    graph.write_text('{"nodes": [{"op": "Const", "name": "a", "value": "é\N{GRINNING FACE}"}]}', encoding="utf-8")
    name = str(graph)
    commands = (
        ["run", name],
        ["run", name, "--format", "json"],
        ["place", name, name, "--format", "json"],
        ["place", name, f"{name}nosuch"],
        ["show", "graphs/towers.yaml", "--gpu", "4", "--color", "always"],
    )
    words = [word for command in commands for word in (*command, ";")]
    ended = run_process((sys.executable, "-c", ONE_AFTER_ANOTHER, *words), environment=environment, check=True)
    assert ended.output.isascii()
    assert ended.complaint.isascii()
    assert "defect" not in ended.complaint
    outputs = re.split(r"ended with (\d+)\n", ended.output)
    assert outputs[1::2] == ["0", "0", "0", "2", "0"]
    outputs = outputs[:-1:2]
    for output in outputs[1:3]:
        documents = list(map(json.loads, output.splitlines()))
        assert [row["value"] for row in documents[0]["results"]] in ([], ["é\N{GRINNING FACE}"])
    assert "\\u" not in outputs[-1]


def run_file(folder: Path, graph: str, *options: str) -> CommandResult:
    """Steps of a graph in a file, where how the process starts makes no difference."""
    (folder / "graph.yaml").write_text(graph)
    return run_warm(folder, "run", "graph.yaml", *options)


def test_a_timeout_ends_a_step(tmp_path: Path) -> None:
    ended = run_file(tmp_path, ENDLESS, "--timeout", "0.000001")
    assert ended.code == 1
    assert ended.complaint.startswith("DeadlineExceededError: ")


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
@pytest.mark.parametrize("graph", [LONG_PRODUCT, LOOP], ids=["product", "loop"])
def test_a_timeout_ends_what_is_in_the_middle(graph: str, threads: str, tmp_path: Path) -> None:
    ended = run_file(tmp_path, graph, "--timeout", "0.5", "--inter-op-threads", threads, *ALONE)
    assert ended == (1, "", "DeadlineExceededError: Timed out waiting for notification\n  step 0 was running\n")


WAITING = """nodes:
  - {op: FIFOQueueV2, name: q, attrs: {component_types: [float32]}}
  - {op: QueueDequeueV2, name: d, inputs: [q], attrs: {component_types: [float32]}}
fetch: [d]
"""


def test_an_empty_queue_that_nothing_can_fill_is_an_error(tmp_path: Path) -> None:
    ended = run_file(tmp_path, WAITING)
    assert ended.code == 1
    assert ended.complaint.startswith("InternalError: node d (defined at graph.yaml:3) would wait forever")


def test_a_timeout_says_what_was_waiting(tmp_path: Path) -> None:
    assert run_file(tmp_path, WAITING, "--timeout", "0.5").complaint.splitlines() == [
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


def test_a_timeout_ends_calls_in_calls(tmp_path: Path) -> None:
    text = f"""nodes:
  - {{op: Const, name: a, value: 1.0}}
  - {{op: PartitionedCall, name: c, inputs: [a], attrs: {{f: {{func: F22}}, Tin: [float], Tout: [float]}}}}
functions:
  - name: F0
    inputs: [{{name: a, type: float}}]
    outputs: [{{name: o, type: float, value: 'y:y:0'}}]
    nodes: [{{op: Neg, name: y, inputs: [a], attrs: {{T: float}}}}]
{CALLED}"""
    ended = run_file(tmp_path, text, "--timeout", "0.5")
    assert ended == (1, "", "DeadlineExceededError: Timed out waiting for notification\n  step 0 was running\n")


@pytest.mark.parametrize("moment", [0.0, 0.02, 0.1, 0.5])
@pytest.mark.linux("memory in /proc")
def test_interrupting_says_nothing_even_during_imports(moment: float) -> None:
    with start_with(LONG_PRODUCT, "--inter-op-threads", "2", *ALONE) as process:
        maps = Path(f"/proc/{process.pid}/maps")
        assert until(lambda: "numpy" in maps.read_text())  # its first library: the imports have begun
        time.sleep(moment)
        assert interrupt(process) == (130, "", "")


def test_interrupts_are_taken_before_anything_that_takes_its_time() -> None:
    command = [sys.executable, "-S", "-X", "importtime", "-m", "placesim", "--version"]
    ended = run_process(command)
    imported = [line.rpartition("|")[2].strip() for line in ended.complaint.splitlines() if line.startswith("import time:")]
    assert not {"typing", "enum", "signal", "re"} & set(imported[: imported.index("placesim.core.process.interrupts")])
    assert "typing" in imported


def on_a_terminal(*arguments: str, interrupt_at: str | None = None, **environment: str) -> str:
    """What a command writes to a terminal, results and errors alike; with a text at which it is interrupted."""
    master, slave = pty.openpty()
    shown = b""
    streams = {"stdin": slave, "stdout": slave, "stderr": slave}
    variables = os.environ | TERMINAL | environment
    with os.fdopen(master, "rb", 0) as screen, start_warm(*arguments, **streams, env=variables) as process:
        os.close(slave)
        with suppress(OSError):  # the other end is closed
            while piece := screen.read(65536):
                shown += piece
                if interrupt_at is not None and interrupt_at.encode() in shown:
                    process.send_signal(signal.SIGINT)
                    interrupt_at = None
        process.wait(60)
    return shown.decode().replace("\r\n", "\n")


def test_colour_on_a_terminal() -> None:
    golden = (ROOT / "tests/golden/towers.run.modern.txt").read_text()
    shown = on_a_terminal("run", "graphs/towers.yaml", "--quiet", COLUMNS="60")  # a slow machine would show a bar
    assert ESCAPE.search(shown)
    assert ESCAPE.sub("", shown) == golden


def test_a_bar_shows_long_work(tmp_path: Path) -> None:
    (tmp_path / "waiting.yaml").write_text(WAITING.replace("fetch: [d]", "run: [{fetch: [d], repeat: 2}]"))
    shown = on_a_terminal("run", str(tmp_path / "waiting.yaml"), "--timeout", "60", interrupt_at="nodes")
    assert "steps" in shown
    assert "nodes" in shown
    assert "Traceback" not in shown


def test_a_pipe_gets_no_bar() -> None:
    ended = run_warm(ROOT, "run", "graphs/cifar10-towers.yaml", "--no-log-placement")
    assert (ended.code, ended.complaint) == (0, "")
    assert len(ended.output.splitlines()) == 4


def test_no_color_is_obeyed() -> None:
    shown = on_a_terminal("run", "graphs/towers.yaml", NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", shown)


def test_force_color_is_obeyed_in_a_pipe() -> None:
    ended = run_warm(ROOT, "run", "graphs/logging.yaml", FORCE_COLOR="1", TERM="xterm")
    assert ended.code == 0
    assert ESCAPE.search(ended.output)


def test_devices_are_a_table_on_a_terminal() -> None:
    shown = ESCAPE.sub("", on_a_terminal("devices", "--gpu", "1", COLUMNS="200")).splitlines()
    assert shown[0].split() == ["name", "type", "memory_limit", "physical_device_desc"]
    assert shown[1].startswith("/job:localhost/replica:0/task:0/device:CPU:0 ")
    assert "\t" not in "".join(shown)


def test_an_error_on_a_terminal() -> None:
    shown = on_a_terminal("run", "graphs/missing-gpu.yaml")
    assert "\x1b[1;31mInvalidArgumentError:" in shown


def test_devices_starts_without_what_others_need() -> None:
    code = (
        "import sys; before = set(sys.modules); from placesim.cli import main; main(['devices', '--gpu', '2'])\n"
        "print(*set(sys.modules) - before)"
    )
    modules = run_process((sys.executable, "-c", code), check=True).output.splitlines()[-1].split()
    assert "placesim" in modules
    assert not {"numpy", "yaml", "rich", "scipy", "json"} & set(modules)


def test_run_in_a_pipe_starts_without_what_it_does_not_need() -> None:
    code = (
        "import sys; from placesim.cli import main; main(['run', 'graphs/logging.yaml'])\n"
        "print(sorted({'rich', 'scipy', 'ml_dtypes', 'google.protobuf'} & set(sys.modules)))\n"
        "print(sum(name.startswith('placesim.ops.kernels.') for name in sys.modules) < 21)"
    )
    ended = run_process((sys.executable, "-c", code), check=True)
    assert ended.output.splitlines()[-2:] == ["[]", "True"]


@pytest.mark.slow
@pytest.mark.parametrize(("before", "found"), [({}, "18"), ({"OPENBLAS_THREAD_TIMEOUT": "26"}, "26")])
def test_idle_blas_threads_spin_shortly_unless_the_user_says_otherwise(
    before: dict[str, str], found: str, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text("import os\nprint(os.environ['OPENBLAS_THREAD_TIMEOUT'])\n")
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_THREAD_TIMEOUT"}
    with start_warm("run", "script.py", cwd=tmp_path, env=environment | before) as process:
        output, complaint = process.communicate(timeout=60)
    assert found in (complaint + output).decode().splitlines()
