"""The entry point that `import torch` loads and calls."""


def load() -> None:
    """Does nothing: the import of this package, on the way here, has registered the device.

    If the program imports torch_neuronx before torch, that import isn't finished when torch comes here, and
    registers the device afterwards. So this can't stand in `__init__`.
    """
