import tensorflow.compat.v1 as tf
x = tf.placeholder(tf.float32, [2]); p = x[0] > 0
v = tf.get_variable("v", [2]); r = tf.get_variable("r", [2], use_resource=True); part = tf.get_variable("q", [4, 2], partitioner=tf.fixed_size_partitioner(2))
with tf.control_dependencies([x]):
    z = tf.no_op("z")
    with tf.control_dependencies([v, r, z]):
        a = tf.add(x, v); b = tf.add(v, r); c = tf.group(a, b, v, r); d = tf.group(a, v.initializer, name="grp")
        w = tf.Variable([3.], name="w"); u = tf.get_variable("u", [2], use_resource=True, initializer=tf.zeros_initializer())
        k = tf.Variable(lambda: x[0] * 2., name="k", use_resource=True); kk = tf.Variable(w.initialized_value(), name="kk")

        n = tf.while_loop(lambda i: i < 3, lambda i: i + tf.cast(v[0], tf.int32), [0])
        ass = v.assign(x); ras = r.assign(x); ra = r.assign_add(x); rr = r.read_value(); vv = v.read_value(); sc = tf.scatter_update(v, [0], [1.]); rsc = tf.scatter_add(r, [0], [1.])
        t = tf.tuple([a, b], control_inputs=[c]); wd = tf.identity(part)
try:
    with tf.control_dependencies([part]): tf.no_op()
except Exception as e: print(type(e).__name__, e)
try:
    with tf.control_dependencies(list(part)): tf.no_op(name="pp")
except Exception as e: print(type(e).__name__, e)
with tf.control_dependencies([tf.IndexedSlices(x, [0, 1]), tf.SparseTensor([[0]], [1.], [2])]) if False else tf.control_dependencies([tf.IndexedSlices(x, tf.constant([0, 1]))]): tf.no_op(name="sl")
o = tf.train.AdamOptimizer(0.1); tr = o.minimize(tf.reduce_sum(v * r) + tf.reduce_sum(wd), global_step=tf.train.get_or_create_global_step())
with tf.control_dependencies([tr, v, c]): ema = tf.train.ExponentialMovingAverage(.9).apply([v, r])
with tf.control_dependencies([ema]): fin = tf.group(tr, c, ema)
asr = tf.assert_equal(x, v, message="m")
with tf.control_dependencies([asr, z, v]): y = tf.identity(x)
h = tf.layers.batch_normalization(tf.ones([2, 3]), training=True)
with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)): y = tf.train.GradientDescentOptimizer(.1).minimize(tf.reduce_sum(h))
for op in tf.get_default_graph().get_operations(): print(op.name, [i.name for i in op.inputs], [i.name for i in op.control_inputs])
