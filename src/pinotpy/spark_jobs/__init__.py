"""Floor 7: Spark builds and pushes segments; the same job spec, readers, pipeline and builder as the jobs of one
machine.

    files ──► a unit of work a file, built in the executors (build_files)
    files ──► parcels (reading) ──► which segment each is for (cutting) ──► shuffle ──► segments (writing):
              when rows are regrouped
    table, SQL text ──► parcels (source_rows) ──► the same

The driver holds the plan and the reports, never rows. `java` starts Spark on the bundled JRE, `session` is the door to
pyspark.
"""
