"""Files that tests of the command line share."""

import pytest

from tests.cli.command_line import ROLES, call, field, power, write


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Data, and models of them; tests write elsewhere."""
    folder = tmp_path_factory.mktemp("files")
    data = power()
    for name in ("power.csv", "power.parquet", "power.feather"):
        write(data, folder / name)
    write(field(), folder / "field.parquet")
    write(power(100, seed=9), folder / "new.csv")
    call("fit", folder / "power.parquet", *ROLES, "--num-basis", 60, "-o", folder / "power.asvgp")
    call(
        *("fit", folder / "field.parquet", "--target", "height", "--num-basis", "8,9"),
        *("--kernel", "matern32 + constant", "-o", folder / "field.asvgp"),
    )
    return folder
