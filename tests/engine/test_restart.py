"""Checkpoints of a run on a cluster: what a worker's or the client's death costs, and how a run goes on behind it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from placesim.checkpoints.state import listed_checkpoints
from placesim.cluster.opening import Cluster
from tests.cli.shell import ROOT, Ended, Shell, start
from tests.cluster.commands import DaskCommands
from tests.engine.test_faults import is_clean, until
from tests.engine.workers import two_workers
from tests.runtime.saving.graphs import write_training


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[DaskCommands]:
    """A scheduler and two workers, started by Dask's own commands."""
    pytest.importorskip("distributed", reason="of the extra `dask`")
    environment = {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
    with DaskCommands(tmp_path, **environment) as found:
        for name in ("a", "b"):
            found.worker("--no-nanny", "--name", name, **environment)
        yield found


def arguments(shell: Shell, graph: str, scheduler: str, *more: str) -> list[str]:
    prefix = str(shell.directory / "out" / "model")
    cluster = ("--engine", "dask", "--scheduler", scheduler, "--worker-per", "device", "--scheduler-timeout", "30")
    return ["run", graph, "--checkpoint", prefix, "--checkpoint-every", "2", *cluster, *more]


def restarted(shell: Shell, graph: str, scheduler: str, *more: str) -> tuple[int, Ended]:
    """With which step a restart began, and what it printed."""
    ended = shell(*arguments(shell, graph, scheduler, "--restart", *more))
    assert ended.code == 0, ended.complaint
    (line,) = [line for line in ended.complaint.splitlines() if line.startswith("goes on with step ")]
    return int(line.split()[4].rstrip(",")), ended


def test_a_checkpoint_is_that_of_one_process(workers: Cluster, shell: Shell) -> None:
    graph = write_training(shell.directory)
    there = shell(*arguments(shell, graph, workers.scheduler))
    other = str(shell.directory / "here" / "model")
    here = shell("run", graph, "--checkpoint", other, "--checkpoint-every", "2")
    assert (there.code, there.output) == (here.code, here.output) == (0, here.output)
    names = listed_checkpoints(shell.directory / "out")
    assert names == listed_checkpoints(shell.directory / "here") == ("model-2", "model-4", "model-6", "model-7")
    for name in (f"{name}{end}" for name in names for end in (".index", ".data-00000-of-00001")):
        assert (shell.directory / "out" / name).read_bytes() == (shell.directory / "here" / name).read_bytes()
    # and either goes on from the other's
    (shell.directory / "here" / "checkpoint").write_text('model_checkpoint_path: "model-4"\n')
    (shell.directory / "out" / "checkpoint").write_text('model_checkpoint_path: "model-4"\n')
    first, ended = restarted(shell, graph, workers.scheduler)
    assert first == 4
    assert here.output.endswith(ended.output)
    assert shell("run", graph, "--checkpoint", str(shell.directory / "out" / "model"), "--restart", "-q").output == ""
    assert shell("run", graph, "--checkpoint", other, "--restart").output == ended.output
    assert until(lambda: is_clean(workers))


@pytest.mark.parametrize("seconds", [0.0, 0.3], ids=["between steps", "inside a step"])
def test_a_worker_that_is_killed(seconds: float, dask: DaskCommands, shell: Shell) -> None:
    """At most the steps since the last checkpoint are lost; the rest comes out as in an undisturbed run."""
    graph = write_training(shell.directory, 8 if seconds else 400, seconds)
    whole = shell("run", graph, "--no-log-placement").output
    where = ("--worker", "/gpu:0=a", "--worker", "/cpu:0=b")
    with start(*arguments(shell, graph, dask.address, *where), stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stderr is not None
        out = shell.directory / "out"
        assert until(lambda: (out / "checkpoint").exists() and len(listed_checkpoints(out)) >= 2, 60)
        time.sleep(seconds / 2)
        dask.workers[0].send_signal(signal.SIGKILL)
        printed, complaint = client.communicate(timeout=60)
    assert client.returncode == 1
    assert b"device:GPU:0 is gone" in complaint
    done = printed.decode().count("train:") + 1
    # on the worker that is left
    first, ended = restarted(shell, graph, dask.address, "--soft-placement", "--no-log-placement")
    assert done - 2 <= first <= done
    assert whole.endswith(ended.output)
    assert whole.startswith(printed.decode())


def test_a_worker_that_comes_back(dask: DaskCommands, shell: Shell) -> None:
    """Under its name, at another address: a restart finds it there."""
    graph = write_training(shell.directory, 400)
    whole = shell("run", graph, "--no-log-placement").output
    where = ("--worker", "/gpu:0=a", "--worker", "/cpu:0=b")
    with start(*arguments(shell, graph, dask.address, *where), stdout=subprocess.PIPE) as client:
        assert until(lambda: (shell.directory / "out" / "checkpoint").exists(), 60)
        dask.workers[0].kill()
        client.communicate(timeout=60)
    ended = shell(*arguments(shell, graph, dask.address, "--restart", *where))
    assert ended.code == 2
    assert "wrong --worker: got '/gpu:0=a', expected a worker of the cluster" in ended.complaint
    dask.worker("--no-nanny", "--name", "a", PYTHONPATH=os.pathsep.join([str(ROOT), *sys.path[1:]]))
    assert until(lambda: shell("devices", "--scheduler", dask.address).output.count("tcp://") >= 2, 60)
    _, ended = restarted(shell, graph, dask.address, *where, "--no-log-placement")
    assert whole.endswith(ended.output)


def test_a_client_that_is_killed(workers: Cluster, shell: Shell) -> None:
    graph = write_training(shell.directory, 400)
    whole = shell("run", graph, "--no-log-placement").output
    with start(*arguments(shell, graph, workers.scheduler), stdout=subprocess.PIPE) as client:
        assert until(lambda: (shell.directory / "out" / "checkpoint").exists(), 60)
        client.kill()
        client.communicate(timeout=60)
    assert until(lambda: is_clean(workers))
    _, ended = restarted(shell, graph, workers.scheduler, "--no-log-placement")
    assert whole.endswith(ended.output)
    assert until(lambda: is_clean(workers))


def test_iterators_go_on_in_their_workers(shell: Shell) -> None:
    pytest.importorskip("distributed", reason="of the extra `dask`")
    graph = str(ROOT / "graphs" / "dataset.yaml")
    with two_workers() as cluster:
        whole = shell(*arguments(shell, graph, cluster.scheduler))
        assert whole.code == 0, whole.complaint
        (shell.directory / "out" / "checkpoint").write_text('model_checkpoint_path: "model-4"\n')
        first, ended = restarted(shell, graph, cluster.scheduler)
        assert first == 4
        assert ended.output
        assert shell("run", graph).output.endswith(ended.output)
