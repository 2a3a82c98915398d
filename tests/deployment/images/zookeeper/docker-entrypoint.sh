#!/bin/bash
# Settings from the variables that the official image reads; only those that docker-compose.yml sets.
set -eu
cat > /conf/zoo.cfg <<CONF
dataDir=/data
dataLogDir=/datalog
clientPort=2181
tickTime=2000
4lw.commands.whitelist=${ZOO_4LW_COMMANDS_WHITELIST:-srvr}
admin.enableServer=${ZOO_ADMINSERVER_ENABLED:-true}
autopurge.purgeInterval=${ZOO_AUTOPURGE_PURGEINTERVAL:-0}
autopurge.snapRetainCount=${ZOO_AUTOPURGE_SNAPRETAINCOUNT:-3}
CONF
exec java "-Xmx${ZK_SERVER_HEAP:-1000}m" -XX:+UseSerialGC -cp '/opt/zookeeper/*' org.apache.zookeeper.server.quorum.QuorumPeerMain /conf/zoo.cfg
