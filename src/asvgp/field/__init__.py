"""Models over several inputs: separable, additive and mixed kernels.

The main block is a box of D inputs, each with uniform cells. A term of the kernel is a
product of processes over some of these inputs, constant in the others; on every input it
has splines of its own degree and width (`asvgp.linalg.multifrontal`: ``Space``). Inputs of
single processes outside the main block, and fixed effects, are global columns.

Tensors over the grid are *interleaved*: along input d, index ``c * (powers + 1) + j`` is
power j of the local coordinate s on finest cell c. Moments have 2K + 1 powers an input,
targets K + 1, K being the largest degree on that input. In this layout every operation is
separable: one small or banded matrix an input.
"""
