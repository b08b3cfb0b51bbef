"""A script and the process that it runs in: what it built, and what its author is told where it fails."""
