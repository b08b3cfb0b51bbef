"""Writes `tests/data/onnx-sklearn`: pipelines of scikit-learn that skl2onnx converted, and what ONNX Runtime makes of them.

`python -m tests.formats.onnx.sklearn_exports` where scikit-learn, skl2onnx and onnxruntime are installed; no test needs
them.  Each is `NAME.onnx` and `NAME.npz`, which holds its inputs and outputs by their names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[2] / "data" / "onnx-sklearn"
ROWS = 12


def pipelines() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Fitted pipelines, and the inputs of each by name."""
    from sklearn import (
        compose,
        datasets,
        decomposition,
        ensemble,
        impute,
        linear_model,
        naive_bayes,
        neighbors,
        neural_network,
        preprocessing,
        svm,
        tree,
    )
    from sklearn.pipeline import make_pipeline

    x, classes = datasets.make_classification(60, 5, n_informative=4, n_redundant=1, n_classes=3, random_state=1)
    x = x.astype(np.float32)
    two, words, target = classes > 0, np.array(["cat", "dog", "emu"])[classes], x[:, 0] * 2 + x[:, 1] ** 2
    gaps = np.where(np.arange(x.size).reshape(x.shape) % 7, x, np.nan).astype(np.float32)
    scaled = preprocessing.StandardScaler
    numbers = {
        "logistic": (linear_model.LogisticRegression(), words),
        "logistic-two": (linear_model.LogisticRegression(), two),
        "sgd": (linear_model.SGDClassifier(random_state=0), classes),
        "tree": (tree.DecisionTreeClassifier(max_depth=4, random_state=0), two),
        "forest": (ensemble.RandomForestClassifier(4, max_depth=4, random_state=0), words),
        "boosting": (ensemble.GradientBoostingClassifier(n_estimators=4, random_state=0), classes),
        "boosting-two": (ensemble.GradientBoostingClassifier(n_estimators=4, random_state=0), two),
        "ada": (ensemble.AdaBoostClassifier(n_estimators=3, random_state=0), classes),
        "svc": (svm.SVC(), classes),
        "svc-two": (svm.SVC(kernel="poly"), two),
        "svc-probability": (svm.SVC(probability=True, random_state=0), words),
        "neighbours": (neighbors.KNeighborsClassifier(3), classes),
        "bayes": (naive_bayes.GaussianNB(), classes),
        "network": (neural_network.MLPClassifier((6,), max_iter=30, random_state=0), two),
        "linear": (linear_model.LinearRegression(), target),
        "forest-of-numbers": (ensemble.RandomForestRegressor(4, max_depth=4, random_state=0), target),
        "boosting-of-numbers": (ensemble.GradientBoostingRegressor(n_estimators=4, random_state=0), target),
        "svr": (svm.SVR(), target),
        "svr-sigmoid": (svm.SVR(kernel="sigmoid"), target),
        "isolation": (svm.OneClassSVM(), None),
    }
    made = {name: (make_pipeline(scaled(), model).fit(x, y), {"x": x[:ROWS]}) for name, (model, y) in numbers.items()}
    steps = {
        "imputer": (make_pipeline(impute.SimpleImputer(), preprocessing.Normalizer()), gaps),
        "largest": (make_pipeline(preprocessing.MinMaxScaler(), preprocessing.Normalizer("max")), x),
        "binary": (make_pipeline(preprocessing.RobustScaler(), preprocessing.Binarizer(threshold=0.3)), x),
        "components": (make_pipeline(preprocessing.PolynomialFeatures(2), decomposition.PCA(3)), x),
        "bins": (preprocessing.KBinsDiscretizer(3, encode="onehot-dense"), x),
    }
    made |= {name: (step.fit(given), {"x": given[:ROWS]}) for name, (step, given) in steps.items()}
    places = np.array([["a", "x"], ["b", "y"], ["c", "x"], ["a", "y"]] * 15)
    columns = compose.ColumnTransformer(
        [("place", preprocessing.OneHotEncoder(), [0, 1]), ("rank", preprocessing.OrdinalEncoder(), [0])]
    )
    made["places"] = (make_pipeline(columns, linear_model.LogisticRegression()).fit(places, words), {"x": places[:ROWS]})
    return made


def main() -> None:
    """Writes every pipeline."""
    import onnxruntime
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    FOLDER.mkdir(exist_ok=True)
    for name, (pipeline, inputs) in pipelines().items():
        given = inputs["x"].astype(object) if inputs["x"].dtype.kind == "U" else inputs["x"]
        kind = (StringTensorType if given.dtype == object else FloatTensorType)([None, given.shape[1]])
        data = convert_sklearn(pipeline, name, [("x", kind)]).SerializeToString()
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        outputs = zip([output.name for output in session.get_outputs()], session.run(None, {"x": given}), strict=True)
        found = {f"output:{key}": _array(value) for key, value in outputs}
        (FOLDER / f"{name}.onnx").write_bytes(data)
        np.savez_compressed(FOLDER / f"{name}.npz", **{"input:x": inputs["x"], **found})


def _array(value: Any) -> Any:
    """Maps of scores are rows of a matrix, whose columns are the labels in their order."""
    rows = np.array([list(row.values()) for row in value], np.float32) if isinstance(value, list) else value
    return rows.astype(str) if rows.dtype == object else rows


if __name__ == "__main__":
    main()
