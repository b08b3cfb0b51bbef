import tensorflow.compat.v1 as tf

x = tf.placeholder(tf.float32, [2], name='x')
v = tf.Variable(1.0, name='v')
y = tf.reshape(x, [3], name='y') if False else tf.check_numerics(x, 'bad', name='y')
g = tf.gather([1, 2], tf.placeholder_with_default(5, [], name='i'), name='g')


def show(fetch, feed=None):
    try:
        session.run(fetch, feed)
    except tf.errors.OpError as error:
        lines = error.message.splitlines()
        print(type(error).__name__, [line for line in lines if not line.startswith('    File ')])
        print(str(error).splitlines()[0], error.op and error.op.name)


with tf.Session() as session:
    show(v)
    show(v + 1.0)
    show(x)
    show(y, {x: [float('nan'), 1.0]})
    show(g)
    with tf.device('/gpu:4'):
        show(tf.identity(x, name='far'), {x: [1.0, 2.0]})
