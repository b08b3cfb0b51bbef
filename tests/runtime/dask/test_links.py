"""Links over sockets: what is posted arrives, in order and at any size, and each end learns of the end of the connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from placesim.core.operating_system import SENDS_WITHOUT_WAITING
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.session_steps import Config, Fetch, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.runtime.cluster.cluster_setup import Cluster
from tests.runtime.dask.test_law import CPU, GPU, const
from tests.runtime.dask.workers import open_session

pytest.importorskip("distributed", reason="of the extra `dask`")

from placesim.runtime.dask.links import DirectLink, LoopLink
from placesim.runtime.dask.serialization import unpack

pytestmark = pytest.mark.skipif(not SENDS_WITHOUT_WAITING, reason="this system has no such links")
LARGE = 1 << 23
"""More bytes than a socket holds."""


class End:
    """One end of a connection, with what it has received and how often it was told of the end."""

    def __init__(self, connection: socket.socket) -> None:
        self.losses: SimpleQueue[str] = SimpleQueue()
        self.link = DirectLink(connection, lambda: self.losses.put("lost"))
        self.received: SimpleQueue[tuple[dict[str, Any], Any]] = SimpleQueue()

    def listen(self) -> None:
        self.link.listen(lambda message, value: self.received.put((message, unpack(value))))

    def next(self) -> tuple[dict[str, Any], Any]:
        return self.received.get(timeout=20)


@pytest.fixture
def ends() -> Iterator[tuple[End, End]]:
    one, two = map(End, socket.socketpair())
    yield one, two
    one.link.abort()
    two.link.abort()


def test_messages_arrive_in_order_at_any_size(ends: tuple[End, End]) -> None:
    one, two = ends
    sizes = [0, 1, 5000, LARGE, 3, 70_000, 1 << 16, LARGE, 0]
    for number, size in enumerate(sizes):  # nobody reads yet: the sender does not wait
        one.link.post({"number": number}, np.arange(size, dtype=np.uint8))
    two.listen()
    for number, size in enumerate(sizes):
        message, value = two.next()
        assert message == {"number": number}
        np.testing.assert_array_equal(value, np.arange(size, dtype=np.uint8))
        assert value.flags.writeable


def test_both_ends_send_at_once(ends: tuple[End, End]) -> None:
    for end in ends:
        end.link.post({}, np.zeros(LARGE))
    for end in ends:
        end.listen()
    assert [end.next()[1].nbytes for end in ends] == [8 * LARGE] * 2


def test_more_arrays_than_one_call_can_send(ends: tuple[End, End]) -> None:
    one, two = ends
    two.listen()
    arrays = [np.full(5000, i) for i in range(700)]
    one.link.post({"is": "many"}, arrays)
    _, found = two.next()
    assert [array[-1] for array in found] == list(range(700))


def test_each_end_is_told_once_that_a_link_is_over(ends: tuple[End, End]) -> None:
    one, two = ends
    two.listen()
    one.link.abort()
    one.link.abort()
    one.link.post({}, 1)
    for end in ends:
        assert end.losses.get(timeout=20) == "lost"
    two.link.post({}, 1)
    two.link.abort()
    assert all(end.losses.empty() for end in ends)
    assert two.received.empty()


@pytest.mark.parametrize("size", [1, LARGE])
def test_a_sender_that_does_not_listen_is_told_when_it_sends(size: int, ends: tuple[End, End]) -> None:
    one, two = ends
    one.link.post({}, bytes(size))
    two.link.abort()
    for _ in range(2):
        one.link.post({}, bytes(size))
    assert one.losses.get(timeout=20) == "lost"


def test_an_interrupt_while_a_message_is_sent_ends_the_link(ends: tuple[End, End], monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the message may be sent, after which no other can follow."""
    from placesim.runtime.dask import links

    def interrupted(*_: Any) -> int:
        raise KeyboardInterrupt

    one, two = ends
    two.listen()
    monkeypatch.setattr(links, "send_without_waiting", interrupted)
    with pytest.raises(KeyboardInterrupt):
        one.link.post({}, 1)
    assert two.losses.get(timeout=20) == "lost"


class EndlessComm:
    """A connection in the event loop on which one message arrives."""

    def __init__(self) -> None:
        self.messages = [{"value": None}]
        self.is_aborted = False

    async def read(self) -> dict[str, Any]:
        if not self.messages:
            await asyncio.Event().wait()
        return self.messages.pop()

    def abort(self) -> None:
        self.is_aborted = True


def test_a_message_that_cannot_be_handled_ends_a_link_in_the_event_loop() -> None:
    async def listen() -> None:
        comm: Any = EndlessComm()
        lost = asyncio.Event()

        def take(*_: Any) -> None:
            raise ValueError("no such message")

        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        LoopLink(comm, lost.set).listen(take)
        await asyncio.wait_for(lost.wait(), 20)
        assert comm.is_aborted

    asyncio.run(listen())


def wait_long(seconds: float) -> None:
    """In a worker: it is patient."""
    from placesim.runtime.dask import dataflow_worker

    dataflow_worker.IDLE_SECONDS = seconds


def test_workers_run_a_loop_without_the_client(workers: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    from placesim.runtime.dask.dataflow_worker import IDLE_SECONDS

    body = [{"id": "x", "op": "AddV2", "inputs": ["x", 1.0], "device": GPU}]
    loop = {"loop_vars": {"x": "one"}, "cond": {"op": "Less", "inputs": ["x", 30.0]}, "body": body}
    file = graph_file_from_mapping({"nodes": [const("one", 1.0, CPU), {"while": loop}]}, "loop")
    session: Any = open_session(workers, file.graph, build_devices((TaskInventory(gpu=1),)), Config())
    step = GraphStep((Fetch("while"),))
    heard: list[str] = []
    hear = session.hear

    def noted() -> Any:
        heard.append((said := hear()).message["is"])
        return said

    monkeypatch.setattr(session, "hear", noted)
    workers.client.run(wait_long, 60.0)
    try:
        session.run(step)
        heard.clear()
        assert session.run(step).values[0].value == 29  # the number of turns
    finally:
        workers.client.run(wait_long, IDLE_SECONDS)
        session.close()
    assert heard == ["ended"] * 2
