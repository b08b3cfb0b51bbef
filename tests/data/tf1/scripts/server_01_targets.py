import tensorflow.compat.v1 as tf
c = tf.train.ClusterSpec({"ps": ["127.0.0.1:23321"], "worker": ["localhost:23322", "LOCALHOST:23323"]})
for j, i in (("ps", 0), ("worker", 0), ("worker", 1)):
    s = tf.train.Server(c, job_name=j, task_index=i, start=False); print(s.target)
s = tf.train.Server(c, job_name="worker", task_index=1, start=False, config=tf.ConfigProto()); print(s.target, s.server_def)
