"""The server of `placesim studio`, and its safety: one page on this machine, with a secret address."""
