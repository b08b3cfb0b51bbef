"""To come."""

from placesim.runtime.kernels.kernel import Table

TABLE: Table = {}
