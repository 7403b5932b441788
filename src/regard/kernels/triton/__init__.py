"""Triton kernels. Importing a module of this folder imports triton, which not every machine has."""
