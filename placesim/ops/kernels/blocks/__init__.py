"""Computing in blocks that fit into a cache, and applying following ops to each block."""
