"""Sweeps and plans on a cluster of Dask's own commands: what one machine finds, whatever becomes of workers."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

import placesim
from placesim.core.errors import UnavailableError
from placesim.runtime.cluster.cluster_setup import open_cluster
from placesim.runtime.cluster.connection_settings import Connection
from placesim.runtime.cluster.remote_process import RemoteProcessPool
from placesim.studies.sweeping.cluster_processes import make_portable_job
from placesim.studies.sweeping.processes import ProcessCount, run_combinations
from placesim.studies.sweeping.row_simulation import SweepJob
from tests.cli.shell import ROOT, Shell, start
from tests.cli.test_sweep import GRAPH
from tests.processes import interrupt, until
from tests.runtime.cluster.commands import DaskCommands

psutil = pytest.importorskip("psutil", reason="of the extra `dask`")
pytestmark = pytest.mark.cluster
MANY = "1..3000"
PLAN = ("plan", str(ROOT / "graphs" / "data-parallel.yaml"), "--free-all", "--soft-placement", "--evaluations", "10")


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCommands]:
    """Two workers whose folder is not the tests' own."""
    with DaskCommands(tmp_path_factory.mktemp("dask")) as commands:
        commands.worker()
        commands.worker()
        with open_cluster(
            Connection(commands.address, seconds=60), [f"/job:a/replica:0/task:{task}/device:CPU:0" for task in range(2)]
        ):
            yield commands


@pytest.fixture
def graph(shell: Shell) -> str:
    return shell.write("g.yaml", GRAPH)


def processes_of(*workers: BaseProcess) -> list[int]:
    """What workers have started."""
    return [child.pid for worker in workers for child in psutil.Process(worker.pid).children(recursive=True)]


def test_a_cluster_finds_what_one_process_does(dask: DaskCommands, shell: Shell, graph: str) -> None:
    arguments = ("sweep", graph, "--gpu", "1..3", "--batch", "64,128,3000000")
    there = shell(*arguments, "--scheduler", dask.address)
    assert there == shell(*arguments, "--jobs", "1")
    assert there.code == 1
    # processes are kept for a moment only
    assert until(lambda: not processes_of(*dask.workers))


def test_what_is_wrong_with_all_is_an_error(dask: DaskCommands, shell: Shell, graph: str) -> None:
    arguments = ("sweep", graph, "--gpu", "2,3")
    assert shell(*arguments, "--scheduler", dask.address) == shell(*arguments, "--jobs", "1")


def test_what_is_finished_is_not_simulated_again(dask: DaskCommands, shell: Shell, graph: str) -> None:
    arguments = ("sweep", graph, "--output", "x.json", "--scheduler", dask.address)
    assert shell(*arguments, "--batch", "8,16").code == 0
    before = json.loads(Path("x.json").read_text())
    rows = next(value for value in before.values() if isinstance(value, list) and value and isinstance(value[0], dict))
    rows[0]["seconds"] = 123.0
    Path("x.json").write_text(json.dumps(before))
    assert shell(*arguments, "--batch", "8,16,32").code == 0
    assert Path("x.json").read_text().count("123.0") == 1
    # all is there: nobody is asked
    assert shell(*arguments[:-1], "tcp://127.0.0.1:1", "--batch", "8,16,32").code == 0


def test_a_worker_is_lost(dask: DaskCommands, shell: Shell, graph: str) -> None:
    extra = dask.worker()
    with open_cluster(
        Connection(dask.address, seconds=60), [f"/job:a/replica:0/task:{task}/device:CPU:0" for task in range(3)]
    ):
        pass
    arguments = ("sweep", graph, "--batch", "1..30", "--quiet")
    with start(*arguments, "--scheduler", dask.address, cwd=".") as process:
        assert until(lambda: bool(processes_of(extra)))
        extra.kill()
        output, complaint = process.communicate(timeout=60)
    assert (process.returncode, complaint) == (0, b"")
    assert output.decode() == shell(*arguments, "--jobs", "1").output
    extra.join()
    dask.workers.remove(extra)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_who_goes_away_leaves_nothing(number: int, dask: DaskCommands, graph: str) -> None:
    with start("sweep", graph, "--batch", MANY, "--scheduler", dask.address, cwd=".") as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert processes_of(*dask.workers)
        assert interrupt(process, number).code == (130 if number == signal.SIGINT else -signal.SIGKILL)
    assert until(lambda: not processes_of(*dask.workers))
    with open_cluster(Connection(dask.address)) as cluster:
        threads = cluster.client.run(eval, "[t.name for t in __import__('threading').enumerate()]")
        held = cluster.client.run(lambda dask_worker: len(dask_worker.data))
    assert not [name for names in threads.values() for name in names if name.startswith("placesim")]
    assert set(held.values()) == {0}


def test_a_process_that_ends_is_a_row(dask: DaskCommands, graph: str) -> None:
    job = SweepJob(graph, graph, ("batch",), {})
    with open_cluster(Connection(dask.address)) as cluster:
        # a module that ends at once
        asking = RemoteProcessPool(cluster, "placesim.core.suggestions", make_portable_job(job), answers_once=True)
        found = list(run_combinations(job, [(1,), (2,)], ProcessCount(2, lambda job: asking.open())))
    assert sorted(number for number, _ in found) == [0, 1]
    sentence = "UnavailableError: its process ended with exit code 0, perhaps out of memory"
    assert {outcome.row.error for _, outcome in found} == {sentence}


def test_a_plan_is_what_one_machine_finds(dask: DaskCommands, shell: Shell) -> None:
    there = shell(*PLAN, "--scheduler", dask.address)
    assert there.code == 0
    assert there == shell(*PLAN, "--jobs", "1")  # any number of processes finds the same
    assert until(lambda: not processes_of(*dask.workers))


def test_a_plan_that_is_interrupted_leaves_nothing(dask: DaskCommands) -> None:
    arguments = PLAN[:-2]
    with start(*arguments, "--seconds", "600", "--scheduler", dask.address, cwd=".") as process:
        assert until(lambda: len(processes_of(*dask.workers)) == 2)
        time.sleep(0.1)
        ended = interrupt(process)
    assert (ended.code, ended.complaint) == (130, "")
    assert "\nplan\tlatency\t" in ended.output
    assert until(lambda: not processes_of(*dask.workers))


def test_what_a_cluster_may_lose(tmp_path: Path, shell: Shell, graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placesim.runtime.cluster.remote_process.ALONE_SECONDS", 0.5)
    monkeypatch.setattr("placesim.runtime.cluster.remote_process._LOOK_SECONDS", 0.1)
    with DaskCommands(tmp_path) as commands:
        arguments = ("sweep", graph, "--batch", MANY, "--scheduler", commands.address)
        # it has no workers yet
        ended = shell(*arguments, "--scheduler-timeout", "2")
        assert (ended.code, ended.output) == (1, "")
        assert "no workers on the cluster at" in ended.complaint
        # the last one is lost
        worker = commands.worker()
        with open_cluster(Connection(commands.address, seconds=60)) as cluster:
            asking = RemoteProcessPool(
                cluster,
                "placesim.studies.sweeping.worker",
                make_portable_job(SweepJob(graph, graph, (), {})),
                answers_once=True,
            )
            process = asking.open()
            worker.kill()
            process.tell(())
            with pytest.raises(UnavailableError, match="no worker is left on the cluster at"):
                process.answer()
        # the scheduler is
        commands.worker()
        with start(*arguments, "--scheduler-timeout", "60", "--output", "x.csv", cwd=".") as sweep:
            assert until(lambda: Path("x.csv").exists())
            commands.scheduler.kill()
            complaint = sweep.communicate(timeout=60)[1].decode()
    assert sweep.returncode == 1
    assert complaint.startswith("interrupted: ")
    assert complaint.endswith(f"\nUnavailableError: the cluster's scheduler at {commands.address} is gone\n")
    assert len(Path("x.csv").read_text().splitlines()) > 1


def test_from_python(dask: DaskCommands, graph: str) -> None:
    over = {"gpu": "2..3", "batch": [64, 128]}
    assert list(placesim.sweep(graph, over, scheduler=dask.address)) == list(placesim.sweep(graph, over))
    rows = placesim.sweep(graph, {"batch": MANY}, scheduler=dask.address)
    next(rows)
    rows.close()
    assert until(lambda: not processes_of(*dask.workers))
    source = ROOT / "graphs" / "data-parallel.yaml"
    there, here = (
        placesim.plan(source, free="*", soft_placement=True, evaluations=10, **options)
        for options in ({"scheduler": dask.address}, {"jobs": 1})
    )
    assert str(there) == str(here)
