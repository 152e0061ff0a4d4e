/** How many requests a rollout makes of a server that fails or hangs: the levels that retry must not multiply. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { OpenAIChatClient } from '../../src/clients/openai-chat.ts';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { Dataset } from '../../src/core/dataset.ts';
import { reward, Rubric } from '../../src/core/rubric.ts';
import { SingleTurnEnv } from '../../src/core/single-turn.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';
import { runRollouts } from '../../src/rollouts/run-rollouts.ts';
import { openVllm } from '../loopback/vllm-client.ts';
import type { PolicyClient } from '../../src/clients/policy-client.ts';
import { type Loopback, loopback, sendJson } from '../transport/loopback.ts';

const MAX_RETRIES = 3;
const environment = new SingleTurnEnv({
  id: 'one',
  eval: new Dataset('one', [{ exampleId: 0, prompt: [{ role: 'user' as const, content: 'Who?' }] }]),
  rubric: new Rubric({ funcs: [reward(() => 1, { name: 'one' })] }),
});

async function play(client: PolicyClient): Promise<Rollout> {
  const rows = [...environment.eval].map((row) => ({ row, indices: [0] }));
  const signal = new AbortController().signal;
  const options = { environment, client, sampling: { temperature: 1, topP: 1 }, maxTokens: 9, maxConcurrent: 1, timeoutMs: null, seed: 0, signal };
  try {
    for await (const { rollouts } of runRollouts(rows, { ...options, maxReplays: MAX_RETRIES })) return rollouts[0]!;
  } finally {
    await client.close();
  }
  return expect.unreachable('no rollout was played');
}

const chat = (servers: readonly Loopback[], timeoutMs = 60_000) =>
  new OpenAIChatClient({
    baseUrls: servers.map(({ url }) => url),
    versions: new PolicyVersions({ version: 0, model: 'm' }),
    maxRetries: MAX_RETRIES,
    baseDelayMs: 1,
    timeoutMs,
  });

describe('a rollout against one server', () => {
  it.each([
    ['answers 503', 60_000, (response: Parameters<typeof sendJson>[0]) => sendJson(response, 503, {})],
    ['hangs', 500, () => {}],
  ])('that %s costs one request and its retries', async (_, timeoutMs, answer) => {
    await using server = await loopback((__, response) => answer(response));
    const rollout = await play(chat([server], timeoutMs));
    expect(rollout).toMatchObject({ reward: null, attempts: 1 });
    expect(rollout.error?.retryable).toBe(true);
    expect(server.requests).toHaveLength(1 + MAX_RETRIES);
  });

  it('costs as much token by token', async () => {
    await using server = await loopback(async (_, response) => {
      await sleep(1);
      sendJson(response, 500, {});
    });
    const { client } = await openVllm(server.url, { maxRetries: MAX_RETRIES, baseDelayMs: 1, hasChatTemplate: false });
    expect(await play(client)).toMatchObject({ reward: null, attempts: 1 });
    expect(server.requests).toHaveLength(1 + MAX_RETRIES);
  });
});

describe('a rollout with a second replica', () => {
  it('moves there when the first one stays down', async () => {
    const good = { choices: [{ finish_reason: 'stop', message: { content: 'ok' } }] };
    await using down = await loopback((_, response) => sendJson(response, 503, {}));
    await using well = await loopback((_, response) => sendJson(response, 200, good));
    expect(await play(chat([down, well]))).toMatchObject({ reward: 1, error: null, attempts: 2 });
  });
});
