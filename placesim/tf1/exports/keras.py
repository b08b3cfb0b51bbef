"""`tf.keras` in graphs."""

from __future__ import annotations


def _under(prefixes: str, names: str) -> str:
    return " ".join(f"keras.{prefix}{name}" for prefix in prefixes.split(",") for name in names.split())


_LAYERS = (
    "Dense Dropout Flatten BatchNormalization Conv1D Conv2D Conv3D Convolution1D Convolution2D Convolution3D "
    "Conv2DTranspose Conv3DTranspose Convolution2DTranspose Convolution3DTranspose SeparableConv2D SeparableConvolution2D "
    "MaxPooling1D MaxPooling2D MaxPooling3D MaxPool1D MaxPool2D MaxPool3D AveragePooling1D AveragePooling2D AveragePooling3D "
    "AvgPool1D AvgPool2D AvgPool3D Activation Lambda Reshape Permute ZeroPadding2D UpSampling2D LeakyReLU ReLU ELU Softmax "
    "GlobalAveragePooling1D GlobalAveragePooling2D GlobalAvgPool1D GlobalAvgPool2D GlobalMaxPooling1D GlobalMaxPooling2D "
    "GlobalMaxPool1D GlobalMaxPool2D Concatenate Add Multiply Subtract Maximum Minimum add multiply subtract maximum minimum "
    "concatenate Embedding Masking"
)
_BACKEND = (
    "learning_phase set_learning_phase epsilon floatx image_data_format int_shape ndim dtype placeholder sum mean max min prod "
    "abs exp log sqrt square sign round sin cos tanh sigmoid softplus softsign equal not_equal greater greater_equal less "
    "less_equal maximum minimum reshape transpose squeeze stop_gradient shape cast name_scope update update_add update_sub pow "
    "relu softmax clip dot concatenate expand_dims flatten argmax argmin stack get_session set_session clear_session "
    "in_train_phase hard_sigmoid"
)

ROWS = {
    "keras.keras_layer": _under("layers.", "Layer InputLayer"),
    "keras.layers": _under("layers.", _LAYERS),
    "keras.recurrent": _under("layers.", "RNN LSTM LSTMCell GRU GRUCell SimpleRNN SimpleRNNCell StackedRNNCells")
    + "".join(f" compat.v2.keras.layers.{name}={name}V2" for name in ("LSTM", "LSTMCell", "GRU", "GRUCell")),
    "keras.wrappers": _under("layers.", "Bidirectional TimeDistributed"),
    "keras.models": _under(",models.", "Sequential Model") + " " + _under(",layers.", "Input"),
    "keras.steps": _under("backend.", "rnn"),
    "keras.backend": _under("backend.", _BACKEND),
    "keras.regularizers": _under("regularizers.", "Regularizer L1 L2 L1L2 l1 l2 l1_l2 get"),
    "keras.activations": _under(
        "activations.", "elu exponential hard_sigmoid linear relu selu sigmoid softmax softplus softsign swish tanh get"
    ),
    "keras.custom_objects": _under("utils.", "get_custom_objects custom_object_scope CustomObjectScope"),
    "keras.arrays": _under("utils.", "to_categorical normalize"),
}
