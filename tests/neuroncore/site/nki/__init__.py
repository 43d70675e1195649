"""A stand-in for AWS's nki: kernels are interpreted line by line, each as one execution of the simulated NeuronCore."""

from . import isa, language
from .kernel import jit

__version__ = "0.7.0+sim"
__all__ = ["isa", "jit", "language"]
