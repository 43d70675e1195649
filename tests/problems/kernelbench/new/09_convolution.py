"""A solution of 09_convolution.py."""

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, bias=False):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, bias=bias)

    def forward(self, x):
        size = self.conv.kernel_size[0]
        patches = nn.functional.unfold(x, size)
        product = self.conv.weight.flatten(1) @ patches
        return product.unflatten(-1, (x.shape[-2] - size + 1, -1))
