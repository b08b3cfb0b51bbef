"""A step's requests, the pruned graph, its partitions and their transfers."""
