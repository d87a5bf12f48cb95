"""PivotRL as a library: reinforcement learning on single, informative turns of recorded agent trajectories.

Data in, data out. Nothing here knows of Prefect, MLflow, DVC or boto3; `flows/` and `tasks/` do. Environment variables
are read for secrets, endpoints and places alone (the hub, servers of models, vLLM's environment), never for settings.
Source: PivotRL, arXiv 2603.21383. Importing this package takes no torch: import the sub-packages you need.
"""

__version__ = "0.1.0"
