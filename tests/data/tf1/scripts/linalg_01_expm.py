import tensorflow.compat.v1 as tf

a = tf.placeholder(tf.float32, [3, 3], name='a')
b = tf.placeholder(tf.float64, [2, 3, 3], name='b')
print(tf.linalg.expm(a), tf.linalg.expm(b, name='e'))
print(tf.gradients(tf.linalg.expm(a), a))
print(tf.linalg.expm(tf.placeholder(tf.complex64, [None, 2, 2])))
print(tf.linalg.expm(tf.placeholder(tf.float32, [None, None])))
print(tf.linalg.expm(tf.zeros([0, 0])))
try:
    tf.linalg.expm(tf.ones([2, 2], tf.int32))
except Exception as error:
    print(type(error).__name__, error)
