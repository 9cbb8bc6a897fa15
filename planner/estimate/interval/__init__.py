"""How wide an estimate must be: log-normal spreads, calibrated by conformal prediction."""
