"""What can be seen of a placement: its scopes, the edges and copies between them, what is open and drawn: what `show` draws."""
