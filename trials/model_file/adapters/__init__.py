"""How a model file is understood: one file per kind, each ending in a LoadedWorkload."""
