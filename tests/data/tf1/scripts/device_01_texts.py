import tensorflow.compat.v1 as tf
def p(*a): print(*a)
with tf.device('/gpu:4'):
    v = tf.get_variable("v", [2]); r = tf.get_variable("r", [2], use_resource=True); x = tf.placeholder(tf.float32, [2]); y = v * x
    p(v.device, r.device, y.device, v.op.device, v.initializer.device)
    with tf.device('/cpu:0'): z = tf.identity(y); p(z.device)
    with tf.device(None): z = tf.identity(y); p(z.device)
    with tf.device('/job:worker'): z = tf.identity(y); p(z.device)
with tf.device(tf.train.replica_device_setter(ps_tasks=2, worker_device='/gpu:4')):
    a = tf.get_variable("a", [2]); b = a * 2; p(a.device, b.device)
with tf.device(tf.train.replica_device_setter(ps_tasks=2, worker_device='/job:worker/gpu:4', ps_device='/job:ps/cpu:0')):
    a = tf.get_variable("a1", [2]); b = a * 2; p(a.device, b.device)
c = tf.get_variable("c", [2], caching_device='/gpu:4'); p(c.device, c.value().device)
d = tf.get_variable("d", [2], caching_device=lambda op: '/gpu:4'); p(d.device, d.value().device)
p(tf.DeviceSpec.from_string('/gpu:4').to_string(), tf.DeviceSpec.from_string('/job:a/gpu:4').to_string())
b.op._set_device('/gpu:4'); p(b.device)
g = tf.gradients(y, v, colocate_gradients_with_ops=True); p(g[0].device)
def f(op): return '/gpu:4' if op.type == 'MatMul' else '/cpu:0'
with tf.device(f): m = tf.matmul(tf.ones([2, 2]), tf.ones([2, 2])); p(m.device, m.op.inputs[0].device)
def f(n): return '/gpu:%d' % 4
with tf.device(f): m = tf.ones([2]); p(m.device)
with tf.device(f):
    with tf.device('/job:w'): m = tf.ones([2]); p(m.device)
with tf.device('/job:w'):
    with tf.device(f): m = tf.ones([2]); p(m.device)
gd = tf.get_default_graph().as_graph_def()
h = tf.Graph()
with h.as_default():
    with tf.device('/gpu:5'): tf.import_graph_def(gd, name="")
    p([n.device for n in h.as_graph_def().node])
with tf.colocate_with(v): q = tf.zeros([2]); p(q.device)
with tf.device('/gpu:4'):
    with tf.colocate_with(a): q = tf.zeros([2]); p(q.device)
    q = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0]); p(q.device)
    q = tf.cond(x[0] > 0, lambda: x, lambda: x * 2); p(q.device)
    l = tf.layers.dense(tf.ones([2, 3]), 4); p(l.device, tf.trainable_variables()[-1].device)
    s = tf.train.Saver([v]); o = tf.train.MomentumOptimizer(.1, .9); t = o.minimize(tf.reduce_sum(y)); p(o.get_slot(v, 'momentum').device)
    bm = tf.get_variable("part", [4, 2], partitioner=tf.fixed_size_partitioner(2)); p([u.device for u in bm])
with tf.device('/device:GPU:4'):
  with tf.device('/cpu:*'): p(tf.zeros([2]).device)
try:
  with tf.device('gpu4'): p(tf.zeros([2]).device)
except Exception as e: print(type(e).__name__, e)
try:
  with tf.device('/gpu:x'): p(tf.zeros([2]).device)
except Exception as e: print(type(e).__name__, e)
try:
  with tf.device(4): p(tf.zeros([2]).device)
except Exception as e: print(type(e).__name__, e)
