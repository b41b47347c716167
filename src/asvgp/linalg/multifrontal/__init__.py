"""Multifrontal elimination by nested dissection: the one description of its layout.

**The matrix.** A box of ``cells = (n_1, ..., n_D)`` finest cells carries several components
(`Space`), each a tensor product of B-splines on cells ``2**r`` finest cells wide, and a few
global *columns* that are alive everywhere. Functions are numbered component after
component, in C order inside each, then the columns. The matrix is a sum over *leaf boxes*,

    P = sum over leaves of E_leaf, a dense element over the functions alive on the leaf,

so two functions are coupled only if they are alive on one leaf.

**The tree.** Every depth of the tree halves all its boxes in one and the same input, so the
leaves are a tensor grid of intervals and all have the same depth. The children of box ``b``
are the boxes ``2b`` and ``2b + 1`` of the level below: a subtree is a contiguous range of
boxes on every level. ``levels[0]`` are the leaves, ``levels[-1]`` is the root; with a single
leaf they are the same.

**A front** is the dense symmetric matrix of one box, over the functions alive on the box
which no box below has eliminated. Its rows are, in this order,

    pivots     functions that live on this box alone: fully summed, eliminated here
    boundary   functions that live on other boxes too: their Schur complement goes to the
               parent's front ("extend-add")

A front's matrix is its leaf's element (at the leaves), or the sum of its children's Schur
complements, and with L the factor of the pivots' block

    F = [F_pp .  ]     L_pp = chol(F_pp),   L_bp = F_bp L_pp^-T,   U = F_bb - L_bp L_bp^T.
        [F_bp F_bb]

The columns are pivots of the root, where nothing is left over. `tests` hold a reference
elimination in a dozen lines (``test_multifrontal_symbolic.py``).

**The order** in all fronts is that of elimination: by the level at which a function is
eliminated, then by its number. So the map from a child's boundary to its parent's rows is
increasing, the rows which become the parent's pivots are the leading ones, and
neighbouring rows mostly stay neighbours: extend-add is nearly a few block copies.

**Padding.** All fronts of a level share one shape: p pivots, then q boundary rows, where p
and q are the largest counts of the level. So the boundary begins at row p in every front,
however few pivots it has, and -1 marks a row (or an index) that is not there. A numeric
phase that works on padded fronts puts ones on the diagonal of the missing pivots and
zeros elsewhere; one that does not pad subtracts ``p - num_pivots[b]`` from positions of
boundary rows, or treats the two blocks apart: of child c's boundary rows the first
``num_summed[b, c]`` go to pivots (position ``scatter``), the others to boundary rows
(number ``scatter - p``).

Letters and shapes (all integers, int32, read-only):

================= ================= ======================================================
``L``, ``B``                        number of leaves, of boxes of a level
``s``                               functions alive on a leaf, padded (below)
``leaf_intervals`` D x (2**s_d + 1) edges, in finest cells, of the leaves in each input
``leaves``        (L, D)            interval number of a leaf in each input
``leaf_ranges``   component, input  first function alive on each interval, and how many
``leaf_index``    (L, s)            functions alive on a leaf: component after component, in
                                    C order inside, each input padded to its longest range
                                    (a fixed tensor-product position); then the columns
``rows``          (B, p + q)        functions of the fronts' rows
``pivots``        (B, p)            ``rows[:, :p]``
``boundary``      (B, q)            ``rows[:, p:]``
``num_pivots``    (B,)              pivots, and boundary rows, that are there: the leading
``num_boundary``  (B,)              ones of each part
``source``        (L, p + q)        leaves only: place in the leaf's block (0 .. s - 1) of
                                    every front row; (B, 0) above
``scatter``       (B, 2, q below)   place in this front (0 .. p + q - 1) of every boundary
                                    row of both children; (L, 0, 0) at the leaves
``num_summed``    (B, 2)            how many of those are pivots here; (L, 0) at the leaves
================= ================= ======================================================
"""

from asvgp.linalg.multifrontal.symbolic import Cost, Level, Range, Space, Tree, symbolic

__all__ = ["Cost", "Level", "Range", "Space", "Tree", "symbolic"]
