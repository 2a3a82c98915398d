"""Keys that documents of Apache Pinot have and the models here do not: of its 1.5.1 and 0.6.0, and of the old manual.

They are kept and reported like any unknown key, and are no misspelt ones however near they are to a key that is known.
"""

from __future__ import annotations

from typing import Final

OTHER_KEYS: Final = frozenset(
    """
    allowDedupConsumptionDuringCommit allowPartialUpsertConsumptionDuringCommit allowTrailingZeros
    assignmentStrategy columnNameToJsonKeyPathMap columns complexFieldSpec dateTimeFieldSpec defaultNullValueString
    deriveNumDocsPerChunk dimensionFieldSpec disabled disasterRecoveryMode enableCommitTimeCompaction
    enableDeletedKeysCompactionConsistency enableIndexableExtras enableUnindexableExtras enforceConsumptionInOrder
    enricherType fieldPathsToDrop fieldPathsToPreserveInput fieldPathsToPreserveInputWithIndex
    fieldPathsToSkipStorage fieldsToDoubleIngest fstIndexType fstindexType functionParameters granularities
    ignoreNonDefaultTiers indexableExtrasField indexPaths indexVersion ingestionExceptionLogRateLimitPerMin
    jsonKeyValueSeparator maxBytesSize maxConsecutiveRecordFetchFailuresAllowed
    mergedTextIndexBeginOfDocAnchor mergedTextIndexBinaryDocumentDetectionMinLength mergedTextIndexDocumentMaxLength
    mergedTextIndexEndOfDocAnchor mergedTextIndexField mergedTextIndexPathToExclude mergedTextIndexPrefixToExclude
    metricFieldSpec newSegmentTrackingTimeMs noDictionaryCardinalityRatioThreshold optimizeCaseInsensitiveSearch
    parallelSegmentConsumptionPolicy partialUpsertMergerClass pauselessConsumptionEnabled perColumnProperties
    preComplexTypeTransform preload realtimeOffsetAutoResetHandlerClass retryOnSegmentBuildPrecheckFailure
    reverseTextIndexKeyValueOrder sampleValue schemaName snapshot tableSamplers targetDocsPerChunk
    targetMaxChunkSize timeUnit trackFilteredMessageOffsets tunerProperties type
    unindexableExtrasField unindexableFieldSuffix untrackedSegmentsDeletionBatchSize
    untrackedSegmentsRetentionTimeUnit untrackedSegmentsRetentionTimeValue upsertViewRefreshIntervalMs
    useAnonymousDotInFieldNames useIdealStateToCalculatePreviousSegment
    """.split()
)
