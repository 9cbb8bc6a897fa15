"""The user's model file: found, loaded, checked against the contract, adapted."""
