"""Threads, memory, progress and interrupts: what long work needs whatever it computes."""
