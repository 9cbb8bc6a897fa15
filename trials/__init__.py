"""How fast is it: short benchmark trials of the user's model; the only package that imports torch and ray."""
