"""A job spec to begin with."""

from __future__ import annotations

from typing import Final

EXAMPLE: Final = """\
# An ingestion job: files become segments, segments go to a table. All keys: docs/batch-ingestion.md.
# ${name} is filled in by --values name=…, the environment or --property-file; ${today} and ${yesterday} are dates.
executionFrameworkSpec:
  name: standalone            # processes of this machine; the same file runs on Spark by `pinotpy spark`

# SegmentCreation, Segment(Tar|Uri|Metadata)Push, SegmentCreationAnd(Tar|Uri|Metadata)Push
jobType: SegmentCreationAndTarPush

inputDirURI: /data/flights/${yesterday}     # a path or URI: file:, s3:, gs:, abfs:, hdfs:, …
includeFileNamePattern: 'glob:**/*.parquet'
outputDirURI: /data/flights-segments/${yesterday}
overwriteOutput: false        # what is there with the same bytes is no fault

recordReaderSpec:
  dataFormat: parquet         # csv, tsv, json, avro, parquet, orc

tableSpec:
  tableName: flights
  schemaURI: http://localhost:9000/tables/flights/schema
  tableConfigURI: http://localhost:9000/tables/flights

segmentNameGeneratorSpec:
  type: normalizedDate        # simple, normalizedDate, fixed, inputFile
  configs:
    segment.name.prefix: flights_batch

pinotClusterSpecs:
  - controllerURI: http://localhost:9000

pushJobSpec:
  pushAttempts: 3
  pushParallelism: 2

# What Pinot's spec does not have.
pinotpy:
  # sortColumns: [carrier]    # default: the table's sortedColumn
  # repartition: true         # by the table's segmentPartitionConfig
  # timeBucket: DAY
  # rowsPerSegment: 5000000
  onFileError: FAIL           # SKIP: leave out files that cannot be read
  # rejectFileURI: /data/flights-rejects
"""
