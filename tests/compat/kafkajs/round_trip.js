// Makes a topic, writes to it with each codec that kafkajs brings, and prints what it finds of it, as JSON.
// kafkajs has no consumer without a group, so its records are read by whoever runs this.
const { Kafka, CompressionTypes, logLevel } = require("kafkajs");

const [bootstrap, topic] = process.argv.slice(2);
const kafka = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.ERROR });

async function main() {
  const admin = kafka.admin();
  await admin.connect();
  const made = await admin.createTopics({ topics: [{ topic, numPartitions: 2, replicationFactor: 3 }] });
  const cluster = await admin.describeCluster();
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  for (const compression of [CompressionTypes.None, CompressionTypes.GZIP]) {
    const messages = [
      { partition: 0, key: `key ${compression}`, value: "value", headers: { trace: "1" } },
      { partition: 0, key: "tombstone", value: null },
    ];
    await producer.send({ topic, acks: -1, compression, messages });
  }
  await producer.disconnect();
  const offsets = await admin.fetchTopicOffsets(topic);
  const configs = await admin.describeConfigs({ resources: [{ type: 2, name: topic }] });
  await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] });
  await admin.disconnect();
  console.log(JSON.stringify({ made, brokers: cluster.brokers.length, offsets, configs: configs.resources.length }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
