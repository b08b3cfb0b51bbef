"""Questions about a placement, live or written: a snapshot of it, the rooms that answer, and what several of them count and compare."""
