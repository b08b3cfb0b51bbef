import tensorflow.compat.v1 as tf
from google.protobuf import text_format
def t(text, dev=None, coloc=False):
    g = tf.GraphDef(); text_format.Parse(text, g)
    with tf.Graph().as_default() as h:
        try:
            with tf.device(dev):
                if coloc:
                    with tf.device('/cpu:1'): z = tf.zeros([], name="z")
                    with tf.colocate_with(z): tf.import_graph_def(g, name="")
                else: tf.import_graph_def(g, name="")
        except Exception as e: print(type(e).__name__, e)
        for n in h.as_graph_def().node: print(n.name, repr(n.device), n.attr["_class"].list.s)
text = '''
node { name: "a" op: "Placeholder" device: "/gpu:4" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "_class" value { list { s: "loc:@c" } } } }
node { name: "b" op: "Identity" input: "a" device: "/cpu:0" attr { key: "T" value { type: DT_FLOAT } } attr { key: "_class" value { list { s: "loc:@a" s: "loc:@d" } } } }
node { name: "c" op: "Identity" input: "a" device: "/gpu:5" attr { key: "T" value { type: DT_FLOAT } }  }
node { name: "d" op: "Identity" input: "b" device: "/job:w" attr { key: "T" value { type: DT_FLOAT } }  }
node { name: "e" op: "Identity" input: "b" device: "/job:w" attr { key: "T" value { type: DT_FLOAT } } attr { key: "_class" value { list { s: "loc:@e" } } } }
node { name: "f" op: "Identity" input: "b" device: "/job:w" attr { key: "T" value { type: DT_FLOAT } } attr { key: "_class" value { list { s: "other" } } } }
'''
t(text); t(text, '/gpu:7'); t(text, coloc=True); t(text.replace("loc:@d", "loc:@zz"))
t(text.replace("loc:@c", "loc:@zz"), '/gpu:3')
