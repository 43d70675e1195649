"""A stand-in for the older torch-neuronx, built on XLA: it imports, and gives torch no neuron device."""

__version__ = "2.9.0.2.11.0"


def trace(*args: object, **kwargs: object) -> None:
    raise NotImplementedError("a stand-in: nothing is traced here")
