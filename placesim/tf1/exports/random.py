"""Random tensors, clipping."""

ROWS = {
    "random.stateless": (
        "random.stateless_uniform=stateless_random_uniform random.stateless_normal=stateless_random_normal "
        "random.stateless_truncated_normal=stateless_truncated_normal random.stateless_multinomial "
        "random.stateless_categorical random.stateless_poisson=stateless_random_poisson "
        "random.stateless_binomial=stateless_random_binomial random.stateless_parameterized_truncated_normal "
        "random.stateless_gamma=stateless_random_gamma random.experimental.stateless_shuffle "
        "random.fold_in=stateless_fold_in "
        "random.experimental.stateless_fold_in random.split=stateless_split random.experimental.stateless_split "
        "random.Algorithm random.experimental.Algorithm"
    ),
    "random.drawing": (
        "random_normal random.normal=random_normal truncated_normal random.truncated_normal=truncated_normal random_uniform "
        "random.uniform=random_uniform random_shuffle random.shuffle=random_shuffle random_crop image.random_crop=random_crop "
        "random.crop=random_crop multinomial random.multinomial=multinomial random.categorical random_gamma "
        "random.gamma=random_gamma random_poisson random.poisson=random_poisson"
    ),
    "clipping": "clip_by_value clip_by_norm clip_by_average_norm global_norm clip_by_global_norm linalg.global_norm",
}
