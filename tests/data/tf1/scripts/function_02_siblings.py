import tensorflow.compat.v1 as tf

tf.enable_control_flow_v2()
x = tf.placeholder(tf.float32, [2], name='x')
p = tf.placeholder(tf.bool, [], name='p')
leak = []


def first():
    leak.append(x * 2.0)
    return leak[-1]


def show(make):
    try:
        print(make())
    except ValueError as error:
        print(type(error).__name__, str(error).split('(graphs are')[0])


show(lambda: tf.cond(p, first, lambda: leak[0] + 1.0))
show(lambda: tf.cond(p, lambda: x, lambda: leak[0]))
leak.clear()
show(lambda: tf.switch_case(tf.constant(1), [first, lambda: leak[0], lambda: x]))
