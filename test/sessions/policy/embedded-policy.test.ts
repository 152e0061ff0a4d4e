import { join } from 'node:path';
import type { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EmbeddedPolicy, loadNamedAdapter } from '../../../src/sessions/policy/embedded-policy.ts';
import { CancelledError, ConfigError, PolicyError } from '../../../src/core/errors.ts';
import { ServerHealth } from '../../../src/launch/server-health.ts';

const NANO = join(import.meta.dirname, '../../models/nano-base');
const { signal } = new AbortController();

/** Threads that are there, the oldest first. */
let threads: Worker[];
const watch = (thread: Worker) => {
  threads.push(thread);
  thread.once('exit', () => threads.splice(threads.indexOf(thread), 1));
};
beforeEach(() => {
  threads = [];
  process.on('worker', watch);
});
afterEach(() => process.off('worker', watch));

const open = (maxRestarts: number, said: string[] = []) =>
  EmbeddedPolicy.open({
    engine: { modelPath: NANO, threads: 2, cacheTokens: 4096 },
    servedName: 'nano',
    logProbsMode: 'raw',
    maxRestarts,
    onEvent: (text) => said.push(text),
    signal,
  });

async function models({ baseUrl, apiKey }: { readonly baseUrl: string; readonly apiKey: string }): Promise<readonly string[]> {
  const health = new ServerHealth({ baseUrl, apiKey });
  try {
    return await health.models({ signal, deadlineMs: 5000 });
  } finally {
    await health.close();
  }
}

async function loseThread(policy: EmbeddedPolicy): Promise<void> {
  const { lost } = await policy.engine(signal);
  await threads[0]!.terminate();
  await lost;
}

describe('EmbeddedPolicy', () => {
  it('serves the model on loopback to clients that have its key, and leaves no thread behind', async () => {
    const policy = await open(0);
    expect(policy.baseUrl).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/v1$/);
    expect(await models(policy)).toEqual(['nano']);
    await expect(models({ baseUrl: policy.baseUrl, apiKey: 'another' })).rejects.toThrow(/401/);
    expect(policy.replicas).toEqual([policy.baseUrl.replace('/v1', '')]);
    expect(threads).toHaveLength(2);
    await policy[Symbol.asyncDispose]();
    expect(threads).toEqual([]);
    await expect(policy.engine(signal)).rejects.toThrow(CancelledError);
  });

  it('is reopened behind the same URL and key after a thread died, once for all callers, and not more often than allowed', async () => {
    const said: string[] = [];
    await using policy = await open(1, said);
    const before = { baseUrl: policy.baseUrl, apiKey: policy.apiKey };
    await loseThread(policy);
    const [one, other] = await Promise.all([policy.engine(signal), policy.engine(signal), policy.revive(policy.replicas[0]!, signal)]);
    expect(one).toBe(other);
    expect(policy.restarts).toBe(1);
    expect(said).toEqual([expect.stringMatching(/^restarting the embedded engine \(1 of 1\): /)]);
    expect(await models(before)).toEqual(['nano']);
    await loseThread(policy);
    await expect(policy.revive(policy.replicas[0]!, signal)).rejects.toThrow(PolicyError);
    await expect(policy.engine(signal)).rejects.toThrow(/after 1 of 1 restarts/);
  });

  it('reports a directory that is not an adapter as a wrong setting', async () => {
    await using policy = await open(0);
    await expect(loadNamedAdapter(policy, { name: 'a', directory: NANO }, signal)).rejects.toThrow(ConfigError);
  });
});
