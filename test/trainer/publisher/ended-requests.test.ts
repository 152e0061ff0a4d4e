import { afterAll, describe, expect, it } from 'vitest';
import { Random } from '../../../src/core/random.ts';
import { untilEnded } from '../../../src/trainer/publisher/ended-requests.ts';
import { LoraReplica } from '../../../src/trainer/publisher/lora-routes.ts';
import { loraServer } from '../../loopback/lora-server.ts';
import { until } from '../../transport/loopback.ts';
import { PublisherRun } from './publisher-run.ts';

const signal = new AbortController().signal;
const server = await loraServer();
const silent = await loraServer({ hasMetrics: false });
const run = new PublisherRun(server);
const open = (url: string) => new LoraReplica({ baseUrl: url, maxRetries: 0, timeoutMs: 10_000, random: Random.fromSeed(0) });
afterAll(async () => {
  run[Symbol.dispose]();
  await server[Symbol.asyncDispose]();
  await silent[Symbol.asyncDispose]();
});

describe('untilEnded', () => {
  it('waits for an adapter in use, and believes no figure that is older than its own step', async () => {
    await run.post('/v1/load_lora_adapter', { lora_name: 'a', lora_path: run.adapter({}).directory });
    const leaving = new AbortController();
    const left = run.generateForever('a', leaving.signal);
    await until(async () => (await run.adaptersInUse()).includes('a'));
    const replica = open(server.url);
    let hasEnded = false;
    const ended = untilEnded(replica, { model: 'a', baseModel: server.baseModel, agoMs: 0 }, signal).then(() => (hasEnded = true));
    await until(() => server.requests.filter((request) => request === 'GET /metrics').length > 3);
    expect(hasEnded).toBe(false);
    leaving.abort();
    await left;
    await ended;
    expect(await replica.adaptersInUse(signal)).toEqual(new Set());
    await replica.close();
  });

  it('waits a while where the server reports no adapters, and no longer', async () => {
    const replica = open(silent.url);
    expect(await replica.adaptersInUse(signal)).toBeNull();
    await untilEnded(replica, { model: 'a', baseModel: silent.baseModel, agoMs: 9_990 }, signal);
    await expect(untilEnded(replica, { model: 'a', baseModel: silent.baseModel, agoMs: 0 }, AbortSignal.timeout(50))).rejects.toMatchObject({
      name: 'CancelledError',
    });
    await replica.close();
  });
});
