"""Problems from elsewhere, as operations: files of KernelBench's form."""
