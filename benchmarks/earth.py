"""Maps on the Earth: what the great circle and the circle of longitudes are worth.

    ASVGP_DATA=FOLDER python benchmarks/earth.py [--only exact meridian globe atlantic]

``exact``: bounds, means and standard deviations of `Matern` with ``coordinates="degrees"`` beside
a dense Gaussian process whose kernel is that of the sphere, summed over Legendre polynomials; 120
points from 75 degrees south to 80 north. The others hide parts of a map of sea-surface height
(``ssh_global_20190223.npz``) and print the error there in centimetres. ``meridian``: 20,000 values,
blocks on either side of the meridian 0 hidden, `Periodic` beside a line. ``globe``: every sixth
cell, a quarter of all blocks of 6 degrees and a strip along the meridian hidden, the sphere beside
the plane. ``atlantic``: 50 to 72 degrees north.
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from scipy.special import eval_legendre

from asvgp import Constant, GPRegressor, Matern, Matern32, Periodic


def sphere(nu, lengthscale, variance=1.0, degrees=400):
    """Return the covariance of cos(angle) of a Matern process on the sphere."""
    kappa = np.sqrt(2.0 * nu) / np.deg2rad(lengthscale)
    number = np.arange(degrees)
    power = (2.0 * number + 1.0) / (kappa**2 + number * (number + 1.0)) ** (nu + 1.0)
    power *= variance / power.sum()
    return lambda cosine: sum(p * eval_legendre(n, cosine) for n, p in enumerate(power))


def cosines(a, b):
    """Return the cosines of the angles between places (longitude, latitude)."""
    units = []
    for place in (a, b):
        lon, lat = np.deg2rad(place).T
        units.append([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    return np.clip(np.array(units[0]).T @ np.array(units[1]), -1.0, 1.0)


def exact():
    """Print how near splines on the sphere are to the exact process."""
    rng = np.random.default_rng(0)
    noise = 0.05
    sine = np.sin(np.deg2rad([-75.0, 80.0]))
    X = np.column_stack(
        [rng.uniform(0.0, 360.0, 120), np.rad2deg(np.arcsin(rng.uniform(*sine, 120)))]
    )
    new = np.column_stack([rng.uniform(0.0, 360.0, 200), rng.uniform(-75.0, 80.0, 200)])
    print("nu  splines  evidence less bound  mean  standard deviation")
    for nu, sizes in (
        (1, ((16, 10), (48, 26))),
        (2, ((16, 10), (48, 26))),
        (3, ((16, 10), (32, 18))),
    ):
        kernel = sphere(nu, 40.0)
        K = kernel(cosines(X, X)) + noise * np.eye(120)
        root = np.linalg.cholesky(K)
        y = root @ rng.standard_normal(120)
        white = np.linalg.solve(root, y)
        evidence = -0.5 * white @ white - np.log(np.diag(root)).sum() - 60.0 * np.log(2.0 * np.pi)
        cross = np.linalg.solve(root, kernel(cosines(X, new)))
        mean, std = cross.T @ white, np.sqrt(1.0 - np.sum(cross**2, axis=0))
        for size in sizes:
            gp = GPRegressor(
                Matern(nu, 40.0, dim=(0, 1), coordinates="degrees"),
                num_basis=size,
                noise_variance=noise,
                optimizer=None,
            ).fit(X, y)
            ours = gp.predict(new, return_std=True)
            print(
                f"{nu}  {gp.num_basis_}  {evidence - gp.elbo_:.3g}  "
                f"{np.abs(ours[0] - mean).max():.2g}  {np.abs(ours[1] - std).max():.2g}"
            )


def sea_surface():
    """Return longitudes, latitudes and heights in centimetres of a map, land left out."""
    path = Path(os.environ.get("ASVGP_DATA", ".")) / "ssh_global_20190223.npz"
    if not path.is_file():
        sys.exit(f"{path.name} is missing: set ASVGP_DATA to the folder that holds it.")
    data = np.load(path)
    lon, lat = (each.astype(float) for each in np.meshgrid(data["lon"], data["lat"]))
    height = np.where(data["adt_1e4m"] == -32768, np.nan, data["adt_1e4m"] * 0.01)
    return lon, lat, height


def cells(every, south, north):
    """Return places and heights of every so many cells that are sea, between two latitudes."""
    lon, lat, height = (each[::every, ::every].ravel() for each in sea_surface())
    kept = np.isfinite(height) & (lat > south) & (lat < north)
    return np.column_stack([lon, lat])[kept], height[kept]


def blocks(X, size, share=0.25, seed=0):
    """Return which places are in hidden blocks of so many degrees."""
    number = np.floor((X - X.min(axis=0)) / size).astype(int)
    place = number[:, 0] * 1000 + number[:, 1]
    chosen = np.random.default_rng(seed).random(place.max() + 1) < share
    return chosen[place]


def held_out(title, X, y, hidden, strip, models):
    """Print the error of models in the hidden cells, and in the strip along the meridian."""
    print(f"{title}: {np.sum(~hidden)} values seen, {np.sum(hidden)} hidden")
    for name, kernel in models.items():
        gp = GPRegressor(kernel, objective="evidence").fit(X[~hidden], y[~hidden])
        mean, std = gp.predict(X[hidden], return_std=True, include_noise=True)
        error = mean - y[hidden]
        line = f"  {name}: {np.sqrt(np.mean(error**2)):.1f} cm"
        line += f", 95 % bands hold {np.mean(np.abs(error) < 1.96 * std):.3f}"
        if strip is not None:
            line += f"; in the strip {np.sqrt(np.mean(error[strip[hidden]] ** 2)):.1f} cm"
            lat = np.linspace(-50.0, 50.0, 41)
            seam = [
                gp.predict(np.column_stack([np.full(41, lon), lat])) for lon in (1e-6, 360.0 - 1e-6)
            ]
            line += f", largest step across the meridian {np.abs(seam[0] - seam[1]).max():.0f} cm"
        print(line)


def meridian():
    """Hide blocks along the meridian 0: a circle of longitudes beside a line."""
    X, y = cells(2, -80.0, 80.0)
    some = np.random.default_rng(0).choice(len(X), 20_000, replace=False)
    near = np.minimum(X[:, 0], 360.0 - X[:, 0]) < 2.0
    strip = near & (np.floor(X[:, 1] / 2.0) % 2 == 0)
    kept = np.zeros(len(X), dtype=bool)
    kept[some] = True
    kept |= strip
    models = {
        "Periodic(360) * Matern32": Periodic(360.0, dim=0) * Matern32(dim=1) + Constant(),
        "Matern32 * Matern32": Matern32(dim=0) * Matern32(dim=1) + Constant(),
    }
    held_out("meridian", X[kept], y[kept], strip[kept], strip[kept], models)


def globe():
    """Hide blocks and a strip along the meridian 0: the sphere beside the plane."""
    X, y = cells(6, -80.0, 80.0)
    strip = np.minimum(X[:, 0], 360.0 - X[:, 0]) < 3.0
    models = {
        "sphere": Matern(1, dim=(0, 1), coordinates="degrees") + Constant(),
        "plane": Matern(1, dim=(0, 1)) + Constant(),
    }
    held_out("globe", X, y, strip | blocks(X, 6.0), strip, models)


def atlantic():
    """Hide blocks of the northern Atlantic: the sphere beside the plane."""
    X, y = cells(2, 50.0, 72.0)
    inside = (X[:, 0] > 290.0) | (X[:, 0] < 15.0)
    X, y = X[inside], y[inside]
    models = {
        "sphere": Matern(1, dim=(0, 1), coordinates="degrees") + Constant(),
        "plane": Matern(1, dim=(0, 1)) + Constant(),
    }
    X = np.column_stack([(X[:, 0] + 180.0) % 360.0 - 180.0, X[:, 1]])
    held_out("atlantic", X, y, blocks(X, 3.0), None, models)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tasks = {each.__name__: each for each in (exact, meridian, globe, atlantic)}
    parser.add_argument("--only", nargs="+", choices=list(tasks), default=list(tasks))
    for name in parser.parse_args().only:
        tasks[name]()
