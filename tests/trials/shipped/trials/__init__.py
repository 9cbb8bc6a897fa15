raise RuntimeError("the model's trials shadows ours")
