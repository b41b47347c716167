"""Bad input at the command line: a clear error or a right result, and nothing left behind."""

import json
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import asvgp
from asvgp import GPRegressor
from asvgp.cli.app import app
from tests.cli.command_line import call, contents, field, power, refused, write

ROLES = ("--target", "power", "--input", "time")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A model file of times and one of two inputs, as bytes."""
    folder = tmp_path_factory.mktemp("good")
    write(power(), folder / "power.parquet")
    write(field(400), folder / "field.parquet")
    fit = ("fit", folder / "power.parquet", *ROLES, "--num-basis", 40)
    call(*fit, "-o", folder / "power.asvgp")
    fit = ("fit", folder / "field.parquet", "--target", "height", "--num-basis", "8,8")
    call(*fit, "--kernel", "matern32 + constant", "-o", folder / "field.asvgp")
    return {path.name: path.read_bytes() for path in folder.glob("*.asvgp")}


@pytest.fixture
def folder(tmp_path, good):
    """Models and data that are right, and an output that is there already."""
    for name, content in good.items():
        (tmp_path / name).write_bytes(content)
    write(power(50), tmp_path / "new.csv")
    (tmp_path / "out.asvgp").write_bytes(b"what was there")
    return tmp_path


def fit_of(folder, content, *arguments, name="bad.csv"):
    """The arguments of a fit to a file with this content, over an output that is there."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return "fit", path, "--num-basis", 20, *arguments, "-o", folder / "out.asvgp"


LINES = "".join(f"2024-01-{day:02},{day / 7 % 1:.3f},a\n" for day in range(1, 29))
HEAD = "time,power,site\n"


@pytest.mark.parametrize(
    "content, said",
    [
        ("", "is empty"),
        (HEAD, "0 rows"),
        ("\n\n\n", "."),
        (HEAD + "2024-01-01,1.5,a\n", "constant"),
        (HEAD + LINES + "2024-02-01,much,a\n", "row 28 (line 30 of the file) is 'much'"),
        (HEAD + LINES + "yesterday,1.0,a\n", "row 28 (line 30 of the file) is 'yesterday'"),
        (HEAD + "soon,1.0,a\nlater,2.0,b\n", "row 0 (line 2 of the file) is 'soon'"),
        (
            HEAD + LINES + "\n2024-02-01,1.0\n",
            "row 28 (line 31 of the file) has 2 columns where the first line names 3: "
            "'2024-02-01,1.0'",
        ),
        (HEAD + LINES + "2024-02-01,1.0,a,b\n", "row 28 (line 30 of the file) has 4 columns"),
        (HEAD + LINES + "2024-02-01,1e300,a\n", "infinity or a value too large"),
        (HEAD + LINES + "2024-02-01,inf,a\n", "First rows: 28. The first is line 30 of the file."),
        (HEAD + LINES + "\n,1.0,a\n", "Input column 'time' of X contains NaT in 1 of 29 rows"),
        (HEAD + LINES + "\n,1.0,a\n", "The first is line 31 of the file."),
        (HEAD + "".join(f"2024-01-{d:02},3.0,a\n" for d in range(1, 29)), "y is constant"),
        (
            HEAD + "".join(f"2024-01-{d:02},,a\n" for d in range(1, 29)),
            "All 28 values of power are NaN: nothing to fit",
        ),
        ("time,power,power\n" + LINES.replace("a", "1"), "2 columns 'power'"),
        ("time,power,time\n" + LINES.replace("a", "1"), "2 columns 'time'"),
        ("time,watts,site\n" + LINES, "no column 'power'"),
        ((HEAD + LINES).encode("utf-16"), "UTF-16"),
        (
            (HEAD + LINES).encode()
            + "2024-02-01,1.0,Zürich\n2024-02-02,Zürich,a\n".encode("latin-1"),
            "",
        ),
        (HEAD.encode() + bytes(range(256)) * 20, ""),
        (b"PK\x03\x04" + b"\0" * 500, ""),
        (b"\x89PNG\r\n\x1a\n" + b"\xff\x00" * 300, ""),
    ],
)
def test_tables_that_cannot_be_fitted(folder, content, said):
    arguments = fit_of(folder, content, *ROLES)
    assert said in refused(folder, *arguments)
    # The same file as data to predict and to add: the same, or a right result.
    for command in ("predict", "update"):
        output = folder / ("new.parquet" if command == "predict" else "new.asvgp")
        before = contents(folder)
        words = [
            str(w) for w in (command, folder / "power.asvgp", folder / "bad.csv", "-o", output)
        ]
        result = CliRunner().invoke(app, words)
        assert result.exit_code in (0, 1), result.stderr
        assert "unexpected" not in result.stderr, result.stderr
        if result.exit_code:
            assert contents(folder) == before
            assert result.stderr.startswith("error: ")
        else:
            output.unlink()


@pytest.mark.parametrize(
    "name, content",
    [
        ("bad.parquet", b""),
        ("bad.parquet", b"PAR1 and no more"),
        ("bad.feather", b"ARROW1\0\0 nothing"),
        ("bad.npy", b"\x93NUMPY\x01\x00v\x00{'descr': '|O', }"),
        ("bad.npz", b"PK\x03\x04 cut off"),
        ("bad.txt", b"time,power\n1,2\n"),
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # NumPy's own
def test_files_that_are_not_what_they_are_called(folder, name, content):
    assert name in refused(folder, *fit_of(folder, content, *ROLES, name=name))


def test_roles_that_cannot_be(folder):
    data = HEAD + LINES
    cases = {
        ("--target", "power", "--input", "power"): "the target and an input",
        ("--target", "power", "--input", "site"): "'site'",
        ("--target", "site", "--input", "time"): "'site' must hold numbers",
        ("--target", "power", "--input", "time", "--weight", "site"): "'site' must hold numbers",
        ("--target", "power", "--input", "time", "--input", "time"): "named twice",
        ("--target", "power", "--input", "tme"): "Did you mean 'time'",
        ("--target", "power", "--kernel", "matern32(dim=power)"): "cannot explain itself",
        ("--target", "power", "--kernel", "matern32(dim=place)"): "no column 'place'",
        (
            *ROLES,
            "--domain",
            "2024-01-05,2024-02-01",
        ): "domain=(2024-01-05, 2024-02-01) leaves out 4 of "
        "28 values of X, which range from 2024-01-01 to 2024-01-28.",
        (*ROLES, "--domain", "0,10"): "domain",
        (*ROLES, "--memory-limit", "plenty"): "plenty",
        (*ROLES, "--device", "abacus"): "device must be",
        (*ROLES, "--noise", "-1"): "noise_variance must be",
        (*ROLES, "--degree", "1"): "degree must be",
        (*ROLES, "--num-basis", "2"): "num_basis must be at least",
    }
    for arguments, said in cases.items():
        assert said in refused(folder, *fit_of(folder, data, *arguments)), arguments


def test_usage_that_is_wrong(folder):
    model, out = folder / "power.asvgp", folder / "out.csv"
    data = fit_of(folder, HEAD + LINES)[1]
    cases = [
        ("fit", data, "-o", "m.asvgp"),
        ("fit", data, *ROLES),
        ("fit", *ROLES, "-o", "m.asvgp"),
        ("fit", data, *ROLES, "--kernel", "import os", "-o", "m.asvgp"),
        ("fit", data, *ROLES, "--num-basis", "many", "-o", "m.asvgp"),
        ("fit", data, *ROLES, "--domain", "1", "-o", "m.asvgp"),
        ("fit", data, *ROLES, "--domain", "a,b", "-o", "m.asvgp"),
        ("fit", data, *ROLES, "--objective", "beauty", "-o", "m.asvgp"),
        ("fit", data, *ROLES, "-o", folder / "no" / "folder" / "m.asvgp"),
        ("fit", data, *ROLES, "-o", folder),
        ("predict", model, "-o", out),
        ("predict", model, data, "--at", "1", "-o", out),
        ("predict", model, data, "-o", folder / "out.xlsx"),
        ("predict", model, data, "--level", "1.5", "-o", out),
        ("predict", model, data, "--noise-variance", "power", "-o", out),
        ("predict", model, data, "--json", "-o", "-"),
        ("predict", model, "--at", "1", "--keep", "site", "-o", out),
        ("merge", model, "-o", "m.asvgp"),
        ("plot", model, "-o", "picture.bmp"),
        ("plot", model, "--kind", "cubist", "-o", "picture.png"),
        ("info",),
        ("info", model, model),
        ("forget", model),
        ("completion", "cmd"),
    ]
    for arguments in cases:
        assert "Usage: asvgp" in refused(folder, *arguments, code=2), arguments


def test_predictions_that_cannot_be(folder):
    model, out = folder / "power.asvgp", ("-o", folder / "out.csv")
    new, plane = folder / "new.csv", folder / "field.asvgp"
    write(power(4).select(["power"]), folder / "short.csv")
    write(power(4).rename_columns(["time", "a", "mean", "c"]), folder / "mean.csv")
    write(power(4).rename_columns(["a", "time", "b", "c"]), folder / "numbers.csv")
    cases = [
        ((folder / "nothing.csv",), "no file"),
        ((folder / "short.csv",), "no column 'time'"),
        ((folder / "numbers.csv",), "fitted to times"),
        ((folder / "mean.csv", "--keep", "mean"), "also the name of a prediction"),
        ((new, "--keep", "place"), "no column 'place'"),
        ((new, "--input", "time", "--input", "power"), "1 inputs"),
        ((new, "--input", "site"), "'site'"),
        ((new, folder / "out.asvgp"), "ending"),
        (("--at", "noon"), "is not a place"),
        (("--at", "1:2"), "is not a place"),
        (("--at", "2024-01-01:2024-02-01:1"), "mixes numbers and times"),
        (("--at", "2024-02-01:2024-01-01:1h"), "before START"),
        (("--at", "2024-01-01:2024-02-01:-1h"), "is not a place"),
        (("--at", "1600-01-01:2200-01-01:1ms"), ""),
        (("--at", "0:1:0.1"), "fitted to times"),
        (("--at", "place=3"), "no input 'place'"),
        (("--at", "2024-01-01T00:00Z"), "time zone"),
        (("--at", "2024-01-01", "--at", "2024-01-02"), "given twice"),
    ]
    for arguments, said in cases:
        assert said in refused(folder, "predict", model, *arguments, *out), arguments
    assert "say which" in refused(folder, "predict", plane, "--at", "0:1:0.1", *out)
    assert "'lat' are missing" in refused(folder, "predict", plane, "--at", "lon=0", *out)
    huge = ("--at", "lon=1e308", "--at", "lat=0.5", "-o", "-")
    mean, std = call("predict", plane, *huge).stdout.splitlines()[1].split(",")[2:]
    gp = asvgp.load(plane)
    (level,) = gp.effects_
    assert float(mean) == pytest.approx(level.estimate)  # all else is forgotten
    assert float(std) == pytest.approx(np.hypot(gp.kernel_.prior_variance**0.5, level.std))


def test_models_that_are_damaged(folder, good):
    """Every command that reads one says so, and changes nothing."""
    whole = good["power.asvgp"]
    rng = np.random.default_rng(0)
    damaged = [b"", b"no model", whole[: len(whole) // 2], whole[:-1], whole[100:], whole + b"more"]
    for place in rng.integers(0, len(whole), 30):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(rng.integers(8))
        damaged.append(bytes(flipped))
    model = folder / "power.asvgp"
    for number, content in enumerate(damaged):
        model.write_bytes(content)
        commands = [
            ("info", model),
            ("predict", model, folder / "new.csv", "-o", folder / "out.csv"),
            ("update", model, folder / "new.csv"),
            ("merge", folder / "field.asvgp", model, "-o", folder / "all.asvgp"),
            ("plot", model, "-o", folder / "picture.png"),
        ]
        for command in commands if number < 6 else commands[:1]:
            try:
                same = asvgp.load(model)
            except asvgp.ModelFileError:
                assert "power.asvgp" in refused(folder, *command)
            else:  # bits that nothing depends on
                assert same.elbo_ == json.loads(call("info", model, "--json").stdout)["elbo"]


def test_other_files_in_the_place_of_models(folder):
    with zipfile.ZipFile(folder / "foreign.asvgp", "w") as archive:
        archive.writestr("a.txt", "something else")
    np.savez(folder / "arrays.npz", a=np.ones(3))
    for name in ("foreign.asvgp", "arrays.npz", "new.csv", "missing.asvgp"):
        assert name in refused(folder, "info", folder / name)
    assert refused(folder, "info", folder)


def test_models_that_do_not_go_together(folder):
    power_model, field_model = folder / "power.asvgp", folder / "field.asvgp"
    out = ("-o", folder / "all.asvgp")
    assert "different inputs" in refused(folder, "merge", power_model, field_model, *out)
    data = power()
    twin = GPRegressor(num_basis=30).fit(
        data.column("hours").to_numpy(), data.column("power").to_numpy()
    )
    twin.save(folder / "twin.asvgp")
    assert "different" in refused(folder, "merge", power_model, folder / "twin.asvgp", *out)
    assert "--target" in refused(folder, "update", folder / "twin.asvgp", folder / "new.csv")
    assert "no column 'lon'" in refused(
        folder, "update", field_model, folder / "new.csv", "--target", "power"
    )
    write(power(20).append_column("v", pa.array(np.ones(20))), folder / "v.csv")
    said = refused(folder, "update", power_model, folder / "v.csv", "--noise-variance", "v")
    assert "known noise variances" in said
    assert "two" in refused(folder, "plot", power_model, "--kind", "map", "-o", folder / "a.png")


def test_hints_name_options(folder):
    alone = "x,z,y\n" + "".join(f"3,{i},{i % 7}\n" for i in range(30))
    said = refused(folder, *fit_of(folder, alone, "--target", "y", "--input", "x"))
    assert said.endswith("(On the command line: --domain A,B for each input.)\n")
    said = refused(folder, *fit_of(folder, alone, "--target", "y"))
    assert "or drop the column" in said
    assert "--domain A,B for each input" in said
    same = "x,y\n" + "".join(f"{i},7\n" for i in range(30))
    assert "line: --fixed, --noise.)" in refused(folder, *fit_of(folder, same, "--target", "y"))
    wide = "x,y\n" + "".join(f"{i},{i % 7}\n" for i in range(30))
    said = refused(folder, *fit_of(folder, wide, "--target", "y", "--domain", "0,5"))
    assert "leaves out 24 of 30 values" in said
    assert "On the command line: --domain A,B" in said


def test_messages_name_columns_lines_and_commands(folder):
    holes = "x,y\n" + "".join(f"{i},{i % 7}\n" for i in range(30)) + ",3\n"
    said = refused(folder, *fit_of(folder, holes, "--target", "y"))
    assert "Input column 'x' of X contains NaN or infinity in 1 of 31 rows (30)." in said
    assert "The first is line 32 of the file." in said
    two = "x,co,no2\n" + "".join(f"{i},{i % 7 or ''},{i % 5 or ''}\n" for i in range(40))
    fit = fit_of(folder, two, "--target", "co", "--target", "no2", "--input", "x")
    result = call(*fit[:-1], folder / "two.asvgp")
    assert (
        "12 of 40 rows have co or no2 = NaN and are left out as missing: a row needs the "
        "values of all outputs." in result.stderr
    )
    draw = ("plot", folder / "two.asvgp", "-o", folder / "two.png")
    assert "output=0 to 1. (On the command line: --output-number N.)" in refused(folder, *draw)
    said = refused(folder, *draw, "--output-number", 7)
    assert said.startswith("error: output must be a whole number from 0 to 1, got 7")
    assert "--output-number N" in said
    later = HEAD + LINES.replace("2024-01", "2024-05")
    call(*fit_of(folder, later, *ROLES)[:-1], folder / "later.asvgp")
    call(*fit_of(folder, HEAD + LINES, *ROLES)[:-1], folder / "early.asvgp")
    models = folder / "early.asvgp", folder / "later.asvgp"
    said = refused(folder, "merge", *models, "-o", folder / "both.asvgp")
    assert said.endswith("(On the command line: asvgp update.)\n")
    whole = (*ROLES, "--domain", "2024-01-01,2024-06-01")  # which is true
    call(*fit_of(folder, later, *whole)[:-1], folder / "later.asvgp")
    call(*fit_of(folder, HEAD + LINES, *whole)[:-1], folder / "early.asvgp")
    call("merge", *models, "-o", folder / "both.asvgp")


@pytest.mark.parametrize(
    "content, said",
    [
        ("time;power\n2024-01-01;1.5\n", "separated by ';': write them with commas"),
        ("time;power\n2024-01-01;1,5\n", "pandas.read_csv(file, sep=';', decimal=',')"),
        ("time\tpower\n2024-01-01\t1.5\n", "give the file the ending .tsv"),
        ("2024-01-01,1.5\n2024-01-02,2.5\n", "put a line with the columns' names above it"),
    ],
)
def test_first_lines_that_do_not_name_columns(folder, content, said):
    assert said in refused(folder, *fit_of(folder, content, *ROLES))


def test_values_of_several_files_say_which(folder):
    (folder / "a.csv").write_text(HEAD + LINES)
    (folder / "b.csv").write_text(HEAD + "\n2024-02-01,1.0,a\n2024-02-02,much,a\n")
    said = refused(folder, "fit", folder / "[ab].csv", *ROLES, "-o", folder / "m")
    assert f"row 29 (line 4 of {folder / 'b.csv'}) is 'much'" in said


@pytest.mark.parametrize("far", ["1e308", "-1e308", "1e200"])
def test_inputs_that_are_absurdly_far_out(folder, far):
    lines = "x,y\n" + "".join(f"{i},{i % 7}\n" for i in range(30))
    fit = fit_of(folder, lines + f"{far},3\n", "--target", "y")
    assert "wider than double precision can work with" in refused(folder, *fit)
    (folder / "few.csv").write_text(lines)
    (folder / "far.csv").write_text(f"x,y\n{far},3\n")
    model = folder / "few.asvgp"
    for count in ("20", "auto"):
        options = ("--target", "y", "--num-basis", count, "-o", model)
        call("fit", folder / "few.csv", *options)
        said = refused(folder, "update", model, folder / "far.csv")
        assert "times the domain so far, 0 to 29. Fix those X" in said


def test_a_ragged_row_in_a_compressed_file(folder):
    import gzip

    text = "x,y\n" + "".join(f"{i},{i % 7}\n" for i in range(30)) + "4\n"
    (folder / "bad.csv.gz").write_bytes(gzip.compress(text.encode()))
    said = refused(folder, "fit", folder / "bad.csv.gz", "--target", "y", "-o", folder / "m")
    assert "row 30 (line 32 of the file) has 1 columns" in said


def test_enormous_values_that_can_be_used(folder):
    """A scale is no error: the model is the same in other units."""
    data = power()
    y = data.column("power").to_numpy()
    write(data.set_column(2, "power", pa.array(1e60 * y)), folder / "big.csv")
    call("fit", folder / "big.csv", *ROLES, "--num-basis", 40, "-o", folder / "big.asvgp")
    call("predict", folder / "big.asvgp", folder / "new.csv", "-o", folder / "big.parquet")
    big, small = asvgp.load(folder / "big.asvgp"), asvgp.load(folder / "power.asvgp")
    times = data.column("time").to_numpy()
    assert np.allclose(1e-60 * big.predict(times), small.predict(times), atol=1e-3)


def test_a_disk_that_is_full_while_predicting(folder, monkeypatch):
    import errno

    from asvgp.cli.output import TableWriter

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(TableWriter, "write", full)
    arguments = ("predict", folder / "power.asvgp", folder / "new.csv", "-o", folder / "out.csv")
    assert "does not fit" in refused(folder, *arguments)


FIXED = ("--fixed", "--noise", "0.1", "--kernel", "matern32(2d)")
PIECES = ["1e308", "-1e-320", "nan", "", '"', ",", "\n", "\r", "\0", "é", "NULL", "2024-13-45", "x"]


@given(
    st.lists(
        st.tuples(st.integers(0, 400), st.integers(0, 3), st.sampled_from(PIECES)),
        min_size=0,
        max_size=2,
    ),
    st.sampled_from(["utf-8", "utf-8", "latin-1", "utf-16"]),
)
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_damaged_tables_are_refused_or_fitted(folder, damage, encoding):
    text = HEAD + LINES
    for place, length, piece in damage:
        text = text[:place] + piece + text[place + length :]
    arguments = fit_of(folder, text.encode(encoding), *ROLES, *FIXED)
    output = folder / "out.asvgp"
    output.write_bytes(b"the old model")
    before = contents(folder)
    result = CliRunner().invoke(app, [str(word) for word in arguments])
    assert "unexpected" not in result.stderr, (text, result.stderr)
    if result.exit_code == 0:
        assert np.isfinite(asvgp.load(output).elbo_)
    else:
        assert result.exit_code == 1
        assert result.stderr.splitlines()[-1].startswith("error: "), result.stderr
        assert contents(folder) == before
