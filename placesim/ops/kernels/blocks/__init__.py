"""Computing in blocks: parts that fit into a cache, and the ops that follow in the same pass."""
