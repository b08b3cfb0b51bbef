"""Shell completion: what is offered, and that a real bash takes it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.cli.shell import ROOT, Shell
from tests.cli.warm import run_warm

ESCAPE = re.compile(r"\x1b(?:\[[0-9;?>=]*[a-zA-Z]|\][^\x07]*\x07|[()][A-Z0-9]|[=>])")
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}


def offered(line: str, folder: Path = ROOT) -> list[str]:
    """What bash is answered where the last word of the line is begun."""
    words = line.split(" ")
    variables = {"_PLACESIM_COMPLETE": "bash_complete", "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    ended = run_warm(folder, **variables)
    assert (ended.code, ended.complaint) == (0, "")
    return ended.output.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("placesim pla", "plain,place"),
        ("placesim place --no-so", "plain,--no-soft-placement"),
        ("placesim place ", "file,"),
        ("placesim place g.yaml --log-style cl", "plain,classic"),
        ("placesim check g.yaml --format ju", "plain,junit"),
        ("placesim check g.yaml --rule no-so", "plain,no-soft-fallback"),
        ("placesim place g.yaml --gpu-model GeForce", "plain,GeForce\\ GTX\\ 1080"),
        ("placesim explain graphs/logging.yaml Mat", "plain,MatMul"),
        ("placesim run graphs/logging.yaml --fetch Mat", "plain,MatMul"),
        ("placesim manual graph-f", "plain,graph-file"),
        ("placesim ops MatMu", "plain,MatMul"),
        ("placesim help conv", "plain,convert"),
        ("placesim run g.yaml --inventory ", "file,"),
        ("placesim run graphs/alexnet.yaml --feed im", "plain,images="),
        ("placesim run graphs/logging.yaml --feed a", "plain,a="),
        ("placesim memory graphs/alexnet.yaml --shape ", "plain,images="),
        ("placesim place graphs/logging.yaml --device Mat", "plain,MatMul="),
        ("placesim place graphs/cifar10-towers.yaml --device tower_", "plain,tower_1/*="),
        ("placesim explain graphs/cifar10-towers.yaml tower_", "plain,tower_1/"),
        ("placesim explain graphs/cifar10-towers.yaml tower_1/conv1", "plain,tower_1/conv1"),
        ("placesim new data-", "plain,data-parallel"),
        ("placesim new queue ", "file,"),
        ("placesim plan g.yaml --method clo", "plain,closed-sets"),
        ("placesim sweep g.yaml --set inter", "plain,inter-op-threads="),
        ("placesim sweep g.yaml --gpu-model GeForce,TITAN", "plain,GeForce,TITAN\\ V"),
        ("placesim show tests/data/tensorflow-files/tf2_model --signature s", "plain,serving_default"),
        ("placesim memory g.yaml --table h", "plain,holders"),
    ],
)
def test_words(line: str, expected: str) -> None:
    assert expected in offered(line)


@pytest.mark.slow
def test_devices_of_the_machine() -> None:
    """Bash has broken the word at `=` and `:`, and lacks what stands behind."""
    assert offered("placesim place graphs/logging.yaml --gpu 2 --device MatMul=/g") == ["plain,/gpu:0", "plain,/gpu:1"]
    assert offered("placesim place graphs/logging.yaml --gpu 2 --device=MatMul=/gpu:") == ["plain,0", "plain,1"]
    assert "plain,ps/replica:0/task:0/device:CPU:0" in offered("placesim place graphs/cluster.yaml --device a=/job:p")


def test_what_is_wrong_elsewhere_is_not_said(tmp_path: Path) -> None:
    (tmp_path / "placesim.toml").write_text("no = TOML")
    assert offered("placesim ops MatMu", tmp_path) == ["plain,MatMul"]


@pytest.mark.slow
def test_a_script_is_not_run_for_its_names(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("open('ran', 'w')\n")
    assert offered("placesim run script.py --fetch a", tmp_path) == [""]
    assert offered("placesim run none.yaml --fetch a", tmp_path) == [""]
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


def write_model(folder: Path, signature: str) -> None:
    """A SavedModel whose signature has that name, of 15 letters."""
    model = (ROOT / "tests/data/tensorflow-files/tf2_model/saved_model.pb").read_bytes()
    before, after = model.split(b"\n\x0fserving_default\x12")
    (folder / "model").mkdir()
    (folder / "model/saved_model.pb").write_bytes(before + b"\n\x0f" + signature.encode() + b"\x12" + after)


@pytest.mark.parametrize(
    "signature", ["$(touch canary)", "`touch canary` ", ";touch canary;#", "a' \"|>canary&!-", "~\\ {a,b}?[a-z]-"]
)
def test_a_name_runs_nothing_in_bash(signature: str, tmp_path: Path) -> None:
    write_model(tmp_path, signature)
    found = offered("placesim show model --signature ", tmp_path)
    (word,) = (word.removeprefix("plain,") for word in found if "__saved_model" not in word)
    for quotes in ("", '"', "'"):  # as a user may have begun the word
        line = f"printf %s {quotes}{word}{quotes}"
        ended = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert quotes or ended.stdout == signature
        assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_name_with_controls_is_not_offered(tmp_path: Path) -> None:
    write_model(tmp_path, "a\nplain,--\x1b[1m")
    assert all("__saved_model" in word or not word for word in offered("placesim show model --signature ", tmp_path))


SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
TYPED = [
    ("placesim plac\tX", "place X"),
    ("placesim explain graphs/cifar10-towers.yaml tower_\tX", "tower_1/X"),
    ("placesim place g.yaml --gpu-model GeForce\\ RTX\\ 4\tX", "GeForce\\ RTX\\ 40"),
    ("placesim run graphs/alexnet.yaml --feed im\tX", "images=X"),
    ("placesim place graphs/cluster.yaml --device loss=/job:p\tX", "loss=/job:ps/replica:0/task:"),
    ("placesim place graphs/logg\tX", "graphs/logging.yaml X"),
]
"""Lines with a tab, and what stands there after it; an X says where the cursor is."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SHELLS)
def test_real_shells_take_it(tmp_path: Path, shell: Shell, name: str) -> None:
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"there is no {name}")
    ours = tmp_path / "placesim"
    ours.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m placesim "$@"\n')
    ours.chmod(0o755)
    (tmp_path / "script").write_text(shell("completion", name).output)
    terminal = Terminal([program, *SHELLS[name][1:]], tmp_path)
    terminal.type(f". {tmp_path}/script\n" if name != "fish" else f"source {tmp_path}/script\n")
    terminal.type("echo RE''ADY\n")
    terminal.wait_for("READY")
    try:
        for line, expected in TYPED:
            terminal.type(line)
            terminal.wait_for(expected)
            terminal.type("\x15")
    finally:
        terminal.close()


class Terminal:
    """A shell at a terminal of its own."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._seen = ""
        environment = ENVIRONMENT | {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder), "TERM": "dumb", "PS1": "> "}
        self._process, self._terminal = pty.fork()
        if not self._process:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
            os.chdir(ROOT)
            os.execve(command[0], command, environment)

    def type(self, text: str) -> None:
        """Press keys."""
        self._seen = ""
        os.write(self._terminal, text.encode())

    def wait_for(self, expected: str) -> None:
        """Until the screen has the text."""
        until = time.monotonic() + 60
        while expected not in self._screen():
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"expected {expected!r}, got {self._seen!r}"
            self._seen += os.read(self._terminal, 65536).decode(errors="replace")

    def _screen(self) -> str:
        """What is read, where signs are written over others."""
        line: list[str] = []
        shown, at = "", 0
        for sign in ESCAPE.sub("", self._seen):
            if sign == "\n":
                shown, line, at = shown + "".join(line), [], 0
            elif sign in "\r\b":
                at = 0 if sign == "\r" else max(0, at - 1)
            elif sign.isprintable():
                line[at : at + 1] = [sign]
                at += 1
        return shown + "".join(line)  # a shell may break a line where it draws it anew

    def close(self) -> None:
        """End the shell."""
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._terminal)


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_install(shell: Shell, monkeypatch: pytest.MonkeyPatch, shell_name: str) -> None:
    monkeypatch.setenv("HOME", str(shell.directory))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    script = shell("completion", shell_name).output
    assert "_PLACESIM_COMPLETE" in script
    start = shell.directory / f".{shell_name}rc"
    start.write_text("alias ll=ls")
    assert shell("completion", shell_name, "--install").code == 0
    once = start.read_text()
    assert shell("completion", shell_name, "--install").code == 0
    assert start.read_text() == once
    written = [path for path in shell.directory.rglob("*") if path.is_file() and path != start]
    assert [path.read_text() for path in written] == [script]
    assert once.splitlines()[0] == "alias ll=ls"
    assert (str(written[0]) in once) is (shell_name != "fish")


def test_install_quotes_the_path(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(shell.directory))
    monkeypatch.setenv("XDG_DATA_HOME", str(shell.directory / "$(touch canary)'\""))
    assert shell("completion", "bash", "--install").code == 0
    line = (shell.directory / ".bashrc").read_text().replace(" . ", " printf %s ")
    assert subprocess.run(["bash", "-c", line], cwd=shell.directory, capture_output=True, text=True, check=True).stdout == str(
        shell.directory / "$(touch canary)'\"/placesim/completion.bash"
    )
    assert not (shell.directory / "canary").exists()


def test_the_shell_of_the_environment(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert shell("completion").output == shell("completion", "fish").output
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert shell("completion").complaint.startswith("UsageError: unknown shell: got 'tcsh' in SHELL")
