"""Triton kernels for GPUs, and CPU formulas that are faster than torch's.

A module launches the kernels of the module of the same name in `triton/`, which the first launch
imports. Where `dispatch` says that no kernel applies, the caller computes the plain formula. Tests
run kernels on a CPU, by Triton's interpreter (TRITON_INTERPRET=1).
"""
