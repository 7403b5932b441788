"""Fast paths for GPUs, each beside the plain formula that it is held equal to.

A module of this folder has the plain twin, and an operator that torch's compiler and autograd know;
`device/` has the Triton kernels behind the operators, which are imported when one is first used.
Under Triton's interpreter (TRITON_INTERPRET=1) they run on a CPU too: that is how they are tested.
"""
