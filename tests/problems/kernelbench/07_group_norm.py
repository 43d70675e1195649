"""Group normalisation of images."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features, groups):
        super().__init__()
        self.norm = nn.GroupNorm(groups, features)

    def forward(self, x):
        return self.norm(x)


batch_size = 16
features = 64
groups = 8
dim1 = 256
dim2 = 256


def get_inputs():
    return [torch.rand(batch_size, features, dim1, dim2)]


def get_init_inputs():
    return [features, groups]
