"""A training graph as a pipeline: its costs by node, the places to cut it, schedules of passes, and the rewritten graph."""
