"""How fast is it: short benchmark trials of the user's model.

The only package that imports torch and ray, but for `planner.checkpoint`, which runs in the user's own loop.
"""
