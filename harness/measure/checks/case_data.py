"""Case data: a case's inputs and what its reference gives for them, by seed, kept where no variant reaches them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch

from harness.configuration.errors import UsageError, one_line
from harness.configuration.operation import SEEDS, Case, Inputs, describe, make_inputs, resolve
from harness.measure.binding import bind_reference
from harness.measure.checks.declarations import check_inputs
from harness.measure.checks.reference import Expected, NotComparableError, expect
from harness.measure.modules import ModuleError
from harness.measure.precision import upcast
from harness.measure.subject import Subject
from harness.measure.tensors import intact, seal, unseal
from harness.measure.trees import flatten, tree_map


class CaseData:
    """The inputs of a case's variants, and the outputs to compare theirs with."""

    def __init__(self, case: Case, change: Callable[[Inputs], Inputs] = lambda inputs: inputs):
        """`change` is applied to what `op.inputs` makes."""
        self._case = case
        self._change = change
        self._operation = case.operation
        self._dtype = getattr(torch, case.dtype)
        self._inputs: dict[int, Inputs] = {}
        self._expected: dict[int, Expected] = {}
        self.warnings: list[str] = []  # about what the reference gives

    def inputs(self, seed: int) -> Inputs:
        """New copies, on the CPU, of the inputs for a seed; `op.inputs` is called once a seed.

        Raises UsageError if `op.inputs` fails, or makes what cannot be measured.
        """
        if seed not in self._inputs:
            generator = torch.Generator(device="cpu").manual_seed(seed % SEEDS)
            inputs = make_inputs(self._operation, self._dtype, generator)
            check_inputs(self._operation, inputs, self._dtype)
            self._inputs[seed] = tree_map(seal, self._change(inputs))
        copies: Inputs = tree_map(unseal, self._inputs[seed])
        return copies

    def defined(self, seed: int, finite: bool = False) -> bool:
        """Whether `op.inputs` and the reference take the case's dims: neither raises, and all is `finite` if asked."""
        try:
            inputs = self.inputs(seed)
            bound = bind_reference(self._case, inputs)
            exact = tree_map(upcast, inputs if isinstance(inputs, dict) else list(inputs))
            outputs = Subject("reference", bound.function, exact, self._case.mode, seed, bound.state)()
            return not finite or all(bool(each.isfinite().all()) for each in outputs if isinstance(each, torch.Tensor))
        except Exception:
            return False

    def expected(self, seed: int) -> Expected:
        """The reference's outputs for the inputs of a seed; evaluated once.

        Raises UsageError if the reference raises, or returns what cannot be compared.
        """
        if seed not in self._expected:
            self._expected[seed], notes = self._evaluated(seed, {})
            self.warnings += [f"{self._where}: {note}" for note in notes]
            for what in self._expected[seed].opaque.values():
                self.warnings.append(f"{self._where}: {what}, which is not compared")
        return self._expected[seed]

    def expected_from(self, seed: int, buffers: Mapping[str, torch.Tensor]) -> Expected:
        """The same of a module some calls later, when its buffers have these values; it is not kept."""
        return self._evaluated(seed, buffers)[0]

    @property
    def _where(self) -> str:
        return f"op.reference={describe(resolve(self._operation.right, 'op.reference'))}"

    def _evaluated(self, seed: int, buffers: Mapping[str, torch.Tensor]) -> tuple[Expected, Sequence[str]]:
        """What the reference gives, and what is to be said of it."""
        case = self._case
        inputs = self.inputs(seed)
        try:
            bound = bind_reference(case, inputs)
            if bound.state is not None:
                bound.state.begin_with(buffers)
            expected = expect(
                bound.function, inputs, case.mode, self._dtype, case.seed, self._operation.tolerance, bound.state
            )
        except UsageError:
            raise
        except (NotComparableError, ModuleError) as error:
            raise UsageError(f"{self._where}: {error}") from error
        except Exception as error:
            raise UsageError(f"{self._where}: raised {type(error).__name__}: {one_line(error)}") from error
        return expected, bound.notes

    def forget_expected(self) -> None:
        """Drops what the reference gave: it must not be in the process while a variant runs."""
        self._expected.clear()

    def forget_inputs(self, seeds: Iterable[int]) -> None:
        """Drops the inputs for these seeds."""
        for seed in seeds:
            self._inputs.pop(seed, None)

    def drop_overwritten(self) -> bool:
        """Forgets what somebody has written over in memory, so that it is made anew; returns whether there was any."""
        inputs = [seed for seed, kept in self._inputs.items() if not all(map(intact, flatten(kept)))]
        expected = [seed for seed, kept in self._expected.items() if not all(map(intact, kept.sealed))]
        for seed in inputs:
            del self._inputs[seed]
        for seed in expected:
            del self._expected[seed]
        return bool(inputs or expected)
