"""Where the work on leaves and fronts is done: LAPACK on the CPU, or torch on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.linalg.multifrontal import Tree
from asvgp.linalg.multifrontal.cpu import CpuFactor


class Cpu:
    """NumPy arrays, and a front at a time."""

    name = "cpu"

    def move(self, array: Array) -> Any:
        """A NumPy array to the device."""
        return array

    def back(self, array: Any) -> Array:
        """An array of the device to NumPy."""
        return array

    def zeros(self, shape: tuple[int, ...]) -> Any:
        """Zeros on the device."""
        return np.zeros(shape)

    def factor(self, tree: Tree, elements: Callable[[int, int], Any]) -> Any:
        """P, factored."""
        return CpuFactor(tree, elements)

    def contract(self, tensor: Any, vector: Any, axis: int) -> Any:
        """Sum an axis against a vector."""
        return np.tensordot(tensor, vector, axes=(axis, 0))

    @property
    def chunk(self) -> int:
        """Doubles to work on at a time."""
        return 1 << 22

    @property
    def memory(self) -> float:
        """Bytes there are."""
        from asvgp.validation import physical_memory

        return physical_memory()


class Batched:
    """Tensors of torch, all fronts of a level at a time."""

    def __init__(self, name: str):
        import torch

        self.torch, self.name = torch, name
        self.device = torch.device(name)

    def __reduce__(self):
        """Modules do not pickle."""
        return Batched, (self.name,)

    def move(self, array: Array) -> Any:
        """A NumPy array to the device."""
        array = np.ascontiguousarray(array)
        if array.dtype == np.int32:  # torch indexes with 64 bits
            array = array.astype(np.int64)
        return self.torch.as_tensor(array, device=self.device)

    def back(self, array: Any) -> Array:
        """An array of the device to NumPy."""
        return array.cpu().numpy() if hasattr(array, "cpu") else array

    def zeros(self, shape: tuple[int, ...]) -> Any:
        """Zeros on the device."""
        return self.torch.zeros(shape, dtype=self.torch.float64, device=self.device)

    def factor(self, tree: Tree, elements: Callable[[int, int], Any]) -> Any:
        """P, factored."""
        from asvgp.linalg.multifrontal.batched import BatchedFactor

        return BatchedFactor(tree, elements, device=self.name)

    def contract(self, tensor: Any, vector: Any, axis: int) -> Any:
        """Sum an axis against a vector."""
        return self.torch.tensordot(tensor, vector, dims=([axis], [0]))

    @property
    def chunk(self) -> int:
        """Doubles to work on at a time."""
        return 1 << 27 if self.device.type == "cuda" else 1 << 22

    @property
    def memory(self) -> float:
        """Bytes there are."""
        if self.device.type != "cuda":
            return Cpu().memory
        return float(self.torch.cuda.get_device_properties(self.device).total_memory)


def engine_for(device: str) -> Cpu | Batched:
    """The engine of a device: "cpu", "cuda", "cuda:1", or "torch" for torch on the CPU.

    Examples
    --------
    >>> engine_for("cpu").name
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
