"""From what was measured to what was not: step time, throughput and memory with an error bar."""

from planner.estimate.estimator import Estimator, fit
from planner.estimate.values import Basis, Estimate, Hardware

__all__ = ["Basis", "Estimate", "Estimator", "Hardware", "fit"]
