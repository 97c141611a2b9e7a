// Makes a topic, writes to it with each codec that kafkajs brings and in transactions, reads it as a member of a group,
// and prints what it finds, as JSON.
const { Kafka, CompressionTypes, logLevel } = require("kafkajs");

const [bootstrap, topic] = process.argv.slice(2);
const groupId = `${topic} readers`;
const kafka = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.ERROR });

// To partition 1: what is aborted, then what is committed, with the group's offset in it.
async function transact() {
  const producer = kafka.producer({ transactionalId: `${topic} writer`, idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const aborted = await producer.transaction();
  await aborted.send({ topic, messages: [{ partition: 1, value: "aborted" }] });
  await aborted.abort();
  const kept = await producer.transaction();
  await kept.send({ topic, messages: [1, 2, 3].map((number) => ({ partition: 1, value: `kept ${number}` })) });
  await kept.sendOffsets({
    consumerGroupId: groupId,
    topics: [{ topic, partitions: [{ partition: 0, offset: "1" }] }],
  });
  await kept.commit();
  await producer.disconnect();
}

// So many records, as the only member of the group, which goes on from what the transaction has committed.
async function consume(count) {
  const consumer = kafka.consumer({ groupId, readUncommitted: false, sessionTimeout: 10000 });
  const read = [];
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error));
    const eachMessage = async ({ partition, message }) => {
      read.push([partition, message.offset, message.value && message.value.toString()]);
      if (read.length === count) resolve();
    };
    consumer.run({ eachMessage }).catch(reject);
  });
  await consumer.stop(); // which commits what was read
  await consumer.disconnect();
  return read;
}

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
  await transact();
  const read = await consume(6);
  const committed = await admin.fetchOffsets({ groupId, topics: [topic] });
  const offsets = await admin.fetchTopicOffsets(topic);
  const configs = await admin.describeConfigs({ resources: [{ type: 2, name: topic }] });
  await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] });
  await admin.disconnect();
  const brokers = cluster.brokers.length;
  console.log(JSON.stringify({ made, brokers, offsets, configs: configs.resources.length, read, committed }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
