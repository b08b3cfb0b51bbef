"""Run the command line for `python -m placesim`."""

import sys

from placesim.cli import main

sys.exit(main())
