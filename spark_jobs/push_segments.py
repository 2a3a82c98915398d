"""Pushes the segments that an ingestion job built: `spark-submit spark_jobs/push_segments.py job.yaml`. See
docs/spark.md.
"""

from pinotpy.spark_jobs.commands import main_of_script
from pinotpy.spark_jobs.steps import Step

if __name__ == "__main__":
    main_of_script(Step.PUSH)
