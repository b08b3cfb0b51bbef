"""Process of a script: `tensorflow` is placesim.tf1, and the graph is returned to the parent.

The job is told in the command line's first word, as JSON; what follows are the script and its arguments.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    """Run the script that the command line names."""
    job = json.loads(sys.argv[1])
    del sys.argv[:2]
    path = sys.argv[0]
    _prepare(path)
    if job["purpose"] == "record":
        from placesim.tf1.running.recorder import record

        record(path, job)
    else:
        from placesim.tf1.running.live import run_live

        run_live(path, job)


def _prepare(path: str) -> None:
    """Do Python's own setup before a script's first line; make TensorFlow's modules importable."""
    from placesim.tf1.graphs import graph
    from placesim.tf1.importing import import_hook

    import_hook.install()
    graph.set_script(path)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))


if __name__ == "__main__":
    main()
