"""Mish: x · tanh(softplus(x))."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * torch.tanh(nn.functional.softplus(x))


batch_size = 4096
dim = 16384


def get_inputs():
    return [torch.rand(batch_size, dim)]


def get_init_inputs():
    return []
