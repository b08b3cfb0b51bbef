import tensorflow.compat.v1 as tf, numpy as np
i = tf.placeholder(tf.int32, [3]); f = tf.placeholder(tf.float32, [3]); s = tf.placeholder(tf.string, [3]); b = tf.placeholder(tf.bool, [3]); m = tf.placeholder(tf.float32, [2, 3])
v = tf.Variable([1., 2., 3.]); r = tf.get_variable("r", [3], use_resource=True); part = tf.get_variable("q", [3, 2], partitioner=tf.fixed_size_partitioner(3))
import operator as o
ops = [o.add, o.sub, o.mul, o.truediv, o.floordiv, o.mod, o.pow, o.and_, o.or_, o.xor, o.matmul, o.lt, o.ge]
vals = [f, b, v, r, 2, 2.5, True, "a", np.float32(1), np.arange(3), [1, 2, 3], m.shape[0], m.shape]
for x in (i, b, f):
    for y in vals:
        for op in ops:
            for p, q in ((x, y), (y, x)):
                if p is q: continue
                try: print(type(p).__name__, op.__name__, type(q).__name__, op(p, q))
                except Exception as e: print(type(p).__name__, op.__name__, type(q).__name__, type(e).__name__, str(e)[:300])
