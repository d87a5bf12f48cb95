-- The image makes the database `mlflow`; Prefect gets one of its own beside it.
CREATE DATABASE prefect OWNER pivotrl;
