#!/usr/bin/env bash
# Apache Kafka's own command-line tools against a cluster of ours: `make compat-java`. Needs Java 17, and Maven the
# first time: the jars are kept under .cache/java. Says of each tool whether it did what it should.
set -u
cd "$(dirname "$0")/../../.."
PYTHON=${PYTHON:-.venv/bin/python}
LIB=.cache/java/lib
HERE=tests/compat/java

if [ ! -d "$LIB" ]; then
    echo "fetching Apache Kafka's tools into $LIB"
    mvn -q -B -f $HERE/pom.xml dependency:copy-dependencies -DoutputDirectory="$PWD/$LIB" || { rm -rf "$LIB"; exit 2; }
fi

WORK=$(mktemp -d)
trap 'kill "$CLUSTER" 2>/dev/null; wait "$CLUSTER" 2>/dev/null; rm -rf "$WORK"' EXIT
sed 's/^port = .*/port = 0/' cluster.toml > "$WORK/cluster.toml"
mkfifo "$WORK/ready"
$PYTHON -m actors.cluster "$WORK/cluster.toml" > "$WORK/ready" 2> "$WORK/log" &
CLUSTER=$!
read -r _ _ BOOTSTRAP < "$WORK/ready"
echo "cluster at $BOOTSTRAP, $(basename $LIB/kafka-clients-*.jar .jar)"

failed=0
export CLASSPATH="$PWD/$LIB/*"

# expect NAME PATTERN COMMAND…: the command ends well, and what it prints has the pattern
expect() {
    local name=$1 pattern=$2
    shift 2
    if timeout 90 "$@" > "$WORK/out" 2>&1 < "${INPUT:-/dev/null}" && { [ -z "$pattern" ] || grep -Eq "$pattern" "$WORK/out"; }; then
        echo "passed  $name"
    else
        echo "FAILED  $name"
        sed 's/^/        /' "$WORK/out" | head -15
        failed=1
    fi
}

T=org.apache.kafka.tools
J="java -Xmx256m -XX:TieredStopAtLevel=1"
B="--bootstrap-server $BOOTSTRAP"
expect "broker-api-versions" "Produce\(0\)" $J $T.BrokerApiVersionsCommand $B
expect "topics --create" "Created topic java" $J $T.TopicCommand $B --create --topic java --partitions 3 --replication-factor 3
expect "topics --list" "^java$" $J $T.TopicCommand $B --list
expect "topics --describe" "PartitionCount: 3.*ReplicationFactor: 3" $J $T.TopicCommand $B --describe --topic java
expect "topics --alter" "." bash -c "$J $T.TopicCommand $B --alter --topic java --partitions 4 && $J $T.TopicCommand $B --describe --topic java | grep 'PartitionCount: 4'"
expect "configs --alter" "Completed updating config" $J kafka.admin.ConfigCommand $B --alter --entity-type topics --entity-name java --add-config retention.ms=86400000
expect "configs --describe --all of a topic" "retention.bytes=-1 sensitive=false synonyms=.DEFAULT_CONFIG:log.retention.bytes=-1.$" $J kafka.admin.ConfigCommand $B --describe --all --entity-type topics --entity-name java
expect "configs --describe --all of a broker" "num.partitions=3 sensitive=false synonyms=.STATIC_BROKER_CONFIG:num.partitions=3, DEFAULT_CONFIG:num.partitions=1.$" $J kafka.admin.ConfigCommand $B --describe --all --entity-type brokers --entity-name 1
expect "configs --describe" "retention.ms=86400000" $J kafka.admin.ConfigCommand $B --describe --entity-type topics --entity-name java
seq 1 1000 > "$WORK/lines"
INPUT=$WORK/lines expect "console-producer" "" $J $T.ConsoleProducer $B --topic java
expect "get-offsets" "java:" $J $T.GetOffsetShell $B --topic java
expect "get-offsets: all 1000 are there" "^1000$" bash -c "$J $T.GetOffsetShell $B --topic java | awk -F: '{sum += \$3} END {print sum}'"
for partition in 0 1 2 3; do $J $T.consumer.ConsoleConsumer $B --topic java --partition $partition --offset earliest --timeout-ms 3000 2>/dev/null; done | sort -n > "$WORK/read"
expect "console-consumer, by partition" "" cmp "$WORK/lines" "$WORK/read"
expect "verifiable-producer" '"sent":1000,"acked":1000' $J $T.VerifiableProducer $B --topic java --max-messages 1000 --acks -1
for codec in none gzip snappy lz4 zstd; do
    expect "producer-perf-test $codec" "5000 records sent" $J $T.ProducerPerformance --topic java --num-records 5000 --record-size 200 --throughput -1 --producer-props bootstrap.servers="$BOOTSTRAP" acks=all compression.type=$codec
done
expect "get-offsets: all 27000 are there" "^27000$" bash -c "$J $T.GetOffsetShell $B --topic java | awk -F: '{sum += \$3} END {print sum}'"
for partition in 0 1 2 3; do $J $T.consumer.ConsoleConsumer $B --topic java --partition $partition --offset earliest --timeout-ms 3000 2>/dev/null; done | wc -l > "$WORK/count"
expect "console-consumer of every codec: all 27000 are read" "^27000$" cat "$WORK/count"

# groups
consumer_of() { $J $T.consumer.ConsoleConsumer $B --topic java --from-beginning --timeout-ms 12000 "$@" 2>/dev/null | wc -l > "$WORK/count"; }
consumer_of --group classic
expect "console-consumer in a group: all 27000 are read" "^27000$" cat "$WORK/count"
consumer_of --group new --consumer-property group.protocol=consumer
expect "console-consumer in a group of the newer protocol: all 27000 are read" "^27000$" cat "$WORK/count"
G=$T.consumer.group.ConsumerGroupCommand
expect "consumer-groups --list" "^classic$" $J $G $B --list
expect "consumer-groups --describe" "classic +java +[0-9]+ +[0-9]+ +[0-9]+ +0 " $J $G $B --describe --group classic
expect "consumer-groups --describe --state" "Empty" $J $G $B --describe --group new --state
expect "consumer-groups --reset-offsets" "java +0 +0" $J $G $B --reset-offsets --group classic --topic java --to-earliest --execute
consumer_of --group classic
expect "console-consumer reads all 27000 again" "^27000$" cat "$WORK/count"
expect "consumer-groups --delete" "successful" $J $G $B --delete --group classic

# transactions
X=$T.TransactionsCommand
expect "features --describe" "transaction.version.*FinalizedVersionLevel: 2" $J $T.FeatureCommand $B describe
expect "topics --create, for transactions" "Created topic tx" $J $T.TopicCommand $B --create --topic tx --partitions 3 --replication-factor 3
expect "producer-perf-test with transactions" "5000 records sent" $J $T.ProducerPerformance --topic tx --num-records 5000 --record-size 200 --throughput 2000 --transactional-id perf --transaction-duration-ms 100 --producer-props bootstrap.servers="$BOOTSTRAP"
$J $T.consumer.ConsoleConsumer $B --topic tx --from-beginning --isolation-level read_committed --group tx --timeout-ms 6000 2>/dev/null | wc -l > "$WORK/count"
expect "console-consumer of committed records: all 5000 are read" "^5000$" cat "$WORK/count"
expect "transactions list" "^perf[[:space:]].*CompleteCommit" $J $X $B list
expect "transactions describe" "CompleteCommit" $J $X $B describe --transactional-id perf
expect "transactions describe-producers" "ProducerId" $J $X $B describe-producers --topic tx --partition 0
expect "transactions find-hanging" "" $J $X $B find-hanging --topic tx
$PYTHON - "$BOOTSTRAP" <<'EOF'
"""Leave a transaction open in a partition."""
import os, sys
from tools.client.producer import Producer

producer = Producer(sys.argv[1], transactional_id="hanging", transaction_timeout=600.0)
producer.init_transactions()
producer.begin()
producer.send("tx-hanging", b"x", partition=0)
producer.flush()
os._exit(0)
EOF
expect "transactions abort" "" $J $X $B abort --topic tx-hanging --partition 0 --start-offset 0
expect "transactions abort: nothing is open any more" "[[:space:]]None[[:space:]]*$" $J $X $B describe-producers --topic tx-hanging --partition 0
expect "transactions abort with an epoch that no coordinator has" "refused" bash -c "$J $X $B abort --topic tx-hanging --partition 0 --producer-id 0 --producer-epoch 0 --coordinator-epoch 2147483647 2>&1 | grep -q 'Failed to abort' && echo refused"
expect "transactional-message-copier: 1000 from topic to topic" '"totalProcessed":1000' $J $T.TransactionalMessageCopier --broker-list "$BOOTSTRAP" --input-topic tx --input-partition 0 --output-topic tx-copy --transactional-id copier --transaction-size 100 --consumer-group copiers --max-messages 1000 --use-group-metadata
$J $T.consumer.ConsoleConsumer $B --topic tx-copy --from-beginning --isolation-level read_committed --timeout-ms 6000 2>/dev/null | wc -l > "$WORK/count"
expect "console-consumer of the copy: all 1000 are read" "^1000$" cat "$WORK/count"
expect "delete-records" "low_watermark" bash -c "echo '{\"partitions\":[{\"topic\":\"java\",\"partition\":0,\"offset\":5}],\"version\":1}' > $WORK/delete.json; $J $T.DeleteRecordsCommand $B --offset-json-file $WORK/delete.json"
expect "log-dirs --describe" '"topic":|"partitions":' $J $T.LogDirsCommand $B --describe --topic-list java
expect "leader-election" "" $J $T.LeaderElectionCommand $B --election-type preferred --all-topic-partitions
expect "metadata-quorum" "LeaderId" $J $T.MetadataQuorumCommand $B describe --status
expect "topics --delete" "." bash -c "$J $T.TopicCommand $B --delete --topic java && ! $J $T.TopicCommand $B --list | grep -x java && echo gone"
if grep -q "Traceback\|ERROR\|CRITICAL" "$WORK/log"; then
    echo "FAILED  the brokers' log:"
    grep -A20 "Traceback\|ERROR\|CRITICAL" "$WORK/log" | head -60
    failed=1
fi
exit $failed
