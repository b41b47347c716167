"""Model files that are damaged, or crafted and signed again, and data files that are malformed."""

from __future__ import annotations

import io
import json
import struct
import zipfile

import numpy as np
import pandas as pd

import asvgp
from asvgp import Constant, GPRegressor, Matern32, ModelFileError, Periodic
from asvgp.saving import model_file
from tests.soak.campaign import Campaign, Failure, refused

_DELETED = object()
_VALUES = (
    *(None, True, -1, 0, 1, 2, 3, 0.5, 1e308, -1e308, 10**400, 2**63, 2**31, 10**9, 1e-320),
    *("", "x", "nan", "__import__('os')", [], {}, [1] * 5, {"a": 1}, [[]], _DELETED, _DELETED),
)


class ModelFiles(Campaign):
    """Files of three models, whose answers are known."""

    def setup(self):
        """Save a line, a field and a series."""
        rng = np.random.default_rng(0)
        x, X = rng.uniform(0.0, 10.0, 200), rng.uniform(size=(200, 2))
        y = np.sin(x) + 0.1 * rng.standard_normal(200)
        settings = {"noise_variance": 0.02, "optimizer": None}
        season = Periodic(2.0, 1.0) + Matern32(3.0) + Constant()
        models = [
            (GPRegressor(Matern32(2.0) + Constant(), num_basis=30, **settings).fit(x, y), x[:9]),
            (GPRegressor(Matern32(0.5), num_basis=8, **settings).fit(X, y), X[:9]),
            (GPRegressor(season, **settings).fit(x[:60], y[:60]), x[:9]),
        ]
        self.models = []
        for gp, at in models:
            gp.save(path := self.folder / "good.asvgp")
            self.models.append((path.read_bytes(), at, gp.predict(at, return_std=True)))

    def load(self, content: bytes, at):
        """Return the answers of a file, or None where it is refused."""
        path = self.folder / "bad.asvgp"
        path.write_bytes(content)
        try:
            gp = asvgp.load(path)
        except ModelFileError:
            return None
        try:
            return gp.predict(at, return_std=True)
        except Exception as error:  # as of a model that says it has more columns
            refused(error)
            return None


class Damaged(ModelFiles):
    """Bytes that are changed, cut out, doubled or missing: the same answers, or a clear error."""

    name = "damaged"

    def case(self, rng):
        """Damage a file at random."""
        content, at, known = self.models[int(rng.integers(len(self.models)))]
        content, kind = bytearray(content), int(rng.integers(5))
        a, b = sorted(int(i) for i in rng.integers(0, len(content), 2))
        if kind == 0:
            content[a] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            for i in rng.integers(0, len(content), int(rng.integers(1, 30))):
                content[i] = int(rng.integers(256))
        elif kind == 2:
            content = content[:a]
        elif kind == 3:
            content[int(rng.integers(max(0, len(content) - 2500), len(content)))] = 255 - kind
        else:
            content = (
                content[:a] + content[b:] if rng.uniform() < 0.5 else content[:b] + content[a:]
            )
        answers = self.load(bytes(content), at)
        if answers is None:
            return "refused"
        if not np.allclose(answers, known, rtol=1e-9, atol=1e-12):  # some tables are computed anew
            raise Failure("a damaged file loads and answers differently")
        return "harmless"


class Crafted(ModelFiles):
    """Files with other numbers, signed again: finite answers, or a clear error."""

    name = "crafted"

    def case(self, rng):
        """Change an entry of the text or of an array."""
        content, at, _ = self.models[int(rng.integers(len(self.models)))]
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {info.filename: archive.read(info) for info in archive.infolist()}
        text = json.loads(members["model.json"])
        change = self._text if rng.uniform() < 0.6 else self._array
        what = change(rng, members, text)
        answers = self.load(self._signed(members, text), at)
        if answers is None:
            return "refused"
        mean, std = answers
        if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(std)) and np.all(std >= 0.0)):
            raise Failure(f"a file with {what} loads, and answers are not finite")
        return "harmless"

    @staticmethod
    def _text(rng, members, text) -> str:
        places = []

        def walk(node):
            items = node.items() if isinstance(node, dict) else enumerate(node)
            for key, value in items:
                places.append((node, key))
                if isinstance(value, dict | list):
                    walk(value)

        walk(text["model"])
        node, key = places[int(rng.integers(len(places)))]
        value = _VALUES[int(rng.integers(len(_VALUES)))]
        if value is _DELETED:
            del node[key]
        else:
            node[key] = value
        return f"{key} = {'nothing' if value is _DELETED else value!r}"

    @staticmethod
    def _array(rng, members, text) -> str:
        name = str(rng.choice(sorted(text["arrays"])))
        entry, raw = text["arrays"][name], bytearray(members[f"{name}.npy"])
        begin = 10 + struct.unpack("<H", raw[8:10])[0]
        count = (len(raw) - begin) // 8
        if entry["dtype"] == "<f8" and count and rng.uniform() < 0.75:
            value = float(rng.choice([np.nan, np.inf, -1e300, -1.0, 0.0, 1e300, 1e-300]))
            i = begin + 8 * int(rng.integers(count))
            raw[i : i + 8] = struct.pack("<d", value)
            members[f"{name}.npy"] = bytes(raw)
            return f"{name}[...] = {value}"
        shape = list(entry["shape"])
        if shape:
            axis = int(rng.integers(len(shape)))
            shape[axis] = max(0, shape[axis] + int(rng.choice([-1, 1])))
        size = int(np.prod(shape)) * np.dtype(entry["dtype"]).itemsize
        head = model_file._npy_header(entry["dtype"], entry["fortran"], tuple(shape))
        members[f"{name}.npy"] = head + (bytes(raw[begin:]) + bytes(size))[:size]
        entry["shape"] = shape
        return f"{name} of shape {shape}"

    @staticmethod
    def _signed(members, text) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for name, content in members.items():
                if name != "model.json":
                    archive.writestr(name, content)
                    text["arrays"][name[:-4]]["crc"] = archive.getinfo(name).CRC
            raw = json.dumps(text, separators=(",", ":")).encode()
            archive.writestr("model.json", raw)
            archive.comment = model_file._signature(raw)
        return out.getvalue()


class DataFiles(Campaign):
    """Rows in a file whose bytes are damaged: a model, or a clear error."""

    suffix: str

    def setup(self):
        """Write a good file."""
        rng = np.random.default_rng(1)
        x = np.linspace(0.0, 5.0, 60)
        self.frame = pd.DataFrame({"x": x, "y": np.sin(x) + 0.1 * rng.standard_normal(60)})
        self.path = self.folder / f"rows.{self.suffix}"
        self.write()
        self.good = self.path.read_bytes()

    def write(self) -> None:
        """Write the frame to the path."""
        raise NotImplementedError

    def damage(self, rng, content: bytearray) -> bytearray:
        """Return the content with some bytes changed."""
        kind = int(rng.integers(4))
        a, b = sorted(int(i) for i in rng.integers(0, len(content), 2))
        if kind == 0:
            return content[:a]
        if kind == 1:
            return content[:a] + content[b:]
        for i in rng.integers(0, len(content), 1 if kind == 2 else int(rng.integers(2, 40))):
            content[i] = int(rng.integers(256))
        return content

    def case(self, rng):
        """Damage the file and fit a model to it."""
        self.path.write_bytes(self.damage(rng, bytearray(self.good)))
        gp = GPRegressor(Matern32(), num_basis=12, noise_variance=0.1, optimizer=None)
        try:
            gp.fit(self.path, "y")
            if not np.isfinite(gp.elbo_):
                raise Failure(f"the bound is {gp.elbo_}")
        except Failure:
            raise
        except Exception as error:
            return refused(error)
        return "fitted"


class Csv(DataFiles):
    """Text with other characters, columns and ends of lines."""

    name, suffix = "csv", "csv"
    words = (
        b"",
        b"nan",
        b"inf",
        b"-",
        b"x",
        b'"',
        b",",
        b"\n",
        b"\r",
        b"\0",
        b"1e999",
        b"\xff\xfe",
    )

    def write(self):
        """Write the frame to the path."""
        self.frame.to_csv(self.path, index=False)

    def damage(self, rng, content):
        """Put words in place of others, or change bytes."""
        if rng.uniform() < 0.4:
            return super().damage(rng, content)
        for _ in range(int(rng.integers(1, 5))):
            a = int(rng.integers(len(content)))
            content[a : a + int(rng.integers(6))] = self.words[int(rng.integers(len(self.words)))]
        return content


class Parquet(DataFiles):
    """Damaged Parquet files."""

    name, suffix = "parquet", "parquet"

    def write(self):
        """Write the frame to the path."""
        self.frame.to_parquet(self.path)


class NetCDF(DataFiles):
    """Damaged NetCDF files of the classic format."""

    name, suffix = "netcdf", "nc"

    def write(self):
        """Write the frame to the path."""
        self.frame.set_index("x").to_xarray().to_netcdf(self.path, format="NETCDF3_64BIT")


class Npz(DataFiles):
    """Damaged files of NumPy arrays."""

    name, suffix = "npz", "npz"

    def write(self):
        """Write the frame to the path."""
        np.savez(self.path, x=self.frame["x"].to_numpy(), y=self.frame["y"].to_numpy())
