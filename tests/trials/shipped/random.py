raise RuntimeError("the model's random.py shadows that of Python")
