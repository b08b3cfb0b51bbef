"""Questions about a placement, live or written: a snapshot of it, and the rooms that answer."""
