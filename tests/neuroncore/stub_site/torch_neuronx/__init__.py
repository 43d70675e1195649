"""What PyPI has under the name torch-neuronx: a package that only says that it is the wrong one."""

raise ImportError("WRONG PACKAGE. Please install the package from Neuron Repository - pip.repos.neuron.amazonaws.com")
