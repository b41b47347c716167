"""The user's arguments: columns of X, targets, weights and settings, read and checked."""
