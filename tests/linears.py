"""What linear layers are tested with: inputs, weights and bias, and the slopes of all three."""

import torch

N, D, OUT = 11, 6, 20


def given(where, dtype=torch.float32):
    """Inputs (N, D) of a type, float32 weights (OUT, D) and a bias (OUT,), all to be learned."""
    generator = torch.Generator().manual_seed(0)
    sizes = [(N, D), (OUT, D), (OUT,)]
    types = [dtype, torch.float32, torch.float32]
    return [
        torch.randn(size, generator=generator).to(where, kind).requires_grad_()
        for size, kind in zip(sizes, types, strict=True)
    ]


def grads(made, inputs):
    """Those of the inputs, for some slope of what was made of them."""
    ways = torch.randn(made.shape, generator=torch.Generator().manual_seed(1)).to(made)
    return torch.autograd.grad(made, inputs, ways)
