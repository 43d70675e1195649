"""A solution of 07_group_norm.py."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, groups):
        super().__init__()
        self.norm = nn.GroupNorm(groups, features)

    def forward(self, x):
        grouped = x.view(len(x), self.norm.num_groups, -1)
        variance, mean = torch.var_mean(grouped, dim=-1, correction=0, keepdim=True)
        normed = ((grouped - mean) * torch.rsqrt(variance + self.norm.eps)).view_as(x)
        return normed * self.norm.weight.view(-1, 1, 1) + self.norm.bias.view(-1, 1, 1)
