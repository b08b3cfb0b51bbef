"""Names of TensorFlow's own modules (`tensorflow.python.util`) that no public module has, but public packages import."""
