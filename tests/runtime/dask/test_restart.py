"""Checkpoints of a run on a cluster: what a worker's or the client's death costs, and how a run goes on behind it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from placesim.core.checkpoints.checkpoint_state import listed_checkpoints
from placesim.runtime.cluster.cluster_setup import Cluster
from tests.cli.shell import ROOT, CommandResult, Shell, start
from tests.processes import until
from tests.runtime.cluster.commands import DaskCommands
from tests.runtime.dask.test_faults import in_thread, is_clean, own_workers
from tests.runtime.dask.workers import two_workers
from tests.runtime.saving.graphs import write_training

__all__ = ["own_workers"]
pytestmark = pytest.mark.cluster


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[DaskCommands]:
    """A scheduler and two workers, started by Dask's own commands."""
    pytest.importorskip("distributed", reason="of the extra `dask`")
    with DaskCommands(tmp_path) as found:
        for name in ("a", "b"):
            found.worker("--name", name)
        yield found


def arguments(shell: Shell, graph: str, scheduler: str, *more: str) -> list[str]:
    prefix = str(shell.directory / "out" / "model")
    cluster = ("--engine", "dask", "--scheduler", scheduler, "--worker-per", "device", "--scheduler-timeout", "30")
    return ["run", graph, "--checkpoint", prefix, "--checkpoint-every", "2", "--checkpoint-keep", "0", *cluster, *more]


def restarted(shell: Shell, graph: str, scheduler: str, *more: str) -> tuple[int, CommandResult]:
    """With which step a restart began, and what it printed."""
    ended = shell(*arguments(shell, graph, scheduler, "--restart", *more))
    assert ended.code == 0, ended.complaint
    (line,) = [line for line in ended.complaint.splitlines() if line.startswith("resuming at step ")]
    return int(line.split()[3].rstrip(",")), ended


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


def test_devices_are_in_one_order_in_the_session_s_record(workers: Cluster, shell: Shell) -> None:
    graph = str(ROOT / "graphs/cluster.yaml")
    for name, cluster in (("here", ()), ("there", ("--engine", "dask", "--scheduler", workers.scheduler, "--soft-placement"))):
        prefix = str(shell.directory / name / "model")
        ended = shell("run", graph, "--soft-placement", "--checkpoint", prefix, "--checkpoint-every", "1", *cluster)
        assert ended.code == 0, ended.complaint
    names = sorted(path.name for path in (shell.directory / "here").iterdir())
    assert names == sorted(path.name for path in (shell.directory / "there").iterdir())
    for name in names:
        assert (shell.directory / "here" / name).read_bytes() == (shell.directory / "there" / name).read_bytes(), name


def killed(shell: Shell, graph: str, scheduler: str, kill: Callable[[], object], *where: str) -> str:
    """What a run printed whose worker of the GPU was killed once it had written two checkpoints."""
    out = shell.directory / "out"

    def watch() -> None:
        if until(lambda: (out / "checkpoint").exists() and len(listed_checkpoints(out)) >= 2, 60):
            kill()

    thread, _ = in_thread(watch)
    ended = shell(*arguments(shell, graph, scheduler, *where))
    thread.join()
    assert ended.code == 1
    assert "device:GPU:0 is gone" in ended.complaint
    return ended.output


WHERE = ("--worker", "/gpu:0=a", "--worker", "/cpu:0=b")


def test_a_worker_that_is_killed_between_steps(dask: DaskCommands, shell: Shell) -> None:
    """At most the steps since the last checkpoint are lost; the rest comes out as in an undisturbed run, wherever."""
    graph = write_training(shell.directory, 80)
    whole = shell("run", graph).output
    printed = killed(shell, graph, dask.address, dask.workers[0].kill, *WHERE)
    done = printed.count("train:") + 1
    assert whole.startswith(printed)
    state = (shell.directory / "out" / "checkpoint").read_text()
    ended = shell(*arguments(shell, graph, dask.address, "--restart", *WHERE, "--scheduler-timeout", "2"))
    assert ended.code == 2
    assert "wrong --worker: got '/gpu:0=a', expected a worker of the cluster" in ended.complaint
    # on the worker that is left
    first, ended = restarted(shell, graph, dask.address, "--soft-placement")
    assert done - 2 <= first <= done
    assert ended.output.count("train:") == 81 - first
    assert whole.endswith(ended.output)
    # and on one that comes back under the name, at another address
    (shell.directory / "out" / "checkpoint").write_text(
        state.splitlines()[-1].replace("all_model_checkpoint_paths", "model_checkpoint_path")
    )
    dask.worker("--name", "a")
    assert until(lambda: shell("devices", "--scheduler", dask.address).output.count("tcp://") >= 2, 60)
    assert restarted(shell, graph, dask.address, *WHERE)[1].output == ended.output


def test_a_worker_that_is_killed_inside_a_step(own_workers: Cluster, shell: Shell) -> None:
    graph = write_training(shell.directory, 6, rounds=100)
    whole = shell("run", graph).output
    victim, pid = next(iter(own_workers.client.run(os.getpid).items()))
    kill = partial(os.kill, pid, signal.SIGKILL)
    printed = killed(shell, graph, own_workers.scheduler, kill, "--worker", f"/gpu:0={victim}")
    done = printed.count("train:") + 1
    assert done < 7
    first, ended = restarted(shell, graph, own_workers.scheduler, "--soft-placement")
    assert done - 2 <= first <= done
    assert whole.endswith(ended.output)


def test_a_client_that_is_killed(workers: Cluster, shell: Shell) -> None:
    graph = write_training(shell.directory, 60)
    whole = shell("run", graph).output
    with start(*arguments(shell, graph, workers.scheduler)) as client:
        assert until(lambda: (shell.directory / "out" / "checkpoint").exists(), 60)
        client.kill()
        client.communicate(timeout=60)
    assert until(lambda: is_clean(workers))
    _, ended = restarted(shell, graph, workers.scheduler)
    assert whole.endswith(ended.output)
    assert until(lambda: is_clean(workers))


def test_iterators_go_on_in_their_workers(shell: Shell) -> None:
    pytest.importorskip("distributed", reason="of the extra `dask`")
    graph = str(ROOT / "graphs" / "dataset.yaml")
    with two_workers() as cluster:
        assert shell(*arguments(shell, graph, cluster.scheduler)).code == 0
        (shell.directory / "out" / "checkpoint").write_text('model_checkpoint_path: "model-4"\n')
        first, ended = restarted(shell, graph, cluster.scheduler, "--no-log-placement")
        assert first == 4
        assert ended.output
        assert shell("run", graph, "--no-log-placement").output.endswith(ended.output)
