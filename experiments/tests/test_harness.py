"""The experiments' harness: data, splits, scores, methods in processes of their own."""

import gzip
import re
import shutil
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from experiments.harness import datasets, downloads, environments, process
from experiments.harness.datasets import Dataset, Missing
from experiments.harness.process import METHODS, Method
from experiments.harness.scores import scores
from experiments.harness.splits import Split, split

# ---------------------------------------------------------------- data

AIR = """Date;Time;CO(GT);C6H6(GT);;
10/03/2004;18.00.00;2,6;11,9;;
10/03/2004;19.00.00;2;-200;;
11/03/2004;00.00.00;2,2;9,0;;
;;;;;
"""
TRAFFIC = """temp,date_time,traffic_volume
288.3,2012-10-02 09:00:00,5545
289.4,2012-10-02 10:00:00,4516
289.4,2012-10-03 10:00:00,1
"""
PRESSURE = "No,year,pm2.5,PRES\n1,2010,NA,1021\n2,2010,NA,1020.5\n3,2010,129,1019\n"
POWER = """Date;Time;Global_active_power;Voltage
16/12/2006;17:24:00;4.216;234.8
16/12/2006;17:25:00;?;
17/12/2006;17:24:00;0.5;230.0
"""
SOURCES = {
    "360/air+quality.zip": ("AirQualityUCI.csv", AIR.encode()),
    "492/metro+interstate+traffic+volume.zip": (
        "Metro_Interstate_Traffic_Volume.csv.gz",
        gzip.compress(TRAFFIC.encode()),
    ),
    "381/beijing+pm2+5+data.zip": ("PRSA_data_2010.1.1-2014.12.31.csv", PRESSURE.encode()),
    "235/individual+household+electric+power+consumption.zip": (
        "household_power_consumption.txt",
        POWER.encode(),
    ),
}


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A folder that stands for UCI's server; no data of the user's."""
    folder = tmp_path / "source"
    for address, (name, content) in SOURCES.items():
        path = folder / address
        path.parent.mkdir(parents=True)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, content)
    monkeypatch.setenv("ASVGP_SOURCE", folder.as_uri() + "/")
    monkeypatch.setenv("ASVGP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ASVGP_DATA", raising=False)
    return folder


@pytest.mark.parametrize(
    "name, x, y",
    [
        ("air quality", [0.0, 6.0], [11.9, 9.0]),
        ("traffic", [0.0, 1.0, 25.0], [5545.0, 4516.0, 1.0]),
        ("pressure", [0.0, 1.0, 2.0], [1021.0, 1020.5, 1019.0]),
        ("household", [0.0, 1440.0], [4.216, 0.5]),
    ],
)
def test_data_of_uci_are_downloaded_once(source, name, x, y):
    data = datasets.load(name)
    assert data.x[:, 0].tolist() == x
    assert data.y.tolist() == y
    shutil.rmtree(source)
    assert datasets.load(name).y.tolist() == y  # from the cache


def test_the_users_folder_comes_first(source, tmp_path, monkeypatch):
    monkeypatch.setenv("ASVGP_DATA", str(tmp_path))
    np.savez(tmp_path / "metro_traffic.npz", hour=np.arange(2), traffic_volume=[7, np.nan])
    assert datasets.load("traffic").y.tolist() == [7.0]
    assert len(datasets.load("pressure").y) == 3  # not in the folder: downloaded


@pytest.mark.parametrize("damage", ["absent", "no archive", "another table"])
def test_a_failed_download_says_what_and_leaves_nothing(source, tmp_path, damage):
    path = source / "360/air+quality.zip"
    path.unlink()
    if damage == "no archive":
        path.write_text("<html>moved</html>")
    if damage == "another table":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("AirQualityUCI.csv", "Date;Time\n10/03/2004;18.00.00\n")
    said = r"air_quality\.npz is missing.*downloading \S*360/air\+quality\.zip failed \(\w+: "
    with pytest.raises(Missing, match=said):
        datasets.load("air quality")
    assert not list(tmp_path.glob("cache/*"))


@pytest.mark.parametrize("folder", ["set", "not there", "not set"])
@pytest.mark.parametrize("name", datasets.NAMES)
def test_every_data_set_that_is_missing_says_where_it_is_and_what_to_set(
    source, tmp_path, monkeypatch, name, folder
):
    shutil.rmtree(source)  # no server answers
    if folder != "not set":
        monkeypatch.setenv("ASVGP_DATA", str(tmp_path / ("" if folder == "set" else "nowhere")))
    if name == "synthetic":
        assert len(datasets.load(name).y) == 10_000  # made, not got
        return
    with pytest.raises(Missing) as caught:
        datasets.load(name)
    said = str(caught.value)
    assert re.search(r"Its source: .*https://\S+\.\w+/\S+", said)
    assert "set ASVGP_DATA to the folder" in said
    assert "experiments/README.md" in said
    assert ("lacks it" in said) == (folder == "set")
    assert ("does not exist" in said) == (folder == "not there")
    assert str(tmp_path / "nowhere") not in said  # it goes onto pages
    if folder == "not set":
        assert "ASVGP_DATA is not set" in said


def test_the_readme_says_what_each_file_holds(monkeypatch):
    text = (environments.ROOT / "experiments" / "README.md").read_text()
    asked = []

    class Any(dict):  # has every array, and notes which were wanted
        def __missing__(self, key):
            asked.append(key)
            return np.zeros((1, 1, 1))

    def arrays(file, source):
        asked.append(f"{file}.npz")
        return Any()

    monkeypatch.setattr(datasets, "arrays", arrays)
    for name in datasets.NAMES:
        asked.clear()
        with suppress(IndexError, ValueError):
            datasets.load(name)
        lines = [line for line in text.splitlines() if asked and f"`{asked[0]}`" in line]
        assert name == "synthetic" or (lines and all(f"`{key}`" in lines[0] for key in asked)), name


def test_a_file_that_is_damaged_or_lacks_an_array_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("ASVGP_DATA", str(tmp_path))
    (tmp_path / "metro_traffic.npz").write_bytes(b"PK\x03\x04 cut short")
    with pytest.raises(Missing, match=r"metro_traffic\.npz cannot be read .*https://"):
        datasets.load("traffic")
    np.savez(tmp_path / "metro_traffic.npz", hours=np.arange(2))
    with pytest.raises(Missing, match="has no array 'traffic_volume'; it has hours"):
        datasets.load("traffic")


def test_a_data_set_of_another_name_is_refused():
    with pytest.raises(Missing, match="no data set is called 'x'; there are air quality"):
        datasets.load("x")
    assert downloads.download("us_flights") is None


def test_maps_become_rows_without_their_gaps(tmp_path, monkeypatch):
    monkeypatch.setenv("ASVGP_DATA", str(tmp_path))
    height = np.array([[1, -32768], [3, 4]], dtype=np.int16)
    np.savez(tmp_path / "srtm3_vancouver.npz", lat=[50.0, 49.0], lon=[0.0, 1.0], elev_m=height)
    data = datasets.load("heights")
    assert data.x.tolist() == [[50.0, 0.0], [49.0, 0.0], [49.0, 1.0]]
    assert data.y.tolist() == [1.0, 3.0, 4.0]


# ---------------------------------------------------------------- splits and scores


def example(n=200):
    x = np.arange(n, dtype=float)[:, None]
    return Dataset("example", x, 5.0 + 2.0 * np.sin(x[:, 0] / 9.0), ("t",), "")


def test_splits_take_rows_apart_and_standardise():
    data = example()
    part = split(data, seed=1, train=0.9)
    assert part.size == 180
    assert len(part.y_test) == 20
    both = np.concatenate([part.x, part.x_test])[:, 0]
    assert sorted(both) == data.x[:, 0].tolist()
    assert np.mean(part.y) == pytest.approx(0.0, abs=1e-12)
    assert np.std(part.y) == pytest.approx(1.0)
    slope = np.polyfit(data.y[part.x_test[:, 0].astype(int)], part.y_test, 1)[0]
    assert slope == pytest.approx(1.0 / np.std(data.y[part.x[:, 0].astype(int)]))


def test_splits_depend_on_the_seed_alone():
    data = example()
    assert np.array_equal(split(data, 3).x, split(data, 3).x)
    assert not np.array_equal(split(data, 3).x, split(data, 4).x)
    some = split(data, 3, rows=50)
    assert (some.size, len(some.y_test)) == (45, 5)


def test_a_constant_target_is_not_divided_by_zero():
    data = Dataset("flat", np.zeros((10, 1)), np.full(10, 3.0), ("x",), "")
    assert split(data, 0).y_test.tolist() == [0.0]


def test_scores_agree_with_numerical_integration():
    rng = np.random.default_rng(0)
    y, mean, std = rng.normal(size=7), rng.normal(size=7), rng.uniform(0.3, 2.0, 7)
    found = scores(y, mean, std)

    def crps(value, m, s):
        below = quad(lambda t: norm.cdf(t, m, s) ** 2, m - 40 * s, value, limit=200)[0]
        above = quad(lambda t: norm.sf(t, m, s) ** 2, value, m + 40 * s, limit=200)[0]
        return below + above

    expected = np.mean([crps(*values) for values in zip(y, mean, std, strict=True)])
    assert found["crps"] == pytest.approx(expected, rel=1e-6)
    assert found["nlpd"] == pytest.approx(-np.mean(norm.logpdf(y, mean, std)))
    assert found["mse"] == pytest.approx(np.mean((y - mean) ** 2))


def test_coverage_counts_intervals():
    y = np.array([0.0, 1.95, 1.97, -3.0])
    assert scores(y, np.zeros(4), np.ones(4))["coverage"] == 0.5
    bare = scores(y, np.zeros(4), None)
    assert bare["nlpd"] is bare["crps"] is bare["coverage"] is None


def test_a_split_knows_its_size():
    part = Split("d", 0, np.zeros((3, 1)), np.zeros(3), np.zeros((1, 1)), np.zeros(1))
    assert part.size == 3


# ---------------------------------------------------------------- processes

NO_STD = "standard deviations are missing, or not positive"
MODEL = """
import child
import numpy as np

def fit(x, y, settings):
    {fit}
    return {{"mean": y.mean(), "info": {{"rows": np.int64(len(y)), "word": settings["word"]}}}}

def predict(model, x):
    return {predict}

child.main(fit, predict, versions=["numpy", "nothing-of-that-name"])
"""


@pytest.fixture
def method(tmp_path, monkeypatch):
    """Makes methods from a line of code or two."""
    shutil.copy(METHODS / "child.py", tmp_path)
    monkeypatch.setattr(process, "METHODS", tmp_path)

    def make(fit="pass", predict="np.full(len(x), model['mean']), np.ones(len(x))"):
        (tmp_path / "method.py").write_text(MODEL.format(fit=fit, predict=predict))
        return Method("mean", "method.py", settings={"word": "so"})

    return make


def test_a_method_gives_a_row(method):
    part = split(example(), 0)
    row = process.run(method(), part, limit=60.0, keep=True)
    assert row["method"] == "mean"
    assert row["n"] == 180
    assert row["mse"] == pytest.approx(np.mean(part.y_test**2))
    assert row["info"] == {"rows": 180, "word": "so"}
    assert row["versions"] == {"numpy": np.__version__, "nothing-of-that-name": None}
    assert min(row["fit_seconds"], row["predict_seconds"], row["memory_mib"]) >= 0.0
    assert np.all(row["mean"] == np.mean(part.y))


def test_memory_is_the_method_s_own(method):
    held = np.ones(30_000_000)  # what this process has had must not count, nor hide anything
    taken = "import warnings; warnings.warn('much'); big = np.ones(10_000_000)"
    row = process.run(method(fit=taken), split(example(), 0), 60.0)
    assert 60.0 < row["memory_mib"] < 150.0
    assert row["warnings"] == ["much"]
    assert len(held) == 30_000_000


def test_half_an_answer_at_the_limit_is_none(method):
    late = "import sys, time; open(sys.argv[2] + '/half.npz', 'w').write('PK'); time.sleep(300)"
    assert process.run(method(fit=late), split(example(), 0), 2.0)["reason"] == "more than 2 s"


def test_a_method_without_uncertainty(method):
    row = process.run(method(predict="np.zeros(len(x)), None"), split(example(), 0), 60.0)
    assert row["nlpd"] is None
    assert "mean" not in row


@pytest.mark.parametrize(
    "code, reason",
    [
        ({"fit": "raise ValueError('not so many')"}, "ValueError: not so many"),
        ({"fit": "import os; print('last words', flush=True); os._exit(3)"}, "last words"),
        ({"fit": "import os; os._exit(3)"}, "exit code 3"),
        ({"fit": "import os; os._exit(0)"}, "it ended without an answer"),
        ({"fit": "import os; os.kill(os.getpid(), 9)"}, "killed: out of memory"),
        ({"predict": "np.full(len(x), np.nan), None"}, "predictions are not finite"),
        ({"predict": "np.zeros(3), None"}, "predictions are not finite"),
        ({"predict": "np.zeros(len(x)), np.full(len(x), np.nan)"}, NO_STD),
        ({"predict": "np.zeros(len(x)), -np.ones(len(x))"}, NO_STD),
        ({"predict": "np.zeros(len(x)), np.ones(3)"}, NO_STD),
    ],
)
def test_what_goes_wrong_is_said_in_the_row(method, code, reason):
    row = process.run(method(**code), split(example(), 0), 60.0)
    assert row["reason"] == reason
    assert "mse" not in row


def test_a_method_that_takes_too_long_is_stopped(method):
    row = process.run(method(fit="import time; time.sleep(300)"), split(example(), 0), 1.0)
    assert row["reason"] == "more than 1 s"


def test_an_environment_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setattr(environments, "HOME", tmp_path)
    row = process.run(Method("peer", "peer.py", "somewhere"), split(example(), 0), 1.0)
    assert row["reason"] == "not installed: make peer-somewhere"
    monkeypatch.setattr(environments.shutil, "which", lambda name: None)
    with pytest.raises(environments.Absent, match=r"apt-get install .*r-cran-mgcv"):
        environments.interpreter("r")


def test_an_environment_that_is(monkeypatch, tmp_path):
    python = tmp_path / "near" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    monkeypatch.setattr(environments, "HOME", tmp_path)
    assert environments.interpreter("near") == str(python)


def test_settings_are_replaced_not_shared():
    first = Method("m", "m.py", settings={"a": 1})
    assert first.set(b=2).settings == {"a": 1, "b": 2}
    assert first.settings == {"a": 1}
