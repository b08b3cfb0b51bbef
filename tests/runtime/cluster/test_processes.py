"""Processes beside workers, and the versions of workers, as far as they show without a cluster: the cluster is played."""

from __future__ import annotations

import io
import logging
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from placesim.core.errors import UnavailableError, UsageError
from placesim.core.version import __version__

pytest.importorskip("distributed", reason="of the extra `dask`")

import dask
from distributed import KilledWorker

from placesim.runtime.cluster import local_cluster, remote_process, scheduler_client, worker, worker_process
from placesim.runtime.cluster.cluster_setup import Cluster
from placesim.runtime.cluster.connection_settings import Tls
from placesim.runtime.cluster.remote_process import ALONE_SECONDS, RemoteProcess, RemoteProcessPool
from placesim.runtime.cluster.versions import _ASKED, AGREEING, Offer, check_versions, read_offers, split_offers
from placesim.runtime.cluster.worker_process import Answers, Errand


class Task:
    """A task of Dask's whose outcome is set by the test."""

    def __init__(self, errand: Any) -> None:
        self.errand = errand
        self.status = "pending"
        self.found: Any = None
        self._told: list[Callable[[Any], None]] = []

    def add_done_callback(self, told: Callable[[Any], None]) -> None:
        self._told.append(told)

    def end(self, found: Any, status: str = "finished") -> None:
        self.found, self.status = found, status
        for told in self._told:
            told(self)

    def result(self) -> Any:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def cancel(self) -> None:
        self.status = "cancelled"


class Client:
    """A client of Dask's that keeps what it is asked."""

    def __init__(self, versions: dict[str, Any] | None = None) -> None:
        self.tasks: list[Task] = []
        self.options: list[dict[str, Any]] = []
        self.topics: dict[str, Callable[[Any], None]] = {}
        self.ended: list[str] = []
        self.workers: dict[str, Any] = {"w0": {}, "w1": {}}
        self.versions = versions or {}

    def submit(self, function: Any, first: Any, *others: Any, **options: Any) -> Task:
        # an errand is an expression and its names, anything else what it is made of
        self.tasks.append(Task(Errand(*others[0]["errand"]) if function is eval else first))
        self.options.append(options)
        return self.tasks[-1]

    def subscribe_topic(self, topic: str, told: Callable[[Any], None]) -> None:
        self.topics[topic] = told

    def unsubscribe_topic(self, topic: str) -> None:
        self.ended.append(topic)

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        assert n_workers == -1
        return {"workers": self.workers}

    def sync(self, ask: Callable[[], Any], callback_timeout: float) -> Any:
        return ask()

    def _run(self, function: Any, asked: str, on_error: str) -> Any:
        return self.versions

    def _run_on_scheduler(self, function: Any, asked: str) -> Any:
        return self.versions["scheduler"]


def pool(client: Client, *, once: bool = True, left_out: tuple[Any, ...] = (), **more: Any) -> RemoteProcessPool:
    offers = tuple(Offer(address, "0", "h", 1, None) for address in ("w0", "w1"))
    cluster: Any = SimpleNamespace(client=client, scheduler="s", seconds=1.0, offers=offers, left_out=left_out)
    found: Cluster = cluster
    return RemoteProcessPool(found, "module", answers_once=once, **more)


def asked(client: Client, **more: Any) -> tuple[RemoteProcess, Task]:
    process = pool(client, **more).open()
    process.tell("question")
    return process, client.tasks[-1]


def test_an_answer_comes_from_a_task() -> None:
    client = Client()
    process, task = asked(client)
    assert task.errand == Errand("module", __version__, pickle.dumps("question"))
    assert client.options[0]["workers"] is None
    task.end(Answers("a", ["one", "two"], "exit code 1"))
    assert [process.answer(), process.answer(), process.how_it_ended()] == ["one", "two", "exit code 1"]
    with pytest.raises(EOFError):
        process.answer()


def test_work_is_kept_from_workers_that_can_do_none() -> None:
    client = Client()
    asked(client, left_out=(object(),), preface="p")
    assert [options["workers"] for options in client.options] == [["w0", "w1"]] * 2
    assert client.tasks[0].errand == pickle.dumps("p")
    assert client.tasks[1].errand.kin


def test_answers_that_are_told_meanwhile_come_once() -> None:
    client = Client()
    process, task = asked(client, once=False)
    ((topic, tell),) = client.topics.items()
    assert task.errand.topic == topic

    def say(attempt: str, first: int, *values: str) -> None:
        tell((0, pickle.dumps((attempt, first, list(values)))))

    say("a", 0, "0", "1")
    say("a", 1, "1", "2")
    say("a", 3, "3")
    assert [process.answer() for _ in range(4)] == ["0", "1", "2", "3"]
    say("b", 0, "again")
    assert process.answer() == "again"
    task.end(Answers("b", ["again", "last"]))
    assert process.answer() == "last"
    process.close()
    assert client.ended == [topic]


@pytest.mark.parametrize(
    ("found", "ended"),
    [(KilledWorker("t", SimpleNamespace(name="w"), 3), "its workers, more than once"), (ValueError("x"), "ValueError: x")],
)
def test_how_a_task_failed(found: Exception, ended: str) -> None:
    process, task = asked(Client())
    task.end(found, "error")
    with pytest.raises(EOFError):
        process.answer()
    assert process.how_it_ended() == ended


@pytest.mark.parametrize(
    ("status", "found"),
    [("cancelled", None), ("lost", None), ("error", UnavailableError("the cluster's scheduler at s is gone"))],
)
def test_a_cluster_that_is_gone(status: str, found: Exception | None) -> None:
    process, task = asked(Client())
    task.end(found, status)
    with pytest.raises(UnavailableError, match="the cluster's scheduler at s is gone"):
        process.answer()


def test_a_process_that_is_killed_answers_no_more() -> None:
    process, task = asked(Client())
    process.kill()
    assert task.status == "cancelled"
    with pytest.raises(EOFError):
        process.answer()


def test_a_cluster_without_workers_is_waited_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(remote_process, "time", SimpleNamespace(monotonic=lambda: now))
    client = Client()
    found, few = pool(client), pool(client, left_out=(object(),))
    client.workers = {"w9": {}}
    for moment in (101.0, 100 + ALONE_SECONDS - 1):
        now = moment
        found.check_workers()
        few.check_workers()
    now = 100 + ALONE_SECONDS
    found.check_workers()
    with pytest.raises(UnavailableError, match="no worker is left on the cluster at s"):
        few.check_workers()
    client.workers = {}
    now += ALONE_SECONDS + 1
    with pytest.raises(UnavailableError, match="no worker is left"):
        found.check_workers()


# --- beside a worker ------------------------------------------------------------------------------------------------


class Process:
    """A process that gives these answers, and then ends."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.is_closed = False

    def answer(self) -> str:
        if not self.answers:
            raise EOFError
        return self.answers.pop(0)

    def close(self) -> None:
        self.is_closed = True


def test_answers_are_told_no_more_often_than_it_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([10.0, 10.0, 10.1, 10.3, 10.3, 10.4])
    monkeypatch.setattr(worker_process, "time", SimpleNamespace(monotonic=lambda: next(times)))
    told: list[Any] = []
    process: Any = Process("0", "1", "2", "3")
    found = worker_process._all_told("a", process, lambda text: told.append(pickle.loads(text)))
    assert found == Answers("a", ["0", "1", "2", "3"])
    assert told == [("a", 0, ["0"]), ("a", 1, ["1", "2"])]
    assert process.is_closed


def test_a_process_is_kept_for_the_next_question_of_its_kin(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(worker_process, "Thread", lambda **options: SimpleNamespace(start=lambda: started.append(options)))
    kept = worker_process._ProcessPool()
    one, two, other, alone = (Process() for _ in range(4))
    for kin, process in (("k", one), ("k", two), ("o", other), ("", alone)):
        kept.keep(kin, process)  # type: ignore[arg-type]
    assert (len(started), alone.is_closed, one.is_closed) == (1, True, False)
    taken: list[Any] = [kept.take(kin) for kin in ("k", "k", "k", "o")]
    assert taken == [one, two, None, other]


def test_processes_that_nobody_takes_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += 1.5

    monkeypatch.setattr(worker_process, "Thread", lambda **options: SimpleNamespace(start=lambda: None))
    monkeypatch.setattr(worker_process, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    kept = worker_process._ProcessPool()
    first, second = Process(), Process()
    kept.keep("k", first)  # type: ignore[arg-type]
    now = 11.0
    kept.keep("k", second)  # type: ignore[arg-type]
    closed_at = []
    for process in (first, second):
        process.close = lambda process=process: closed_at.append((process, now))  # type: ignore[method-assign, misc]
    kept._end_idle()
    assert closed_at == [(first, 12.5), (second, 14.0)]
    assert kept.take("k") is None


# --- versions -------------------------------------------------------------------------------------------------------


def offer(address: str, name: str, **versions: str | None) -> Offer:
    return Offer(address, name, "h", 1, None, versions)


def test_workers_without_placesim_are_left_out_unless_all_are() -> None:
    having, lacking = offer("a", "0", placesim="1"), offer("b", "1", placesim=None)
    assert split_offers([lacking, having]) == ((having,), (lacking,))
    assert split_offers([lacking]) == ((lacking,), ())
    assert split_offers([]) == ((), ())


def test_workers_are_listed_by_their_numbers() -> None:
    client: Any = Client({"b": {"placesim": "1"}, "c": ValueError()})
    row = {"host": "h", "nthreads": 2, "memory_limit": 0}
    names = {"a": "10", "b": "9", "c": "x", "d": "9"}
    client.workers = {address: {**row, "name": name} for address, name in names.items()}
    found = read_offers(client, 1)
    assert [(one.address, one.name, one.memory) for one in found] == [
        ("c", "x", None), ("b", "9", None), ("d", "9", None), ("a", "10", None),
    ]  # fmt: skip
    assert [one.versions for one in found] == [{}, {"placesim": "1"}, {}, {}]
    assert found[1].attributes["placesim"] == "1"
    assert list(found[1].attributes)[:5] == ["address", "name", "host", "threads", "memory"]


def test_versions_that_differ_are_told() -> None:
    ours = eval(_ASKED)
    client: Any = Client({"scheduler": ours})
    same = [Offer(f"w{i}", str(i), "h", 1, None, ours) for i in range(2)]
    check_versions(client, same, 1)
    name = AGREEING[0]
    wrong = [Offer(f"w{i}", str(i), "h", 1, None, {**ours, name: None if i else "0"}) for i in range(5)]
    with pytest.raises(UnavailableError) as caught:
        check_versions(client, wrong, 1)
    assert caught.value.message == (
        f"versions of {name} differ: got 0 at worker w0, none at worker w1, none at worker w2 and 2 more, "
        f"expected {ours[name]}, the version here"
    )
    client.versions = {"scheduler": {**ours, name: "0"}}
    with pytest.raises(UnavailableError, match="differ: got 0 at the scheduler, expected "):
        check_versions(client, same, 1)


# --- the log --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["distributed.one", "tornado.one", "asyncio.one", "other.one"])
def test_dask_and_its_libraries_log_nothing_while_they_are_quiet(name: str) -> None:
    written = io.StringIO()
    logger, handler = logging.getLogger(name), logging.StreamHandler(written)
    logger.addHandler(handler)
    try:
        with scheduler_client.quiet():
            logger.critical("inside")
        logger.critical("outside")
    finally:
        logger.removeHandler(handler)
    assert written.getvalue().split() == (["inside"] if name == "other.one" else []) + ["outside"]


# --- security -------------------------------------------------------------------------------------------------------


def test_tls_files_and_the_scheduler_s_address_must_agree(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("")
    given, lost, none = Tls(ca_file=f"{tmp_path}/ca.pem"), Tls(cert=f"{tmp_path}/none.pem"), Tls()
    for address, tls, said in (
        ("tcp://h:1", given, "wrong scheduler: got tcp://h:1 with TLS files, expected tls://HOST:PORT"),
        ("tcp://h:1", lost, f"no TLS file: got '{tmp_path}/none.pem', expected a PEM file"),
        ("tls://h:1", none, "tls://h:1 needs TLS: expected --tls-ca-file, --tls-cert and --tls-key, or Dask's"),
        ("tls://h:1", given, "tls://h:1 needs TLS: "),
    ):
        with pytest.raises(UsageError) as caught:
            scheduler_client._security(address, tls)
        assert caught.value.message.startswith(said)
    assert not scheduler_client._security("tcp://h:1", none).require_encryption
    with dask.config.set({"distributed.comm.require-encryption": True}), pytest.raises(UsageError) as caught:
        scheduler_client._security("tcp://h:1", none)
    assert caught.value.message == (
        "wrong scheduler: got tcp://h:1, expected tls://HOST:PORT, since Dask's configuration requires it"
    )


# --- processes of the local cluster


class Started:
    """A process that answers what the test says."""

    def __init__(self, answer: Any, end: Any = "exit code 3") -> None:
        self._answer, self._end = answer, end

    def tell(self, told: Any) -> None:
        self.told = told

    def answer(self) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def how_it_ended(self) -> str:
        if isinstance(self._end, Exception):
            raise self._end
        return str(self._end)


PLACES = [local_cluster.WorkerPlace("tcp://hub", name, "/folder") for name in ("one", "two")]


def test_local_workers_start_in_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = [Started(("tcp://1",)), Started(("tcp://2",))]
    monkeypatch.setattr(local_cluster, "Worker", lambda module: waiting[len(processes)])
    processes: list[Any] = []
    assert local_cluster._start(processes, PLACES) == {"one": "tcp://1", "two": "tcp://2"}
    assert [process.told for process in processes] == PLACES


@pytest.mark.parametrize(
    ("started", "message"),
    [
        (Started("no port"), "the worker for one could not be started: no port"),
        (Started(EOFError()), "the worker for one could not be started: its process ended with exit code 3"),
        (Started(EOFError(), TimeoutError()), "the worker for one could not be started: its process does not answer"),
        (OSError(12, "no memory"), "cannot start a worker for one: no memory"),
    ],
)
def test_a_local_worker_that_does_not_start(started: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(module: str) -> Any:
        if isinstance(started, Exception):
            raise started
        return started

    monkeypatch.setattr(local_cluster, "Worker", start)
    with pytest.raises(UnavailableError, match=f"^{message}$"):
        local_cluster._start([], PLACES[:1])


def test_a_worker_tells_why_it_ends_and_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(*_: Any) -> None:
        raise OSError("no port")

    codes: list[int] = []
    answers: list[str] = []
    monkeypatch.setattr(worker, "_serve", serve)
    monkeypatch.setattr(os, "_exit", codes.append)
    folder = tmp_path / "own"
    folder.mkdir()
    for _ in range(2):  # the second time, the folder is gone
        place = local_cluster.WorkerPlace("tcp://hub", "one", str(folder))
        worker.work(io.BytesIO(pickle.dumps(place)), answers.append)
        assert not folder.exists()
    assert (codes, answers) == ([0, 0], ["OSError: no port"] * 2)
