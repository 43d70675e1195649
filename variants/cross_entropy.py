"""Cross-entropy of logits against target classes, averaged over the rows."""

import torch
from torch import Tensor

from variants._inputs import normal
from variants._work import least_work


def inputs(
    rows: int, vocab: int, dtype: torch.dtype, generator: torch.Generator, index_dtype: torch.dtype = torch.int64
) -> tuple[Tensor, Tensor]:
    """Draw logits (rows, vocab) and targets (rows,)."""
    logits = normal(rows, vocab, dtype=dtype, generator=generator)
    return logits, torch.randint(vocab, (rows,), generator=generator, dtype=index_dtype)


def reference(logits: Tensor, targets: Tensor) -> Tensor:
    rows = torch.arange(len(targets), device=targets.device)
    return (torch.logsumexp(logits, dim=-1) - logits[rows, targets]).mean()


def work(
    rows: int, vocab: int, dtype: torch.dtype, mode: str, index_dtype: torch.dtype = torch.int64
) -> dict[str, int]:
    """Count four FLOPs an element and four a row forward; three an element and one a row backward."""
    elements = rows * vocab
    return least_work(
        mode,
        dtype,
        flops=(4 * elements + 4 * rows, 3 * elements + rows),
        inputs=elements,
        outputs=1,
        constant_bytes=rows * index_dtype.itemsize,
    )


def naive(logits: Tensor, targets: Tensor) -> Tensor:
    """Take the log-softmax by hand, gather the targets', and return minus their mean, a scalar."""
    with torch.no_grad():  # any shift gives the same result, so that its gradient is rounding error alone
        highest = logits.amax(dim=-1, keepdim=True)
    shifted = logits - highest
    log_probabilities = shifted - shifted.exp().sum(dim=-1, keepdim=True).log()
    return -log_probabilities.gather(-1, targets.unsqueeze(-1)).mean()


def fused(logits: Tensor, targets: Tensor) -> Tensor:
    """Let one operator do it all, which takes targets of int64 alone."""
    return torch.nn.functional.cross_entropy(logits, targets.long())
