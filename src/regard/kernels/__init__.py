"""Fast paths for GPUs, each beside the plain formula that it is held equal to.

A module of this folder has its plain twin, or names it where that is more than a formula; those of
training have an operator, too, that torch's compiler and autograd know. `device/` has the Triton
kernels, which are imported when one is first used.
Under Triton's interpreter (TRITON_INTERPRET=1) they run on a CPU too: that is how they are tested.
"""
