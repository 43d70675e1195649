"""C = A B of two square matrices."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


N = 1024 * 2


def get_inputs():
    return [torch.rand(N, N), torch.rand(N, N)]


def get_init_inputs():
    return []
