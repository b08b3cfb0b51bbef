"""Workers that die or hang, clients that go away, steps that take too long: each ends cleanly, and nothing stays."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from placesim.core.errors import DeadlineExceededError, InternalError, SessionUsageError, UnavailableError
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.session_steps import Config, Fetch, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.runtime.cluster.cluster_setup import Cluster, open_cluster
from placesim.runtime.cluster.connection_settings import Connection
from placesim.runtime.sessions.session import GraphSession
from tests.cli.shell import start
from tests.processes import interrupt, until
from tests.runtime.cluster.commands import DaskCommands
from tests.runtime.dask.workers import open_session, settled, two_workers

pytestmark = pytest.mark.cluster
CPU, GPU = "/cpu:0", "/gpu:0"
CPU_NAME, GPU_NAME = (f"/job:localhost/replica:0/task:0/device:{kind}:0" for kind in ("CPU", "GPU"))
MANY = {
    "nodes": [
        {"op": "Const", "name": "one", "value": 1.0, "device": CPU},
        {
            "while": {
                "loop_vars": {"x": "one"},
                "cond": {"op": "Less", "inputs": ["x", 1e9]},
                "body": [{"id": "x", "op": "AddV2", "inputs": ["x", 1.0], "device": GPU}],
            }
        },
    ]
}
"""A loop over both devices that runs for hours."""
COUNTING = {
    "nodes": [
        {"variable": "count", "shape": [], "dtype": "float", "initializer": "zeros", "device": GPU},
        {"op": "Const", "name": "one", "value": 1.0, "device": CPU},
        {"op": "AssignAdd", "name": "more", "inputs": ["count", "one"], "device": GPU},
        {"initializer": "init"},
    ]
}


def session_of(document: dict[str, Any], cluster: Cluster, seconds: float = 0) -> GraphSession:
    """A session on a CPU and a GPU, each in a worker."""
    file = graph_file_from_mapping(document, "faults")
    config = Config(operation_timeout_in_ms=round(seconds * 1000))
    return open_session(cluster, file.graph, build_devices((TaskInventory(gpu=1),)), config)


def left_over(dask_worker: Any = None) -> tuple[int, list[str], list[str]]:
    """What of a session is in a worker: sessions, threads, and, where these have gone, objects that hold tensors."""
    import gc

    from placesim.runtime.dask.worker_session import WorkerSession, WorkerStep

    handler = dask_worker.handlers.get("placesim_session")  # there since the worker's first session
    sessions = handler.__self__.sessions if handler else {}
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("placesim")]
    threads = [name for name in threads if name != "placesim-end"]  # that one ends with whoever started us
    held = []
    if not sessions and not threads:
        gc.collect()
        held = [type(found).__name__ for found in gc.get_objects() if isinstance(found, WorkerSession | WorkerStep)]
    return len(sessions), threads, held


def is_clean(cluster: Cluster) -> bool:
    """Whether nothing of any session is in the workers; not yet, while the scheduler has a worker that has just died."""
    found = cluster.client.run(left_over, on_error="return").values()
    return all(not isinstance(told, Exception) and told == (0, [], []) for told in found)


@pytest.fixture
def own_workers() -> Iterator[Cluster]:
    """Workers that may die."""
    pytest.importorskip("distributed", reason="of the extra `dask`")
    with two_workers() as cluster:
        yield cluster


def address_of(cluster: Cluster, device: str) -> str:
    """The worker that a device of `session_of` lives in."""
    return settled(cluster, build_devices((TaskInventory(gpu=1),))).homes[f"/job:localhost/replica:0/task:0/device:{device}:0"]


def in_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    """Work that goes on beside the test, and what it raises."""
    raised: list[BaseException] = []

    def caught() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=caught)
    thread.start()
    return thread, raised


def test_a_step_that_takes_too_long(workers: Cluster) -> None:
    session = session_of(MANY, workers, seconds=0.3)
    with pytest.raises(DeadlineExceededError):  # the step itself would run for hours
        session.run(GraphStep((Fetch("while"),)))
    session.close()
    assert until(lambda: is_clean(workers))


def test_a_deadline_while_the_session_is_opened(workers: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    from placesim.runtime.dask.worker_connections import WorkerConnections

    whole = WorkerConnections._open

    async def late(*arguments: Any) -> None:
        await whole(*arguments)
        raise DeadlineExceededError("too late")

    monkeypatch.setattr(WorkerConnections, "_open", late)
    session = session_of(COUNTING, workers)
    with pytest.raises(DeadlineExceededError, match="too late"):
        session.run(GraphStep((Fetch("init"),)))
    session.close()
    assert until(lambda: is_clean(workers))


def test_what_would_wait_forever(workers: Cluster) -> None:
    nodes = [
        {"op": "FIFOQueueV2", "name": "queue", "attrs": {"component_types": ["float"]}, "device": CPU},
        {"op": "QueueDequeueV2", "name": "get", "inputs": ["queue"], "attrs": {"component_types": ["float"]}},
        {"op": "Neg", "name": "there", "inputs": ["get"], "device": GPU},
    ]
    session = session_of({"nodes": nodes}, workers)
    with pytest.raises(InternalError, match="get}} would wait forever: nothing else of this step can run"):
        session.run(GraphStep((Fetch("there"),)))
    session.close()
    assert until(lambda: is_clean(workers))
    with pytest.raises(SessionUsageError):
        session.run(GraphStep((Fetch("there"),)))


def test_a_worker_that_dies_in_a_step(own_workers: Cluster) -> None:
    session = session_of(MANY, own_workers)
    pid = own_workers.client.run(os.getpid)[address_of(own_workers, "GPU")]
    assert not session.links.gone  # type: ignore[attr-defined]  # of a cluster; they are made, so that the step follows
    thread, raised = in_thread(lambda: session.run(GraphStep((Fetch("while"),))))
    time.sleep(0.4)
    os.kill(pid, signal.SIGKILL)
    thread.join(20)
    (error,) = raised
    assert isinstance(error, UnavailableError)
    assert "/job:localhost/replica:0/task:0/device:GPU:0 is gone" in error.message
    session.close()
    assert until(lambda: is_clean(own_workers))


def test_a_worker_that_dies_between_steps(own_workers: Cluster) -> None:
    session = session_of(COUNTING, own_workers)
    session.run(GraphStep((Fetch("init"),)))
    for expected in (1.0, 2.0):
        assert session.run(GraphStep((Fetch("more"),))).values[0].value == expected
    pid = own_workers.client.run(os.getpid)[address_of(own_workers, "GPU")]
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.5)
    with pytest.raises(UnavailableError, match="device:GPU:0 is gone"):
        session.run(GraphStep((Fetch("more"),)))
    with pytest.raises(UnavailableError, match="device:GPU:0 is gone"):
        session.run(GraphStep((Fetch("more"),)))
    session.close()


def test_a_worker_that_hangs(own_workers: Cluster) -> None:
    session = session_of(COUNTING, own_workers, seconds=2.0)
    session.run(GraphStep((Fetch("init"),)))
    pid = own_workers.client.run(os.getpid)[address_of(own_workers, "GPU")]
    os.kill(pid, signal.SIGSTOP)
    try:  # both end while the worker still hangs
        with pytest.raises(DeadlineExceededError):
            session.run(GraphStep((Fetch("more"),)))
        session.close()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert until(lambda: is_clean(own_workers))


def test_a_client_that_goes_away(workers: Cluster, tmp_path: Path) -> None:
    graph = tmp_path / "many.yaml"
    import yaml

    graph.write_text(yaml.safe_dump({**MANY, "devices": {"cpu": 1, "gpu": 1}, "run": [{"fetch": ["while"]}]}))
    for number in (signal.SIGKILL, signal.SIGINT):
        options = ("--engine", "dask", "--scheduler", workers.scheduler, "--worker-per", "device")
        with start("run", str(graph), *options) as client:
            assert until(lambda: any(found[0] for found in workers.client.run(left_over).values()))
            time.sleep(0.2)
            ended = interrupt(client, number)
        if number == signal.SIGINT:
            assert ended.code == 130, ended.complaint
        assert until(lambda: is_clean(workers))


def test_a_scheduler_that_dies(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="of the extra `dask`")
    with DaskCommands(tmp_path) as dask:
        for _ in range(2):
            dask.worker()
        with open_cluster(Connection(dask.address, per="device", seconds=60), [CPU_NAME, GPU_NAME]) as cluster:
            session = session_of(MANY, cluster)
            thread, raised = in_thread(lambda: session.run(GraphStep((Fetch("while"),))))
            time.sleep(0.4)
            dask.scheduler.kill()
            thread.join(60)
            (error,) = raised
            assert isinstance(error, UnavailableError)
            session.close()
        # Dask's workers end with their scheduler
        assert until(lambda: not any(worker.is_alive() for worker in dask.workers))
