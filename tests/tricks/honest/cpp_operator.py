"""Honest: an operator in C++, built when it is imported."""

from __future__ import annotations

import torch
from torch.utils.cpp_extension import load_inline

_SOURCE = """
#include <torch/extension.h>
#include <cmath>
torch::Tensor rms(torch::Tensor x, torch::Tensor weight) {
  auto input = x.contiguous();
  auto result = torch::empty_like(input);
  const int64_t rows = input.size(0), width = input.size(1);
  const float* from = input.data_ptr<float>();
  const float* scale = weight.data_ptr<float>();
  float* to = result.data_ptr<float>();
  for (int64_t row = 0; row < rows; ++row, from += width, to += width) {
    float sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += from[i] * from[i];
    const float factor = 1.0f / std::sqrt(sum / width + 1e-6f);
    for (int64_t i = 0; i < width; ++i) to[i] = from[i] * factor * scale[i];
  }
  return result;
}
TORCH_LIBRARY(harness_tricks_cpp, m) { m.def("rms", rms); }
"""
load_inline("harness_tricks_cpp", _SOURCE, is_python_module=False, extra_cflags=["-O2"])


def candidate(x, weight):
    return torch.ops.harness_tricks_cpp.rms(x, weight)
