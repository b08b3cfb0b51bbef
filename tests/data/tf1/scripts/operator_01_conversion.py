import tensorflow.compat.v1 as tf
i = tf.placeholder(tf.int32, [3]); step = tf.Variable(0, trainable=False); f = tf.cast(i, tf.float32)
a = tf.cast(i, tf.float32) * 2.
b = 2. * f
c = f * tf.cast(2, tf.float32)
d = tf.cast(step, tf.float32) * 0.5
e = tf.multiply(tf.cast(3.5, tf.int32), i)
g = tf.to_float(i) * tf.to_float(2)
h = tf.cast(2.0, tf.float32) * f
for fn in (lambda: i * 2.0, lambda: i * tf.constant(2.), lambda: 2.0 * i, lambda: tf.multiply(i, 0.5), lambda: tf.cast(i, tf.float64) * f, lambda: f * i, lambda: f * [1, 2, 3], lambda: i / 2., lambda: 2 / f, lambda: tf.cast(True, tf.float32) * f, lambda: f * True, lambda: f * f.shape[0], lambda: f * tf.shape(i)[0], lambda: step * 0.1, lambda: step / 3, lambda: step // 3, lambda: f ** 2, lambda: 1 - f, lambda: tf.saturate_cast(f * 300, tf.uint8), lambda: tf.cast([1, 2, 3], tf.float32) * f, lambda: tf.cast(tf.constant(1), tf.float32) * f, lambda: tf.scalar_mul(2, f), lambda: tf.scalar_mul(tf.constant(2), f)):
    try: print(fn())
    except Exception as x: print(type(x).__name__, x)
