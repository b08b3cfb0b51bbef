"""Which scripts of the corpus agree with TensorFlow: `python -m tests.tf1.judge [PATTERN...] [--keep] [--long]`.

Prints the first difference of each that does not; `--keep` adds those that agree to `agreeing.txt`.
"""

from __future__ import annotations

import sys
from collections import Counter

from tests.tf1 import corpus
from tests.tf1.comparing import first_difference
from tests.tf1.recording import record_in_fork


def judge(name: str) -> str | None:
    """The first difference of a script; None where it agrees."""
    wanted = corpus.records()[name]
    return first_difference(wanted, record_in_fork(corpus.SCRIPTS / f"{name}.py", wanted["mode"]))


def main(arguments: list[str]) -> None:
    import placesim.tf1  # noqa: F401
    from placesim.runtime.graph_shapes import GraphShapes  # noqa: F401

    is_long = "--long" in arguments
    patterns = [argument for argument in arguments if not argument.startswith("--")]
    agree: list[str] = []
    agreed, total = Counter[str](), Counter[str]()
    for name in corpus.names(*patterns):
        topic = name.partition("_")[0]
        total[topic] += 1
        difference = judge(name)
        if difference is None:
            agree.append(name)
            agreed[topic] += 1
            print(f"{name}: agrees", flush=True)
        else:
            shown = difference if is_long or len(difference) < 1200 else f"{difference[:300]} ...\n{difference[-800:]}"
            print(f"{name}: {shown}", flush=True)
    print(" ".join(f"{topic} {agreed[topic]}/{total[topic]}" for topic in total))
    print(f"{len(agree)} of {sum(total.values())} agree")
    if "--keep" in arguments:
        kept = sorted({*corpus.agreeing(), *agree})
        corpus.AGREEING.write_text("".join(name + "\n" for name in kept))


if __name__ == "__main__":
    main(sys.argv[1:])
