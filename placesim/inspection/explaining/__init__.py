"""Why a node is where it is, what would change that, and why a graph can't be placed: what `explain` answers."""
