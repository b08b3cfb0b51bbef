"""Visible structure of a placement: its scopes, the edges and copies between them, and the state drawn by `show`."""
