"""Clusters that are joined, and workers of our own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from placesim.core.errors import PlacesimError, UnavailableError, UsageError
from placesim.core.version import __version__
from placesim.runtime.cluster.cluster_setup import open_cluster
from placesim.runtime.cluster.connection_settings import Connection, Tls
from placesim.runtime.cluster.remote_process import RemoteProcessPool
from placesim.runtime.cluster.scheduler_client import scheduler_address
from placesim.runtime.executors.session_turns import other_threads_may_run_steps
from placesim.studies.sweeping.cluster_processes import make_portable_job
from placesim.studies.sweeping.processes import ProcessCount, run_combinations
from placesim.studies.sweeping.row_simulation import SweepJob
from tests.cli.shell import Shell
from tests.processes import interrupt, read_until, start_process, until
from tests.runtime.cluster.commands import DaskCommands

pytest.importorskip("distributed", reason="of the extra `dask`")
pytestmark = pytest.mark.cluster

PS, W0, W1 = (
    f"/job:{task}/device:CPU:0" for task in ("ps/replica:0/task:0", "worker/replica:0/task:0", "worker/replica:0/task:1")
)


def test_a_cluster_is_joined(cluster: Any) -> None:
    others = {*cluster.scheduler.clients, "fire-and-forget"}
    with open_cluster(Connection(cluster.scheduler_address), [PS, W0]) as joined:
        assert not joined.is_own
        assert joined.scheduler == cluster.scheduler_address
        assert sorted(joined.homes.values()) == sorted(worker.worker_address for worker in cluster.workers.values())
        assert joined.names == {joined.homes[PS]: "/job:ps/replica:0/task:0", joined.homes[W0]: "/job:worker/replica:0/task:0"}
        assert [offer.versions["placesim"] for offer in joined.offers] == [__version__] * 2
    # it goes on without us
    assert len(cluster.scheduler.workers) == 2
    assert not cluster.scheduler.clients.keys() - others


def test_threads_of_dask_begin_no_steps(cluster: Any) -> None:
    """What waits for other threads (a queue's elements, a chief) does not wait for these."""
    with open_cluster(Connection(cluster.scheduler_address), [PS, W0]):
        threads = [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]
        assert threads
        assert not other_threads_may_run_steps(), threads


def test_workers_are_too_few(cluster: Any) -> None:
    connection = Connection(cluster.scheduler_address, seconds=2.0)
    with pytest.raises(UnavailableError, match="too few workers: got 2 for 3"), open_cluster(connection, [PS, W0, W1]):
        pass
    with open_cluster(Connection(cluster.scheduler_address), [PS, W0, W1], is_soft=True) as joined:
        assert [moved.device for moved in joined.moved] == ["/job:worker/replica:0/task:1"]
        assert set(joined.homes) == {PS, W0, W1}


def test_devices_are_listed(cluster: Any, shell: Shell) -> None:
    rows = json.loads(shell("devices", "--scheduler", cluster.scheduler_address, "--format", "json").output)["workers"]
    assert [(row["name"], row["host"], row["threads"], row["placesim"]) for row in rows] == [
        ("0", "127.0.0.1", 1, __version__),
        ("1", "127.0.0.1", 1, __version__),
    ]
    listed = shell("devices", "--no-header", "--scheduler", cluster.scheduler_address.removeprefix("tcp://"))
    assert [line.split("\t")[0] for line in listed.output.splitlines()] == [row["address"] for row in rows]
    assert listed.complaint == ""


def test_a_graph_and_a_cluster_are_not_listed_together(shell: Shell) -> None:
    ended = shell("devices", "--gpu", "2", "--scheduler", "tcp://127.0.0.1:1")
    assert ended.code == 2
    assert "--scheduler lists a cluster's workers: expected no graph and no machine options" in ended.complaint
    ended = shell("devices", "--tls-cert", "x")
    assert "TLS files without a cluster: expected --scheduler tls://HOST:PORT as well" in ended.complaint


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("tcp://10.0.0.1:8788", "tcp://10.0.0.1:8788"),
        ("10.0.0.1", "tcp://10.0.0.1:8786"),
        ("head-node:9000/", "tcp://head-node:9000"),
        ("tls://[fe80::1]:9000", "tls://[fe80::1]:9000"),
    ],
)
def test_addresses(text: str, address: str) -> None:
    assert scheduler_address(text) == address


@pytest.mark.parametrize("text", ["http://10.0.0.1:8786", "", "a b", "tcp://", "host:65536", "host:http", "tcp://a:1/path"])
def test_no_addresses(text: str) -> None:
    with pytest.raises(UsageError, match="expected tcp://HOST:PORT, or tls://HOST:PORT"):
        scheduler_address(text)


class _Page(BaseHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def listening(kind: str, cluster: Any) -> Iterator[str]:
    """The address of something that is no scheduler."""
    if kind == "worker":
        yield next(iter(cluster.workers.values())).worker_address
    elif kind == "web":
        server = HTTPServer(("127.0.0.1", 0), _Page)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        server.server_close()
    elif kind == "nowhere":
        yield "no.such.host.invalid"
    else:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            if kind == "silent":
                found.listen()
            yield f"127.0.0.1:{found.getsockname()[1]}"


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("worker", "a Dask Worker answers there"),
        ("web", "the server there is not Dask"),
        ("nowhere", "no scheduler at tcp://no.such.host.invalid:8786: "),
        ("silent", "the server there is not Dask, or hangs"),
        ("closed", "nothing listens there (waited 0.2 s)"),
    ],
)
def test_no_scheduler(kind: str, sentence: str, cluster: Any) -> None:
    with listening(kind, cluster) as address:
        # what answers is given time to
        seconds = 5 if kind == "worker" else 0.2
        with pytest.raises(UnavailableError) as caught, open_cluster(Connection(address, seconds=seconds)):
            pass
        assert sentence in str(caught.value)


def test_workers_of_our_own(capfd: pytest.CaptureFixture[str]) -> None:
    before = listening_addresses(os.getpid())
    with open_cluster(Connection(), [PS, W0]) as own:
        assert own.is_own
        assert [offer.name for offer in own.offers] == ["/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"]
        assert own.homes == {PS: own.offers[0].address, W0: own.offers[1].address}
        processes = own.client.run(os.getpid)
        if Path("/proc/net/tcp").is_file():
            check_loopback(before, processes[own.homes[PS]])
        os.kill(processes[own.homes[W0]], signal.SIGKILL)
    assert os.getpid() not in processes.values()
    assert not any(map(is_there, processes.values()))
    assert capfd.readouterr() == ("", "")


def listening_addresses(process: int) -> list[str]:
    """Local addresses in the hexadecimal of Linux's /proc, of the process's own sockets."""
    if not Path("/proc/net/tcp").is_file():
        return []
    links = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{process}/fd") if os.path.islink(entry.path)]
    sockets = {link[8:-1] for link in links if link.startswith("socket:[")}
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return [line[1].partition(":")[0] for line in lines if line[3] == "0A" and line[9] in sockets]


def check_loopback(before: list[str], worker: int) -> None:
    """A cluster of our own listens on the loopback interface alone."""
    ours, theirs = listening_addresses(os.getpid()), listening_addresses(worker)
    assert len(ours) >= len(before) + 2  # the scheduler's, and its pages of HTTP
    assert len(theirs) >= 2
    loopback = "0100007F"
    assert {*theirs} == {loopback}
    assert ours.count(loopback) - before.count(loopback) == len(ours) - len(before)


SCRIPT = """
import os, sys, time
from placesim.runtime.cluster.connection_settings import Connection, Tls
from placesim.runtime.cluster.cluster_setup import open_cluster
with open_cluster(Connection(), ["/job:ps/replica:0/task:0/device:CPU:0"]) as own:
    print(*own.client.run(os.getpid).values(), flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.linux("processes in /proc")
def test_workers_of_our_own_end_with_us(number: int, tmp_path: Path) -> None:
    """Also where the script has no guard, which multiprocessing would run again in each worker."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with start_process([sys.executable, script], env=os.environ | {"TMPDIR": str(tmp_path)}) as process:
        worker = int(read_until(process, b"\n"))
        assert is_there(worker)
        interrupt(process, number)
        assert until(lambda: not is_there(worker))
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    # what nobody has waited for yet
    return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def test_bindings_need_a_cluster() -> None:
    with pytest.raises(UsageError, match="expected --scheduler as well"), open_cluster(Connection(workers=("/cpu:0=a",)), [PS]):
        pass


FORGET = "for name in [name for name in sys.modules if name.partition('.')[0] == 'placesim']:\n    del sys.modules[name]\n"
"""Python that makes a worker import placesim again, which it has from the process that forked it."""


def test_workers_of_other_versions(tmp_path: Path, shell: Shell) -> None:
    """Started by Dask's own commands: one has another placesim, one has none."""
    other = tmp_path / "other" / "placesim"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text('__version__ = "0.9"\n')
    preload = tmp_path / "preload.py"
    preload.write_text(f"import sys\nsys.path.insert(0, {str(other.parent)!r})\n{FORGET}")
    with DaskCommands(tmp_path) as commands:
        commands.worker("--name", "old", "--preload", str(preload))
        with (
            pytest.raises(
                PlacesimError, match=r"versions of placesim differ: got 0\.9 at worker .*, expected 1\.0\.0, the version here"
            ),
            open_cluster(Connection(commands.address), [PS]),
        ):
            pass
        listed = shell("devices", "--scheduler", commands.address, "--format", "csv").output.splitlines()
        assert listed[0] == "address,name,host,threads,memory,placesim,python,numpy"
        assert listed[1].split(",")[1:4] == ["old", "127.0.0.1", "1"]
        assert listed[1].split(",")[5] == "0.9"


def test_a_worker_without_placesim_is_left_out(tmp_path: Path, shell: Shell) -> None:
    """It joins before, during or after the run, and is as it was; alone it is an error."""
    pytest.importorskip("distributed", reason="of the extra `dask`")
    # a finder that hides the package, however it is installed
    hidden = tmp_path / "hidden.py"
    hidden.write_text(
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'placesim':\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Hidden())\n" + FORGET
    )
    graph = shell.write(
        "g.yaml", "nodes:\n  - {op: Const, name: a, value: 2.0}\n  - {op: Neg, name: b, inputs: [a]}\nfetch: [b]\n"
    )
    with DaskCommands(tmp_path) as commands:
        foreign = commands.worker("--name", "foreign", "--preload", str(hidden))
        run = ("run", graph, "--engine", "dask", "--scheduler", commands.address, "--scheduler-timeout", "30")
        assert "versions of placesim differ: got none at worker" in shell(*run).complaint
        commands.worker("--name", "own")
        assert until(lambda: len(shell("devices", "--no-header", "--scheduler", commands.address).output.splitlines()) == 2)
        for command in (run, ("sweep", graph, "--gpu", "0,1", "--scheduler", commands.address)):
            ended = shell(*command)
            assert ended.code == 0, ended.complaint
            assert re.fullmatch(r"worker tcp://\S+ is left out: it has no placesim\n(Best: gpu 0 .*\n)?", ended.complaint)
        foreign.kill()

        def workers() -> int:
            return len(shell("devices", "--no-header", "--scheduler", commands.address).output.splitlines())

        assert until(lambda: workers() == 1)
        with open_cluster(Connection(commands.address)) as cluster:
            job = SweepJob(graph, graph, ("gpu",), {})
            asking = RemoteProcessPool(cluster, "placesim.studies.sweeping.worker", make_portable_job(job), answers_once=True)
            late = commands.worker("--name", "late", "--preload", str(hidden))
            assert until(lambda: workers() == 2)
            # as if Dask had chosen the new worker for the first rows
            own = [offer.address for offer in cluster.offers]
            asking.workers = [
                address for address in cluster.client.scheduler_info(n_workers=-1)["workers"] if address not in own
            ]
            found = list(run_combinations(job, [(0,), (1,)], ProcessCount(2, lambda job: asking.open())))
            assert [outcome.row.error for _, outcome in found] == [None, None]
            assert asking.workers == own
        assert late.is_alive()
        assert shell(*run).complaint.count("is left out") == 1


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority's certificate, and a certificate of its making with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("makes certificates with openssl")
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca-key.pem", "-out", "ca.pem", "-subj", "/CN=authority", "-days", "2")
    openssl("req", *key, "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=127.0.0.1")
    openssl("x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca-key.pem", "-out", "cert.pem", "-days", "2")
    return folder


def test_tls(certificates: Path, tmp_path: Path, shell: Shell) -> None:
    files = [str(certificates / name) for name in ("ca.pem", "cert.pem", "key.pem")]
    options = [word for pair in zip(("--tls-ca-file", "--tls-cert", "--tls-key"), files, strict=True) for word in pair]
    with DaskCommands(tmp_path, *options, scheme="tls") as commands:
        commands.worker("--name", "safe")
        assert commands.address.startswith("tls://")
        with open_cluster(Connection(commands.address, seconds=60, tls=Tls(*files)), [PS]) as cluster:
            assert cluster.homes[PS].startswith("tls://")
        listed = shell("devices", "--no-header", "--scheduler", commands.address, *options)
        assert listed.output.split("\t")[1] == "safe"
        commands.worker()
        graph = tmp_path / "two.yaml"
        graph.write_text(
            "devices: {cpu: 2}\n"
            "nodes:\n"
            "  - {op: Const, name: one, value: 1.0, device: /cpu:0}\n"
            "  - {op: Neg, name: two, inputs: [one], device: /cpu:1}\n"
        )
        asked = ("--engine", "dask", "--scheduler", commands.address, "--worker-per", "device")
        ran = shell("run", str(graph), *asked, *options)
        assert (ran.code, ran.output) == (0, shell("run", str(graph)).output), ran.complaint
        without = shell("devices", "--scheduler", commands.address)
        assert (without.code, without.output) == (2, "")
        assert "needs TLS: expected --tls-ca-file, --tls-cert and --tls-key, or Dask's" in without.complaint
        plain = shell("devices", "--scheduler", commands.address.replace("tls", "tcp"), "--scheduler-timeout", "1")
        assert plain.code == 1
        assert "UnavailableError: no Dask scheduler" in plain.complaint
        with DaskCommands(tmp_path) as open_commands:
            tls = open_commands.address.replace("tcp", "tls")
            ended = shell("devices", "--scheduler", tls, *options, "--scheduler-timeout", "5")
            assert (ended.code, ended.output) == (1, "")
            assert ended.complaint == (
                f"UnavailableError: no TLS at {tls}: got an answer without TLS, expected a scheduler started "
                f"with --tls-ca-file, --tls-cert and --tls-key; for a scheduler without TLS, write {open_commands.address}\n"
            )
        none = shell("devices", "--scheduler", commands.address, *options[:-1], "none.pem")
        assert none.complaint.endswith("none.pem', expected a PEM file\n")
