"""The server of `placesim studio`, which serves one page on this machine at a secret address."""
