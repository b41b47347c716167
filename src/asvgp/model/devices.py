"""Devices for the work on leaves and fronts: LAPACK on the CPU, or torch on a GPU."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from asvgp.basis import Array
from asvgp.linalg.multifrontal import Tree
from asvgp.linalg.multifrontal.cpu import CpuFactor, Workspace
from asvgp.linalg.multifrontal.disk import DiskSpace
from asvgp.runtime.memory import physical_memory

DeviceArray = Any  # a NumPy array on the CPU, a tensor of torch on a GPU


class Factor(Protocol):
    """A multifrontal factorisation of P."""

    log_det: float

    @property
    def nbytes(self) -> int:
        """Bytes that the factorisation holds."""
        ...

    def solve(self, b: DeviceArray, /) -> DeviceArray:
        """Return ``P^-1 b``."""
        ...

    def sample(self, z: DeviceArray, /) -> DeviceArray:
        """Return draws with covariance ``P^-1``, made from standard normals."""
        ...

    def selected_inverse(self, consume: Callable[[int, int, DeviceArray], None]) -> None:
        """Pass ``P^-1`` on the functions of each leaf to ``consume(start, stop, blocks)``."""


class TreeFactor(Factor, Protocol):
    """A factorisation of a sum of leaf elements."""

    def selected_sandwich(self, gram: DeviceArray, /) -> tuple[DeviceArray, DeviceArray]:
        """Return ``P^-1`` and ``P^-1 G P^-1`` on the functions of each leaf, for elements of G."""
        ...


def probes(size: int) -> Array:
    """Return vectors z that a factor L of P is tried on, (size, 4), for `log_det_error`."""
    return 2.0 * np.random.default_rng(0).integers(0, 2, (size, 4), dtype=np.int8) - 1.0


def log_det_error(forms: Array, size: int) -> float:
    """Return about the error of ``log|P|``, from ``v' P v`` of v = L^-T z with probes z.

    These are z' z but for the error of L L', whose trace with P^-1 is that of ``log|P|``.
    """
    return float(np.abs(forms - size).mean())


class Cpu:
    """NumPy arrays on the CPU, one front at a time."""

    name = "cpu"
    chunk = 1 << 19  # doubles to work on at a time: there are several arrays of them
    limit: float | None = None  # bytes of memory beyond which factors go to disk

    def __init__(self) -> None:
        self.workspace = Workspace()  # fresh memory would cost a third of a factorisation
        self.disk = DiskSpace()

    def __reduce__(self):
        """Pickle without the scratch memory."""
        return Cpu, ()

    def move(self, array: Array) -> DeviceArray:
        """Copy a NumPy array to the device."""
        return array

    def back(self, array: DeviceArray) -> Array:
        """Copy an array of the device to NumPy."""
        return array

    def sparse(self, matrix: sparse.csr_array) -> DeviceArray:
        """Copy a sparse matrix to the device."""
        return matrix

    def zeros(self, shape: tuple[int, ...]) -> DeviceArray:
        """Return zeros on the device."""
        return np.zeros(shape)

    def factor(
        self,
        tree: Tree,
        elements: Callable[[int, int], DeviceArray],
        on_disk: bool,
        panels: Workspace | None = None,
    ) -> TreeFactor:
        """Factor P, whose leaf elements come from ``elements(start, stop)``.

        Its memory comes from ``panels`` and goes back there, which hold that of earlier factors.
        """
        panels = self.disk if on_disk else panels
        return CpuFactor(tree, elements, workspace=self.workspace, panels=panels)

    @property
    def memory(self) -> float:
        """Bytes of memory in all."""
        return physical_memory()

    @property
    def rate(self) -> float:
        """Operations per second that a product of matrices reaches."""
        return _rate("cpu")


class Batched:
    """Tensors of torch, all fronts of a level at a time, on a GPU or on the CPU."""

    limit: float | None = None  # bytes

    def __init__(self, name: str):
        import torch

        self.torch, self.name = torch, name
        self.device = torch.device(name)
        self.chunk = 1 << 27 if self.device.type == "cuda" else 1 << 22  # doubles at a time

    def __reduce__(self):
        """Pickle without the module of torch."""
        return Batched, (self.name,)

    def move(self, array: Array) -> DeviceArray:
        """Copy a NumPy array to the device."""
        array = np.ascontiguousarray(array)
        if array.dtype == np.int32:  # torch indexes with 64 bits
            array = array.astype(np.int64)
        return self.torch.as_tensor(array, device=self.device)

    def back(self, array: DeviceArray) -> Array:
        """Copy an array of the device to NumPy."""
        return array.cpu().numpy() if hasattr(array, "cpu") else array

    def sparse(self, matrix: sparse.csr_array) -> DeviceArray:
        """Copy a sparse matrix to the device."""
        parts = (matrix.indptr, matrix.indices, matrix.data)
        moved = (self.torch.as_tensor(part, device=self.device) for part in parts)
        with warnings.catch_warnings():  # torch calls its sparse matrices a trial
            warnings.simplefilter("ignore")
            return self.torch.sparse_csr_tensor(*moved, size=matrix.shape)

    def zeros(self, shape: tuple[int, ...]) -> DeviceArray:
        """Return zeros on the device."""
        return self.torch.zeros(shape, dtype=self.torch.float64, device=self.device)

    def factor(
        self,
        tree: Tree,
        elements: Callable[[int, int], DeviceArray],
        on_disk: bool,
        panels: Workspace | None = None,
    ) -> TreeFactor:
        """Factor P on the device; ``on_disk`` and ``panels`` do not matter here."""
        from asvgp.linalg.multifrontal.batched import BatchedFactor

        return BatchedFactor(tree, elements, device=self.name)

    @property
    def memory(self) -> float:
        """Bytes of memory in all."""
        if self.device.type != "cuda":
            return physical_memory()
        return float(self.torch.cuda.get_device_properties(self.device).total_memory)

    @property
    def rate(self) -> float:
        """Operations per second that a product of matrices reaches."""
        return _rate(self.name)


@lru_cache
def _rate(name: str) -> float:
    """Measure the rate of a device, once, in hundredths of a second."""
    size = 4096 if name.startswith("cuda") else 512
    ones = device_for(name).move(np.ones((size, size)))

    def product() -> float:
        return float((ones @ ones)[0, 0])  # waits for the device

    product()
    begin = time.perf_counter()
    product()
    return 2.0 * size**3 / max(time.perf_counter() - begin, 1e-9)


Device = Cpu | Batched


def device_for(device: str) -> Device:
    """Return the device of a name: "cpu", "cuda", "cuda:1", or "torch" for torch on the CPU.

    Examples
    --------
    >>> device_for("cpu").name
    'cpu'
    """
    if device == "cpu":
        return Cpu()
    try:
        import torch
    except ImportError:
        raise ValueError(
            f"device={device!r} needs PyTorch, which is not installed: pip install 'asvgp[gpu]', "
            "or take device='cpu'."
        ) from None
    if device == "torch":
        return Batched("cpu")
    if not torch.cuda.is_available():
        raise ValueError(
            f"device={device!r}, but PyTorch {torch.__version__} finds no CUDA device. Take "
            "device='cpu', or install a PyTorch built for CUDA on a machine with a GPU."
        )
    return Batched(device)
