import tensorflow.compat.v1 as tf
for i in range(40): tf.get_variable("layer_%d/kernel_of_%d" % (i % 7, i * 37), [i % 3])
with tf.Session() as s:
    s.run(tf.global_variables_initializer()); path = tf.train.Saver().save(s, "./m")
r = tf.train.NewCheckpointReader(path)
for k, v in r.get_variable_to_shape_map().items(): print(k, v)
for n in (12, 13, 14, 29, 30):
    p = tf.train.Saver(tf.global_variables()[:n])
    with tf.Session() as s:
        s.run(tf.global_variables_initializer()); path = p.save(s, "./n")
    print(list(tf.train.load_checkpoint(path).get_variable_to_dtype_map()))
