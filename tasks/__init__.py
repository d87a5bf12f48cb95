"""One thin Prefect task per stage, and the adapters to the outside: DVC, git, MLflow, S3, processes, reports."""
