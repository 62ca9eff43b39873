"""As where Ray is not installed."""

RayWorkerWrapper = None
