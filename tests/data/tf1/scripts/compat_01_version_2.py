import tensorflow.compat.v1 as tf1
import tensorflow.compat.v2 as tf

x = tf1.placeholder(tf.float32, [2, 3])


def show(make):
    try:
        print(make())
    except Exception as error:
        print(type(error).__name__)


show(lambda: tf.ones_like(input=x))
show(lambda: tf.zeros_like(input=x, dtype=tf.int32, name='z'))
show(lambda: tf.ones_like(tensor=x))
show(lambda: tf.reduce_sum(input_tensor=x, axis=0, keepdims=True))
show(lambda: tf.nn.dropout(x, rate=0.5, seed=3))
show(lambda: tf.argmax(input=x, axis=1))
show(lambda: tf.expand_dims(input=x, axis=0))
show(lambda: tf.where(condition=x > 0, x=x, y=0.0))
show(lambda: tf.where(x > 0))
show(lambda: tf.nn.softmax_cross_entropy_with_logits(labels=x, logits=x))
show(lambda: tf.Variable([1.0], name='v'))
show(lambda: tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0]))
show(lambda: tf.math.log(x))
show(lambda: tf.compat.v1.placeholder is tf1.placeholder)
y = tf1.placeholder(tf.float32, [None, 3])
show(lambda: tf.ones_like(y))
show(lambda: tf.ones_like(y, tf.int32))
