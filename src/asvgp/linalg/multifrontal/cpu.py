from asvgp.linalg.multifrontal.dense import DenseFactor


def CpuFactor(tree, elements):
    return DenseFactor.from_elements(tree.size, tree.leaf_index, elements)
