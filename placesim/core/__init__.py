"""Foundation of all rooms."""
