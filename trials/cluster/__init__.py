"""The Ray cluster: attaching to it, what is on it, and running a sweep on it as a job."""
