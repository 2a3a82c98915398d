#!/bin/bash
# The command-line tools that the trial uses, by the names that they have in the official image.
set -eu
case "$(basename "$0")" in
    kafka-topics.sh) class=org.apache.kafka.tools.TopicCommand ;;
    kafka-console-producer.sh) class=org.apache.kafka.tools.ConsoleProducer ;;
    kafka-console-consumer.sh) class=org.apache.kafka.tools.consumer.ConsoleConsumer ;;
    *) echo "unknown tool $0" >&2; exit 2 ;;
esac
exec java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp '/opt/kafka/libs/*' "$class" "$@"
