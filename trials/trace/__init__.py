"""The operations of one training step without a GPU: FLOPs, bytes, kernels, tensors alive. See `tracing`."""
