"""Training strategies: rewrites of a training graph that compute the same steps on more devices or with less memory."""
