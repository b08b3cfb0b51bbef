import tensorflow.compat.v1 as tf
def show(g=None):
    for o in tf.get_default_graph().get_operations(): print(o.name, o.type, [i.name for i in o.inputs], [i.name for i in o.control_inputs])
v = tf.Variable([1., 2.], name="v")
opt = tf.train.GradientDescentOptimizer(0.1)
train = opt.minimize(tf.reduce_sum(v * v))
with tf.control_dependencies([train]):
    r = tf.identity(v); s = v.read_value(); q = tf.group(v, train)
with tf.control_dependencies([v, train, v.op, v.initializer]):
    r2 = tf.identity(v, name="r2")
b = tf.Variable(v.initialized_value() * 2., name="b")
with tf.control_dependencies([b.initializer, v.initializer, train, r, s]):
    z = tf.no_op("z"); y = tf.constant(3., name="y"); k = tf.add(y, b, name="k")
ema = tf.train.ExponentialMovingAverage(0.9)
with tf.control_dependencies([train]):
    m = ema.apply([v, b])
show()
