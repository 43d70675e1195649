"""The triplet margin loss of three batches of vectors."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, margin=1.0):
        super().__init__()
        self.loss = nn.TripletMarginLoss(margin=margin)

    def forward(self, anchor, positive, negative):
        return self.loss(anchor, positive, negative)


batch_size = 4096
input_shape = (8192,)
dim = 1


def get_inputs():
    return [torch.rand(batch_size, *input_shape) for _ in range(3)]


def get_init_inputs():
    return [1.0]
