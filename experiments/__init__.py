"""The paper's tables and figures, and the methods they compare; not part of the package."""
