"""Problems from elsewhere, as operations: files of KernelBench's form, and definitions of FlashInfer-Trace."""
