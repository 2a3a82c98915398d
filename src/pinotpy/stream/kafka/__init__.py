"""How are partitions of a Kafka topic read? The plug-in of streamType `kafka`, over librdkafka (extra `kafka`).

Read first: `factory`, then `consumer`. `properties` says what a table's keys mean to the client, `failures` which
layer failed; the library is imported in `client` alone.
"""
