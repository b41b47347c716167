"""The methods' scripts: each in a process of its own on few rows, and what settings they read.

Peers are run with ``ASVGP_PEERS=1`` where their environments are (``make peers``), which takes
minutes; without, their scripts must compile and know the settings they are given.
"""

import ast
import inspect
import os

import numpy as np
import pytest

from asvgp import GPRegressor
from experiments.baselines import VFF, VISH
from experiments.harness import process
from experiments.harness.environments import Absent, interpreter
from experiments.harness.process import METHODS, Method
from experiments.harness.scores import scores
from experiments.harness.splits import Split
from experiments.paper import table3
from experiments.peers import one_input, several_inputs

NOISE = 1.0  # standard deviation: most of the variance of y, nearly all of that of predictions

# ---------------------------------------------------------------- on few rows

SMALL = {"num_inducing": 15, "iterations": 50}
RUNS = [
    (Method("asvgp", "asvgp_models.py"), 1),
    (
        Method("asvgp, tuned", "asvgp_models.py", settings={"kernel": "matern32", "num_basis": 30}),
        1,
    ),
    (Method("Nyström", "sklearn_models.py", settings={"components": 40}), 1),
    (Method("VFF", "vff_models.py", settings={"features": 21}), 1),
    (Method("VISH", "vish_models.py", settings={"max_degree": 4}), 2),
    (Method("mgcv", "mgcv_models.py", "r", {"k": [20]}), 1),
    (Method("mgcv", "mgcv_models.py", "r", {"k": [7, 7]}), 2),
    (Method("celerite2", "celerite_models.py", "small"), 1),
    (Method("pyGAM", "pygam_models.py", "small", {"splines": 20}), 1),
    (Method("gamfit", "gamfit_models.py", "small", {"k": 20}), 1),
    (Method("GPBoost", "gpboost_models.py", "small"), 2),
    (Method("libKriging", "libkriging_models.py", "small"), 2),
    (Method("tinygp", "tinygp_models.py", "jax"), 1),
    (Method("SGPR", "gpflow_models.py", "gpflow", SMALL | {"model": "sgpr"}), 1),
    (Method("SVGP", "gpflow_models.py", "gpflow", SMALL | {"model": "svgp", "iterations": 600}), 1),
    (Method("KISS-GP", "gpytorch_models.py", "torch", {"ratio": 0.5}), 2),
    (Method("HSGP", "pymc_models.py", "pymc", {"m": [6, 6]}), 2),
]


def noisy(inputs):
    """200 rows to train on and 1,000 to test, of which most is noise."""
    rng = np.random.default_rng(3)
    x = rng.uniform(0.0, 10.0, (1200, inputs))
    y = 0.8 * np.sin(0.6 * x.mean(axis=1)) + NOISE * rng.standard_normal(1200)
    return Split("noisy", 0, x[:200], y[:200], x[200:], y[200:])


@pytest.mark.parametrize("method, inputs", RUNS, ids=lambda v: getattr(v, "label", str(v)))
def test_a_script_predicts_observations_with_their_noise(method, inputs):
    if method.environment != "asvgp" and not os.environ.get("ASVGP_PEERS"):
        pytest.skip("a peer: ASVGP_PEERS=1 runs it")
    try:
        interpreter(method.environment)
    except Absent as error:
        pytest.skip(str(error))
    part = noisy(inputs)
    one = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    row = process.run(method, part, 300.0, keep=True, variables=one)
    assert "reason" not in row, row["reason"]
    assert 0.9 * NOISE**2 < row["mse"] < 1.25 * NOISE**2
    assert row["mse"] < np.var(part.y_test)  # it found something
    assert 0.88 < row["coverage"] < 0.99
    assert row["nlpd"] < 1.6  # the truth has 1.42
    assert 0.4 < row["crps"] < 0.65  # the truth has 0.56
    assert all(row["versions"].values())
    # The noise left out would show, so the lines above see that it is in.
    bare = np.sqrt(np.maximum(row["std"] ** 2 - NOISE**2, 1e-4))
    assert (scores(part.y_test, row["mean"], bare)["coverage"] or 0.0) < 0.7


# ---------------------------------------------------------------- settings

SCRIPTS = sorted(path.name for path in METHODS.glob("*_*.py") if path.name != "__init__.py")
# Scripts that hand their settings on: to whom.
HANDED = {"asvgp_models.py": GPRegressor, "vff_models.py": VFF, "vish_models.py": VISH}


def settings_read(script):
    """Names a script looks up in ``settings``: those it must have, and all."""
    must, asked, tested = set(), set(), set()
    for node in ast.walk(ast.parse((METHODS / script).read_text())):
        if isinstance(node, ast.Subscript) and _is_settings(node.value):
            must.add(_word(node.slice))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if _is_settings(node.func.value) and node.func.attr in ("get", "pop"):
                asked.add(_word(node.args[0]))
                if node.func.attr == "pop" and len(node.args) == 1:
                    must.add(_word(node.args[0]))
        elif isinstance(node, ast.Compare) and _is_settings(node.comparators[0]):
            tested.add(_word(node.left))
    if script in HANDED:
        asked |= set(inspect.signature(HANDED[script]).parameters)
    return must - tested, must | asked | tested


def _is_settings(node):
    return isinstance(node, ast.Name) and node.id == "settings"


def _word(node):
    assert isinstance(node, ast.Constant), ast.dump(node)
    return node.value


def wrong_settings(method):
    """What is given in vain, and what is lacking."""
    must, known = settings_read(method.script)
    return sorted(set(method.settings) - known), sorted(must - set(method.settings))


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_compiles_and_hands_fit_and_predict_to_the_child(script):
    tree = ast.parse((METHODS / script).read_text())
    compile(tree, script, "exec")
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    (call,) = (node for node in calls if ast.unparse(node.func) == "child.main")
    assert [ast.unparse(each) for each in call.args] == ["fit", "predict"]
    assert "settings" in (ast.get_docstring(tree) or "").lower() or not settings_read(script)[1]


@pytest.mark.parametrize("peers", [one_input, several_inputs])
def test_peers_are_given_settings_that_their_scripts_read(peers):
    for case in (*peers.CASES, *peers.FULL):
        for entry in peers.entries(case.dataset, 1000):
            assert wrong_settings(entry.method) == ([], []), entry.method


def test_the_paper_s_methods_are_given_settings_that_their_scripts_read():
    for method in table3.METHODS:
        assert wrong_settings(method) == ([], []), method


def test_every_script_is_run_here():
    run = {method.script for method, _ in RUNS} | {"asvgp_grid.py"}  # with the map it is for
    forecasts = {script for script in SCRIPTS if script.endswith("_forecasts.py")}
    assert set(SCRIPTS) - forecasts <= run  # those have a test beside that of forecasts


def test_settings_of_another_name_would_be_fit_data():
    assert wrong_settings(Method("m", "pygam_models.py", settings={"spline": 3})) == (
        ["spline"],
        [],
    )
    assert wrong_settings(Method("m", "mgcv_models.py")) == ([], ["k"])
    assert wrong_settings(Method("m", "gamfit_models.py")) == ([], [])
    assert wrong_settings(Method("m", "asvgp_models.py", settings={"num": 1})) == (["num"], [])
