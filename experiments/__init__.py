"""The paper's experiments and the peers, one command each: see README.md beside this file."""
