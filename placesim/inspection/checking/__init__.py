"""The rules that a placement is held to, and what is found where it breaks them: what `check` answers."""
