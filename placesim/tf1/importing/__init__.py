"""`import tensorflow`: modules of the API, found on first use."""
