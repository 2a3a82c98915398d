#!/bin/bash
# KAFKA_A_B of the environment becomes a.b of the settings, as in the official image; then the log folder is formatted once, and the broker runs.
set -eu
env | sed -nE 's/^KAFKA_([A-Z0-9_]+)=(.*)$/\1=\2/p' | while IFS='=' read -r name value; do
    [ "$name" = HEAP_OPTS ] || echo "$(echo "$name" | tr '[:upper:]_' '[:lower:].')=$value"
done > /opt/kafka/config/server.properties
run() { java ${KAFKA_HEAP_OPTS:-} -XX:+UseSerialGC -cp '/opt/kafka/libs/*' "$@"; }
run kafka.tools.StorageTool format --ignore-formatted --cluster-id "${CLUSTER_ID:-5L6g3nShT-eMCtK--X86sw}" --config /opt/kafka/config/server.properties
exec java ${KAFKA_HEAP_OPTS:-} -XX:+UseSerialGC -cp '/opt/kafka/libs/*' kafka.Kafka /opt/kafka/config/server.properties
