"""Tensors and modules in which nothing is zero, to compare with formulas in float64."""

import torch


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def loud(module):
    """`module` in float64 with no weight at zero."""
    with torch.no_grad():
        for p in module.double().parameters():
            p.add_(0.3 * torch.randn_like(p))
    return module
