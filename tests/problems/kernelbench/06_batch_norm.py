"""Batch normalisation of images, in training."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm2d(features)

    def forward(self, x):
        return self.norm(x)


batch_size = 64
features = 64
height = 256
width = 256


def get_inputs():
    return [torch.rand(batch_size, features, height, width)]


def get_init_inputs():
    return [features]
