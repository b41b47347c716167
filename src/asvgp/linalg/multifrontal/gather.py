"""The one index operation of the batched elimination: sums of rows and columns of parts.

Extend-add, the copy of leaf elements into fronts, of a parent's inverse to its children and
of the inverse back to the leaves are all of this form. A map says for every row of the
result which row of the part it comes from, so nothing is written twice: no atomic
operations, and the same result every time.
"""

from functools import lru_cache

import torch
from torch import Tensor


def gather(parts: Tensor, rows: Tensor, columns: Tensor, out: Tensor, share: int = 1) -> Tensor:
    """Add rows and columns of C parts to each matrix of a batch of n, and return it.

        out[b, i, j] = sum over c of parts[(C b + c) // share, rows[b, c, i], columns[b, c, j]]

    -1 in the maps ``rows`` (n, C, I) and ``columns`` (n, C, J), of int32, stands for zeros: what
    the parts hold elsewhere does not matter, were it nan. ``share`` matrices of the result take
    from the same part. ``out`` (n, I, J) is overwritten and may be a view.
    """
    if not out.numel():
        return out
    kernel = _kernel() if out.is_cuda else None
    if not parts.numel():
        out.zero_()
    elif kernel is not None:
        kernel(parts, rows, columns, out, share)
    else:
        plain_gather(parts, rows, columns, out, share)
    return out


def plain_gather(parts: Tensor, rows: Tensor, columns: Tensor, out: Tensor, share: int = 1) -> None:
    """Do `gather` in plain torch: on any device, with temporaries as large as all the parts."""
    n, num_parts = rows.shape[:2]
    box = torch.arange(n * num_parts, device=out.device).view(n, num_parts, 1, 1) // share
    i, j = rows[:, :, :, None].long(), columns[:, :, None, :].long()
    block = parts[box, i, j]
    block.masked_fill_((i < 0) | (j < 0), 0.0)  # -1 has read a last row
    torch.sum(block, dim=1, out=out) if out.is_contiguous() else out.copy_(block.sum(dim=1))


@lru_cache(maxsize=1)
def _kernel():
    """Return the Triton kernel of `gather`, or None without Triton."""
    try:
        from asvgp.linalg.multifrontal.gather_triton import gather as kernel
    except ImportError:
        return None
    return kernel
