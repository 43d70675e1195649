"""How an operation's input tensors are drawn."""

import torch
from torch import Tensor


def normal(*shape: int, dtype: torch.dtype, generator: torch.Generator, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Draw a CPU tensor of normal values that takes gradients.

    The values are drawn in float32 and then rounded, so that one seed gives like values in every dtype.
    """
    values = torch.randn(shape, dtype=torch.float32, generator=generator)
    return (values * std + mean).to(dtype).requires_grad_()


def norm_weight(hidden: int, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Draw a normalisation's weight: about one, as in a trained model, but never all ones."""
    return normal(hidden, dtype=dtype, generator=generator, mean=1.0, std=0.1)


def linear_weight(out_features: int, in_features: int, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Draw a linear layer's weight, scaled so that its outputs vary as its inputs do (LeCun et al., 1998)."""
    return normal(out_features, in_features, dtype=dtype, generator=generator, std=in_features**-0.5)
