"""Main module of a script's process, in which `import tensorflow` imports placesim.tf1.

The first argument of the command line is the job as JSON; then follow the script and its arguments.
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
    """Make TensorFlow's modules importable, and the script's folder the first to import from, as Python does."""
    from placesim.tf1.graphs import graph
    from placesim.tf1.importing import import_hook

    import_hook.install()
    graph.set_script(path)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))


if __name__ == "__main__":
    main()
