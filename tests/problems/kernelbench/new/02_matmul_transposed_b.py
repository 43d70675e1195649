"""A solution of 02_matmul_transposed_b.py."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return nn.functional.linear(a, b)
