"""MLflow, for people: filled from the reports that stages write, so that it can be rebuilt from them.

The only package that imports mlflow. Every call goes through `MlflowClient` with an explicit run id: MLflow's active
run is thread-local, and `MLFLOW_RUN_ID` in the environment would redirect the fluent calls.
"""
