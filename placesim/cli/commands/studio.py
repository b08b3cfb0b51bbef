"""`placesim studio`."""

from __future__ import annotations

from typing import Any

import click

from placesim.cli.command import EXITS, command
from placesim.cli.option_types import own_option
from placesim.cli.options import given, graph_options, guess_options, link_option, profile_option, size_options
from placesim.core.errors import UsageError


@command("studio", exits={0: EXITS[0], 2: EXITS[2]})
@click.argument("graph")
@graph_options
@link_option
@profile_option
@size_options()
@guess_options
@own_option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Port of the address (default: a free one).")
@own_option("--no-browser", is_flag=True, help="Print the address, but open no browser.")
def studio_command(graph: str, port: int, no_browser: bool, **values: Any) -> int:
    """Change a graph or a machine on a page, and see at once what happens.

    GRAPH is any graph that `run` reads.  The page can edit the whole of a graph file, and only the devices of any other graph.
    It shows the device of each node, the effect of each edit with reasons, transfers, the timeline of a step, and memory.  It
    also searches for a plan, and saves the graph.  The page is served on this machine only, at a secret address.  The command
    ends when the page is closed, or with Ctrl-C.  It needs the extra `placesim[studio]`.

    \b
    Examples:
      placesim studio graphs/towers.yaml
      placesim studio graphs/cifar10-towers.yaml --gpu-model 'Tesla K80' --soft-placement
      placesim studio model.onnx --batch 64 --port 8765 --no-browser
    """
    try:
        from placesim.cli.studio.running import serve
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("starlette", "uvicorn"):
            raise
        raise UsageError(f"{package} is not installed: the studio needs it, `pip install 'placesim[studio]'`") from None
    return serve(graph, given(values), port, opens=not no_browser)
