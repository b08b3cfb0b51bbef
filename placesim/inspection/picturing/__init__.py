"""Data of the pictures that `show` draws: scopes of a placement, and the edges and copies between them."""
