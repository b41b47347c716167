"""Interrupts during fits, kills while saving, forks during a fit, and workers that die."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

import asvgp
from asvgp import Constant, GPRegressor, Matern32, Matern52
from tests.soak.campaign import Campaign, Failure, check_numbers


def _rows(seed: int, n: int = 2000):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, 50.0, n)
    return x, np.sin(x) + 0.2 * rng.standard_normal(n)


class Interrupts(Campaign):
    """An interrupt at any moment of a fit.

    While training climbs, the best state so far is kept, with a warning. At any other moment it is
    a KeyboardInterrupt, and the model is as it was.
    """

    name = "interrupts"

    def setup(self):
        """Fit a model that fits in vain are tried on."""
        self.x, self.y = _rows(0)
        self.gp = GPRegressor(Matern32() + Constant(), num_basis=400).fit(self.x, self.y)
        self.X = X = np.random.default_rng(1).uniform(size=(300, 2))
        self.field = GPRegressor(Matern32(0.5, dim=0) * Matern52(0.5, dim=1), num_basis=8)
        self.field.fit(X, np.sin(5.0 * X[:, 0]))
        self.durations = {}
        for name, call in self._calls().items():
            begin = time.perf_counter()
            call()
            self.durations[name] = time.perf_counter() - begin

    def _calls(self):
        return {
            "line": lambda: self.gp.fit(self.x, self.y),
            "field": lambda: self.field.fit(self.X, np.sin(5.0 * self.X[:, 0])),
        }

    def case(self, rng):
        """Interrupt one fit."""
        name = str(rng.choice(["line", "field"]))
        gp, at = (self.gp, [1.0, 2.0]) if name == "line" else (self.field, self.X[:2])
        self._calls()[name]()
        before = gp.predict(at)
        previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
        delay = float(rng.uniform(1e-4, 1.2 * self.durations[name]))
        try:
            signal.setitimer(signal.ITIMER_REAL, delay)
            self._calls()[name]()
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            word = "returned"
        except KeyboardInterrupt:
            word = "interrupted"
        except BaseException as error:
            raise Failure(f"{name} after {delay:.4g} s: {type(error).__name__}: {error}") from error
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, previous)
        after = gp.predict(at)
        check_numbers(after)
        if word == "interrupted" and not np.array_equal(after, before):
            raise Failure(f"{name}: the model is another after {delay:.4g} s")
        return word


class Kills(Campaign):
    """A process that is killed while it saves: the old model or the new one is there, whole."""

    name = "kills"

    def setup(self):
        """Make two models that are saved in turn."""
        self.path = self.folder / "model.asvgp"
        self.models = []
        for seed in (0, 1):
            x, y = _rows(seed, 3000)
            gp = GPRegressor(Matern32(), num_basis=900, noise_variance=0.1, optimizer=None)
            self.models.append(gp.fit(x, y))
        self.answers = [gp.predict([5.0, 9.0]) for gp in self.models]

    def case(self, rng):
        """Kill a child in the middle of its savings."""
        self.models[0].save(self.path)
        child = os.fork()
        if child == 0:
            try:
                while True:
                    for gp in self.models:
                        gp.save(self.path, full=True)
            finally:
                os._exit(1)
        time.sleep(float(rng.uniform(0.0, 0.05)))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        answers = asvgp.load(self.path).predict([5.0, 9.0])
        if not any(np.array_equal(answers, known) for known in self.answers):
            raise Failure("the file holds neither model")
        for path in self.folder.iterdir():
            os.utime(path, (time.time() - 3600.0,) * 2)  # as if it had happened an hour ago
        self.models[1].save(self.path)
        left = [path.name for path in self.folder.iterdir() if path != self.path]
        if left:
            raise Failure(f"files are left over: {left[:4]}")
        return "whole"


class Forks(Campaign):
    """A child that is forked while a thread fits: it fits and predicts itself."""

    name = "forks"

    def setup(self):
        """Begin a thread that fits for ever."""
        self.x, self.y = _rows(3, 500)
        self.stop = threading.Event()
        self._work()
        self.thread = threading.Thread(target=self._fit, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        gp = GPRegressor(Matern32() + Constant(), num_basis=40).fit(self.x[:99], self.y[:99])
        gp.predict([1.0], return_std=True)

    def _fit(self) -> None:
        while not self.stop.is_set():
            GPRegressor(Matern32() + Constant(), num_basis=150).fit(self.x, self.y)

    def close(self):
        """End the thread."""
        self.stop.set()
        self.thread.join()

    def case(self, rng):
        """Fork at a random moment."""
        time.sleep(float(rng.uniform(0.0, 0.03)))
        child = os.fork()
        if child == 0:
            signal.alarm(120)  # ends the child, whatever it waits for
            try:
                self._work()
                os._exit(0)
            finally:
                os._exit(1)
        status = os.waitpid(child, 0)[1]
        if status:
            raise Failure(f"the child ended with status {status} (14: it hung for two minutes)")
        return "done"


def _die_once(block, marker: str, victim: int, block_id=()):
    """Return a block, after the first process that reads the block of a number killed itself."""
    if block_id == (victim,):
        try:
            Path(marker).touch(exist_ok=False)  # two processes may read it at once; one dies
        except FileExistsError:
            return block
        os.kill(os.getpid(), signal.SIGKILL)
    return block


class Workers(Campaign):
    """Workers of Dask that are killed in the middle of a pass: the same bound."""

    name = "workers"

    patience = 180  # seconds that a pass, or a new worker, may take
    blocks = 8

    def setup(self):
        """Start a cluster of two processes that comes back as often as it is killed."""
        from dask import config
        from dask.distributed import Client, LocalCluster

        self.number = 0
        self.x, self.y = _rows(5, 40_000)
        # A LocalCluster looks so long after each death whether a worker of that name is there, and
        # gives the name up for ever if not. Its successor, killed in turn, may just be starting.
        # The setting is read at every death, so it holds until the campaign ends.
        patient = config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
        self.open = ExitStack()
        self.open.enter_context(patient)
        cluster = LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        )
        self.client = self.open.enter_context(Client(self.open.enter_context(cluster)))
        self.known = self._bound(self._array(self.y))

    def _array(self, values):
        import dask.array as da

        return da.from_array(values, chunks=len(values) // self.blocks)

    def _bound(self, y) -> float:
        gp = GPRegressor(Matern32(2.0), num_basis=100, noise_variance=0.1, optimizer=None)
        return gp.fit(self._array(self.x), y).elbo_

    def close(self):
        """Stop the cluster."""
        self.open.close()

    def case(self, rng):
        """Kill the worker that reads a random block first."""
        self.number += 1
        self.client.wait_for_workers(2, timeout=self.patience)
        marker, victim = self.folder / f"killed-{self.number}", int(rng.integers(self.blocks))
        options = {"marker": str(marker), "victim": victim, "meta": np.empty(0)}
        y = self._array(self.y).map_blocks(_die_once, dtype=float, **options)
        previous = signal.signal(signal.SIGALRM, _late)
        signal.alarm(self.patience)
        try:
            bound = self._bound(y)
        except TimeoutError as error:
            alive = len(self.client.scheduler_info()["workers"])
            raise Failure(f"a pass hung with {alive} workers alive") from error
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, previous)
        if not marker.exists():
            raise Failure("no worker was killed")
        if bound != self.known:
            raise Failure(f"the bound is {bound!r} in place of {self.known!r}")
        return "same"


def _late(*_) -> None:
    """Raise an error: time is up."""
    raise TimeoutError("a pass took too long")
