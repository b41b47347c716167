"""Files of classifiers and of point processes."""

from __future__ import annotations

import json
import re
import zipfile

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import asvgp
from asvgp import Constant, CoxProcess, GPClassifier, Matern32, ModelFileError
from asvgp.saving.model_file import read, write

RNG = np.random.default_rng(0)
X = RNG.uniform(0.0, 10.0, 300)
LEVEL = np.sin(X) + 0.3 * RNG.standard_normal(300)
LABELS = {
    "text": np.where(LEVEL > 0.0, "wet", "dry"),
    "booleans": LEVEL > 0.0,
    "numbers": np.where(LEVEL > 0.0, 7, -3),
    "doubles": np.where(LEVEL > 0.0, 2.0, -3.0),
    "three": np.array(["a", "ä", "ccc"])[np.digitize(LEVEL, [-0.5, 0.5])],
}


def classifier(labels):
    """Return a fitted classifier."""
    return GPClassifier(Matern32(2.0) + Constant(), num_basis=12).fit(X, labels)


@pytest.mark.parametrize("kind", LABELS)
def test_classifiers_come_back_with_their_labels(kind, tmp_path):
    gp, places = classifier(LABELS[kind]), np.linspace(-1.0, 11.0, 40)
    gp.save(tmp_path / "classes.asvgp")
    again = asvgp.load(tmp_path / "classes.asvgp")
    assert isinstance(again, GPClassifier)
    assert again.get_params() == gp.get_params()
    assert again.classes_.dtype == gp.classes_.dtype
    np.testing.assert_array_equal(again.classes_, gp.classes_)
    np.testing.assert_array_equal(again.predict(places), gp.predict(places))
    np.testing.assert_array_equal(again.predict_proba(places), gp.predict_proba(places))
    again.partial_fit(X[:5], LABELS[kind][:5])  # and learns on


def test_processes_come_back_with_their_windows(tmp_path):
    events = np.datetime64("2024-01-01") + (np.sort(X) * 86400).astype("timedelta64[s]")
    windows = [("2024-01-01", "2024-01-06"), ("2024-01-06", "2024-01-12")]
    cox = CoxProcess(Matern32() + Constant(), windows=windows, num_basis=20).fit(events)
    cox.save(tmp_path / "events.asvgp")
    again = asvgp.load(tmp_path / "events.asvgp")
    assert isinstance(again, CoxProcess)
    assert (again.events_, again.n_features_in_) == (300, 1)
    assert again.windows_ == cox.windows_
    np.testing.assert_array_equal(
        again.intensity(events, per="1 day"), cox.intensity(events, per="1 day")
    )
    ends = "2024-01-02", "2024-01-09"
    assert again.expected_count(*ends) == cox.expected_count(*ends)
    for one, other in zip(again.sample(2, 0), cox.sample(2, 0), strict=True):
        np.testing.assert_array_equal(one, other)


def test_processes_of_two_inputs_come_back(tmp_path):
    places = RNG.uniform(0.0, 1.0, (200, 2))
    kernel = Matern32(0.5, dim=0) * Matern32(0.5, dim=1) + Constant()
    domain = ((0.0, 1.0), (0.0, 1.0))
    cox = CoxProcess(kernel, domain=domain, num_basis=6, optimizer=None).fit(places)
    cox.save(tmp_path / "places.asvgp")
    again = asvgp.load(tmp_path / "places.asvgp")
    np.testing.assert_array_equal(again.intensity(places), cox.intensity(places))
    np.testing.assert_array_equal(again.sample(1, 0)[0], cox.sample(1, 0)[0])


def test_what_a_file_cannot_hold_is_said(tmp_path):
    cox = CoxProcess(domain=(0.0, 10.0), exposure=np.ones_like, num_basis=8).fit(X)
    with pytest.raises(TypeError, match="holds no functions, and exposure is one"):
        cox.save(tmp_path / "events.asvgp")
    for nothing in (CoxProcess(), GPClassifier()):
        with pytest.raises(NotFittedError, match="Call fit"):
            nothing.save(tmp_path / "nothing.asvgp")
    assert not list(tmp_path.iterdir())


def altered(path, change):
    """Write a file again with another text, and the checksum that belongs to it."""
    model, arrays = read(path)
    model = json.loads(json.dumps(model))
    change(model)
    write(path, model, arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: model.update(estimator="Pickle"), "'Pickle' is no estimator"),
        (lambda model: model["classes"].update(values=["wet", "dry"]), "are not sorted"),
        (lambda model: model["classes"].update(values=["wet"]), "are not sorted, or not several"),
        (lambda model: model["classes"].update(values=["dry", 3]), "are not of kind"),
        (lambda model: model["classes"].update(values=["a", "b", "c"]), "1 models for 3 labels"),
        (lambda model: model.pop("classes"), "classes"),
        (lambda model: model["parts"].clear(), "0 models for 2 labels"),
        (lambda model: model["settings"].update(link="cauchy", further=1), "further"),
    ],
)
def test_altered_files_are_refused(change, message, tmp_path):
    path = tmp_path / "classes.asvgp"
    classifier(LABELS["text"]).save(path)
    altered(path, change)
    with pytest.raises(ModelFileError, match=re.escape(str(path)) + " contradicts itself") as found:
        asvgp.load(path)
    assert message in str(found.value)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "classes.asvgp"
    classifier(LABELS["text"]).save(path)
    with zipfile.ZipFile(path) as archive:
        assert all(name.endswith((".npy", ".json")) for name in archive.namelist())
    whole = path.read_bytes()
    for cut in (10, len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:cut])
        with pytest.raises(ModelFileError):
            asvgp.load(path)
