"""`make fuzz`: the fuzzers on the command line; the exit code is 1 where they find something."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tests.fuzz.campaign import SURFACES, Campaign
from tests.fuzz.runner import Limits, Runner


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--surface", action="append", choices=SURFACES, help="only this one; may be repeated")
    parser.add_argument("--seconds", type=float, default=60, help="how long to try, all surfaces together")
    parser.add_argument("--seed", default=str(time.time_ns()), help="what the inputs follow from; another each time without")
    parser.add_argument("--keep", type=Path, help="a directory where each finding gets a folder with its files")
    parser.add_argument("--limit", type=float, default=Limits().seconds, help="seconds that an input may take")
    parser.add_argument("--memory", type=int, default=Limits().megabytes, help="megabytes of address space for an input")
    options = parser.parse_args()
    surfaces = {name: SURFACES[name] for name in options.surface or SURFACES}
    print(f"seed {options.seed}, {options.seconds:g} s over {', '.join(surfaces)}")
    with Runner(Limits(options.limit, options.memory)) as runner:
        campaign = Campaign(runner, options.keep, lambda text: print(text, flush=True))
        campaign.run(surfaces, options.seed, options.seconds)
    print(campaign.summary())
    return 1 if campaign.found else 0


if __name__ == "__main__":
    raise SystemExit(main())
