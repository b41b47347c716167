"""`asvgp.linalg.multifrontal.gather` as a Triton kernel: one program a tile of the result."""

# pyright: reportGeneralTypeIssues=false
# (what a kernel is written in is not Python to a checker)

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

TILE = 32


def gather(parts: Tensor, rows: Tensor, columns: Tensor, out: Tensor, share: int) -> None:
    """Do what `asvgp.linalg.multifrontal.gather.gather` describes."""
    n, num_rows, num_columns = out.shape
    tiles = triton.cdiv(num_rows, TILE), triton.cdiv(num_columns, TILE)
    # the kernel knows no strides within rows
    parts, rows, columns = (
        each if each.stride(2) == 1 else each.contiguous() for each in (parts, rows, columns)
    )
    with torch.cuda.device(out.device) if out.is_cuda else torch.no_grad():
        _gather_tile[(n * tiles[0] * tiles[1],)](  # pyright: ignore[reportIndexIssue]
            parts, rows, columns, out, num_rows, num_columns, *tiles, share,
            *parts.stride()[:2], *out.stride()[:2], *rows.stride()[:2], *columns.stride()[:2],
            PARTS=rows.shape[1], TILE=TILE,  # pyright: ignore[reportArgumentType]
        )  # fmt: skip


# Triton would compile anew for sizes and strides that are 1 or multiples of 16.
_SIZES = [
    "num_rows", "num_columns", "tiles_down", "tiles_across", "share", "part_step", "part_row",
    "out_step", "out_row", "rows_box", "rows_part", "columns_box", "columns_part",
]  # fmt: skip


@triton.jit(do_not_specialize=_SIZES)
def _gather_tile(
    parts, rows, columns, out, num_rows, num_columns, tiles_down, tiles_across, share,
    part_step, part_row, out_step, out_row, rows_box, rows_part, columns_box, columns_part,
    PARTS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    box = (tile // (tiles_down * tiles_across)).to(tl.int64)
    i = tile // tiles_across % tiles_down * TILE + tl.arange(0, TILE)
    j = tile % tiles_across * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), dtype=tl.float64)
    for c in tl.static_range(PARTS):
        row = tl.load(rows + box * rows_box + c * rows_part + i, mask=i < num_rows, other=-1)
        column = tl.load(
            columns + box * columns_box + c * columns_part + j, mask=j < num_columns, other=-1
        )
        part = parts + (box * PARTS + c) // share * part_step
        where = row.to(tl.int64)[:, None] * part_row + column[None, :]
        there = (row >= 0)[:, None] & (column >= 0)[None, :]
        total += tl.load(part + where, mask=there, other=0.0)
    inside = (i < num_rows)[:, None] & (j < num_columns)[None, :]
    where = i.to(tl.int64)[:, None] * out_row + j[None, :]
    tl.store(out + box * out_step + where, total, mask=inside)
