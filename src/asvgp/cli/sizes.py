"""Advice on how to make a large model file smaller."""

from __future__ import annotations

from asvgp.runtime.memory import in_words

LARGE = 5_000_000  # bytes


def smaller(gp, size: int) -> str:
    """Return advice that makes the file of a model on an automatic grid small, or no text.

    The file holds statistics on the finest grid that training could have chosen, and the
    posterior on the one that it chose: a number in place of "auto" leaves out the first.
    """
    if size <= LARGE or gp.num_basis != "auto":
        return ""
    chosen, kept, count = gp.posterior_.stats, gp.stats_, gp.num_basis_
    if kept.moments.size > 1.5 * chosen.moments.size:
        given = ",".join(map(str, count)) if isinstance(count, tuple) else count
        return (
            " Most of it is sums on a finer grid than training chose, for data to come: "
            f"--num-basis {given} keeps the chosen one only."
        )
    if isinstance(count, tuple):
        return ""
    levels = [level for level in gp.resolution_ if size * level.num_basis <= LARGE * count]
    if not levels:
        return ""
    last, best = levels[-1], gp.resolution_[-1]
    loss = (best.elbo - last.elbo) / (kept.count * len(kept.squares))
    about = in_words(round(size * last.num_basis / count))
    return (
        f" The automatic grid has {count:,} basis functions: --num-basis {last.num_basis} would "
        f"make the file about {about}, for {loss:.2g} nats per observation."
    )
