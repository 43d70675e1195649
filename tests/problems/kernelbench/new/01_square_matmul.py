"""A solution of 01_square_matmul.py."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.einsum("ij,jk->ik", a, b)
