"""Connection to a Dask scheduler, with an error that names the problem."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from placesim.core.errors import UnavailableError, UsageError
from placesim.runtime.cluster.connection_settings import Tls

if TYPE_CHECKING:
    from distributed import Client
    from distributed.security import Security

Found = TypeVar("Found")

SCHEDULER_PORT = 8786
"""Default port of `dask scheduler`."""
_ADDRESS = re.compile(r"(?:(?P<scheme>tcp|tls)://)?(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]]+)(?::(?P<port>\d{1,5}))?/?")
_LOGGERS = ("distributed", "tornado", "asyncio")
_CLOSING_SECONDS = 2.0
_TELLING_SECONDS = 0.5


def scheduler_address(text: str) -> str:
    """Return a scheduler's address with scheme and port; the default port is Dask's. Raises UsageError if it is invalid."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"] or SCHEDULER_PORT) > 65535:
        raise UsageError(f"wrong scheduler: got '{text}', expected tcp://HOST:PORT, or tls://HOST:PORT")
    return f"{found['scheme'] or 'tcp'}://{found['host']}:{found['port'] or SCHEDULER_PORT}"


def check_extra() -> None:
    """Raise UsageError if Dask is not installed."""
    from importlib.util import find_spec

    if find_spec("distributed") is None:
        raise UsageError("a cluster needs Dask: `pip install 'placesim[dask]'`")


@contextmanager
def quiet() -> Iterator[None]:
    """Turn Dask's log off in this context; placesim reports problems as errors."""
    import distributed  # noqa: F401  # the import makes the log's handlers

    handlers = [
        (handler, handler.level)
        for name in list(logging.root.manager.loggerDict)
        if name.partition(".")[0] in _LOGGERS
        for handler in logging.getLogger(name).handlers
    ]
    for handler, _ in handlers:
        handler.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for handler, level in handlers:
            handler.setLevel(level)


@contextmanager
def connected_client(scheduler: str, seconds: float, tls: Tls) -> Iterator[Client]:
    """Connect to the scheduler; yield a client that is not Dask's default client.

    Raises UsageError for an invalid address or TLS file, and UnavailableError if no scheduler answers in time.
    """
    from distributed import Client

    address = scheduler_address(scheduler)
    security = _security(address, tls)
    _check_host(address)
    # checked first, because a client without an answer waits longer than its timeout, and leaves threads behind
    _ask_who(address, security, seconds)
    try:
        client = Client(address, timeout=seconds, security=security, set_as_default=False, name="placesim")
    except (OSError, TimeoutError, ValueError, RuntimeError) as error:
        raise UnavailableError(f"no scheduler answers at {address}: {error}") from None
    try:
        yield client
    finally:
        with suppress(Exception):  # the scheduler may be gone
            client.close(_CLOSING_SECONDS)


def _check_host(address: str) -> None:
    host, port = _host_and_port(address)
    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnavailableError(f"no scheduler at {address}: {reason}") from None


def _security(address: str, tls: Tls) -> Security:
    """Return Dask's configured security settings, with the given files in place of configured ones."""
    from distributed.security import Security

    files = {"tls_ca_file": tls.ca_file, "tls_client_cert": tls.cert, "tls_client_key": tls.key}
    given = {name: str(Path(path).absolute()) for name, path in files.items() if path is not None}
    for path in given.values():
        if not Path(path).is_file():
            raise UsageError(f"no TLS file: got '{path}', expected a PEM file")
    try:
        security = Security(**given)
        if address.startswith("tls://"):
            if security.get_connection_args("client").get("ssl_context") is None:
                raise UsageError(
                    f"{address} needs TLS: expected --tls-ca-file, --tls-cert and --tls-key, or Dask's `distributed.comm.tls`"
                )
        elif given:
            raise UsageError(f"wrong scheduler: got {address} with TLS files, expected tls://HOST:PORT")
        elif security.require_encryption:
            raise UsageError(
                f"wrong scheduler: got {address}, expected tls://HOST:PORT, since Dask's configuration requires it"
            )
    except OSError as error:  # includes SSLError
        raise UsageError(f"cannot read TLS files: {error.strerror or error}") from None
    return security


def _ask_who(address: str, security: Security, seconds: float) -> None:
    """Raise UnavailableError if no scheduler answers at the address."""
    try:
        told = _run_within(seconds, _identity(address, security, seconds))
    except Exception as error:  # errors of the network, of TLS, or of a server that is not Dask
        raise UnavailableError(_no_answer(address, error, seconds)) from None
    kind = told.get("type") if isinstance(told, dict) else None
    if kind != "Scheduler":
        raise UnavailableError(f"no scheduler at {address}: a Dask {kind or type(told).__name__} answers there")


def _no_answer(address: str, error: BaseException, seconds: float) -> str:
    import asyncio
    from ssl import SSLEOFError

    # Dask's error depends on the progress before the timeout, so the address is tried again
    if not _listens(address):
        return f"no scheduler at {address}: nothing listens there (waited {seconds:g} s)"
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, TimeoutError | FutureTimeoutError | asyncio.CancelledError):
        return f"no scheduler answers at {address} within {seconds:g} s: the server there is not Dask, or hangs"
    # a server without TLS sends plain bytes, or takes the TLS greeting for a message and closes the connection
    # (ValueError: its bytes arrived before Tornado started TLS)
    is_plain = isinstance(cause, ConnectionResetError | BrokenPipeError | SSLEOFError | ValueError)
    if address.startswith("tls://") and (is_plain or getattr(cause, "reason", "") == "WRONG_VERSION_NUMBER"):
        return (
            f"no TLS at {address}: got an answer without TLS, expected a scheduler started with --tls-ca-file, "
            f"--tls-cert and --tls-key; for a scheduler without TLS, write {address.replace('tls://', 'tcp://')}"
        )
    return f"no Dask scheduler at {address}: {str(cause) or type(cause).__name__}"


def _listens(address: str) -> bool:
    """Return False if it is certain that nothing listens at the address, else True."""
    try:
        socket.create_connection(_host_and_port(address), timeout=_TELLING_SECONDS).close()
    except OSError as error:
        return not isinstance(error, ConnectionRefusedError)
    return True


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.partition("://")[2].rpartition(":")
    return host.strip("[]"), int(port)


async def _identity(address: str, security: Security, seconds: float) -> Any:
    import asyncio

    from distributed.core import connect, send_recv

    async def ask() -> Any:
        comm = await connect(address, timeout=seconds, **security.get_connection_args("client"))
        try:
            return await send_recv(comm, op="identity", reply=True)
        finally:
            comm.abort()

    # a little longer than Dask's own timeout, whose error says why there is no connection
    return await asyncio.wait_for(ask(), seconds + _TELLING_SECONDS)


def _run_within(seconds: float, work: Coroutine[Any, Any, Found]) -> Found:
    """Run a coroutine in a new thread with its own event loop, because the caller's loop may be running."""
    import asyncio

    found: Future[Found] = Future()

    def run() -> None:
        try:
            found.set_result(asyncio.run(work))
        except BaseException as error:  # the caller raises it
            found.set_exception(error)

    Thread(target=run, name="placesim-connect", daemon=True).start()
    return found.result(seconds + _CLOSING_SECONDS)
