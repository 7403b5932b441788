"""Triton kernels. Importing a module of this folder imports triton, an optional dependency."""
