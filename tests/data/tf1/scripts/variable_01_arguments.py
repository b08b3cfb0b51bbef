import tensorflow.compat.v1 as tf
v = tf.Variable([1.], tf.float32)
print(v.trainable)
w = tf.Variable(tf.zeros([2]), tf.float32, name="w")
r = tf.Variable(tf.zeros([2]), tf.float32, use_resource=True, name="rr")
k = tf.Variable(1, "a", name="kk"); z = tf.Variable(1, 0, name="zz"); f = tf.Variable(1, tf.bool, name="ff"); h = tf.Variable(1., tf.half, name="hh"); n = tf.Variable(1., None, name="nn")
for q in (v, w, r, k, z, f, h, n):
    print(q.trainable, q in tf.trainable_variables())
g = tf.get_variable("g", [2], trainable=tf.float32)
print(g.trainable)
m = tf.train.export_meta_graph()
print({k: len(x.bytes_list.value) for k, x in m.collection_def.items()})
print(tf.get_collection("variables")[0] is v, [q.name for q in tf.get_collection("trainable_variables")])
for a in (lambda: tf.Variable([1.], tf.float32, tf.float32), lambda: tf.Variable([1.], True, "x"), lambda: tf.Variable(1., True, ["a"], True), lambda: tf.Variable(1., collections="x"), lambda: tf.Variable(), lambda: tf.Variable(None), lambda: tf.Variable("a", tf.string), lambda: tf.Variable(1., dtype=tf.int32), lambda: tf.Variable([[1], [2, 3]]), lambda: tf.Variable(1., [1]), lambda: tf.Variable(tf.placeholder(tf.float32), tf.float32), lambda: tf.Variable(1., validate_shape=tf.float32), lambda: tf.Variable([1], tf.float32, use_resource=True, validate_shape=tf.float32)):
    try: print(a())
    except Exception as e: print(type(e).__name__, e)
