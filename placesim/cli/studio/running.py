"""The run of a studio: its socket, its server and its end."""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from typing import Any

import uvicorn

from placesim.cli.output import complain, write
from placesim.cli.studio.guard import Guard, new_token
from placesim.cli.studio.server import StudioServer
from placesim.core.errors import UsageError
from placesim.core.process.interrupts import INTERRUPTED, InterruptGrace
from placesim.machine.gpu_options import shell_environment
from placesim.studies.studio.source import StudioSource
from placesim.studies.studio.studio import Studio

HOST = "127.0.0.1"


def serve(graph: str, values: Mapping[str, Any], port: int, *, opens: bool) -> int:
    """Serve a studio until its page is closed, and return the exit code: INTERRUPTED after Ctrl-C, else 0.

    Raises GraphFileError for an unreadable file, UsageError for invalid options or a port in use, and errors of a script.
    A graph file with problems is served: the page shows them in its editor.
    """
    source = StudioSource(graph, {"environment": shell_environment(), **values}, lambda told: complain(f"{told}\n"))
    edited = Studio(source)
    edited.check_start()
    with _bound(port) as listener, InterruptGrace():
        port = listener.getsockname()[1]
        token = new_token()
        address = f"http://{HOST}:{port}/{token}/"
        studio = StudioServer(edited, lambda: setattr(server, "should_exit", True))
        guard = Guard(studio.application, token, tuple(f"{name}:{port}" for name in (HOST, "localhost")))
        logging.getLogger("uvicorn.error").disabled = True  # errors are answers
        config = uvicorn.Config(guard.answer, interface="asgi3", ws="none", lifespan="off", log_config=None, access_log=False)
        config.server_header = False
        config.timeout_graceful_shutdown = 1
        server = uvicorn.Server(config)
        write(f"{address}\n")
        complain("the studio ends when its page is closed, or with Ctrl-C\n")
        if opens:
            _open_browser(address)
        try:
            server.run(sockets=[listener])
        except KeyboardInterrupt:
            return INTERRUPTED
        finally:
            studio.close()
    return 0


def _bound(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind((HOST, port))
        listener.listen()  # a browser may ask before the server runs
    except OSError as error:
        listener.close()
        message = f"cannot listen on port {port}: got '{error.strerror or error}', expected a free --port"
        raise UsageError(message) from None
    return listener


def _open_browser(address: str) -> None:
    import webbrowser

    if not webbrowser.open(address):
        complain("No browser found to open the address\n")
