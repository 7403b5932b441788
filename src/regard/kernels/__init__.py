"""Triton kernels for GPUs, and CPU formulas that are faster than torch's.

A module of this folder launches the kernels of its namesake in `triton/`, which is imported with
the first launch. `dispatch` decides whether a kernel applies; where none does, the caller computes
the plain formula. Under Triton's interpreter (TRITON_INTERPRET=1) the kernels run on a CPU, which
is how they are tested.
"""
