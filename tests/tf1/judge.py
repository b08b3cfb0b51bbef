"""`compare` on this repository's corpus: `python -m tests.tf1.judge [PATTERN...] [--keep] [--long]`.

Prints the first difference of each script that does not agree; `--keep` adds those that do to `agreeing.txt`.
"""

from __future__ import annotations

import sys

from tests.tf1 import corpus
from tests.tf1.compare import compare_all, shortened, table


def main(arguments: list[str]) -> None:
    """The command line."""
    patterns = [argument for argument in arguments if not argument.startswith("--")]
    compared = []
    for one in compare_all(corpus.SCRIPTS, [corpus.records()[name] for name in corpus.names(*patterns)]):
        compared.append(one)
        difference = one.difference or "agrees"
        print(f"{one.name}: {difference if '--long' in arguments else shortened(difference)}", flush=True)
    print(table(compared))
    if "--keep" in arguments:
        kept = sorted({*corpus.agreeing(), *(one.name for one in compared if one.difference is None)})
        corpus.AGREEING.write_text("".join(name + "\n" for name in kept))


if __name__ == "__main__":
    main(sys.argv[1:])
