"""TensorFlow's ops: definitions, kernel registrations, and kernels that compute them."""
