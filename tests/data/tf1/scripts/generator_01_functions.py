import tensorflow.compat.v1 as tf, numpy as np
def gen():
    for i in range(5): yield i, [i] * 2
ds = tf.data.Dataset.from_generator(gen, (tf.int64, tf.float32), (tf.TensorShape([]), tf.TensorShape([None])))
it = tf.data.make_one_shot_iterator(ds.repeat(2).padded_batch(2, ([], [None])))
n = it.get_next()
it2 = tf.data.make_initializable_iterator(ds.map(lambda a, b: (a + 1, b * 2)))
n2 = it2.get_next()
def g2(k):
    for i in range(k): yield i
ds3 = tf.data.Dataset.from_generator(g2, tf.int32, args=(3,))
n3 = tf.data.make_initializable_iterator(ds3); nn3 = n3.get_next()
ds5 = tf.data.Dataset.from_generator(g2, tf.int32, [], args=(3,)); ds6 = tf.data.Dataset.from_generator(g2, tf.int32, tf.TensorShape(None), args=(3,)); ds7 = tf.data.Dataset.from_generator(g2, (tf.int32,), args=(3,)); i7 = tf.data.make_one_shot_iterator(tf.data.Dataset.range(3)); [tf.data.make_initializable_iterator(d) for d in (ds5, ds6, ds7)]
ds4 = tf.data.Dataset.from_generator(lambda: iter([{"a": 1, "b": b"x"}]), {"a": tf.int32, "b": tf.string})
print(ds4)
n4 = tf.data.make_initializable_iterator(ds4); nn4 = n4.get_next()
with tf.Session() as s:
    for _ in range(2): print([x.tolist() for x in s.run(n)])
    s.run([it2.initializer, n3.initializer, n4.initializer]); print(s.run(n2)); print(s.run(nn3), s.run(nn4))
    for _ in range(2): print(s.run(nn3))
    try: s.run(nn3)
    except tf.errors.OutOfRangeError as e: print(e.message.split()[-8:])
