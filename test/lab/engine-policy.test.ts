/** The engine in the same process keeps the contract of a policy behind a server. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { Random } from '../../src/core/random.ts';
import { EmbeddedEngine } from '../../src/engine/embedded-engine.ts';
import { enginePolicy } from '../../src/lab/engine-policy.ts';
import { policyClientContract } from '../contracts/policy-client.ts';
import { NANO_MODEL, NANO_TRAITS } from '../loopback/vllm-client.ts';

const signal = new AbortController().signal;

async function openPolicy() {
  const engine = await EmbeddedEngine.open({ modelPath: join(import.meta.dirname, '../models/nano-base'), threads: 1, signal });
  const versions = new PolicyVersions({ version: 0, model: NANO_MODEL });
  const client = enginePolicy(engine, versions);
  const close = async () => {
    await client.close();
    await engine.close();
  };
  return { client, versions, engine, [Symbol.asyncDispose]: close };
}

policyClientContract('embedded engine in the same process', openPolicy, NANO_TRAITS);

describe('enginePolicy', () => {
  it("samples the same tokens for the same generator of the rollout, and others for another's", async () => {
    await using opened = await openPolicy();
    const sampled = async (seed: number) => {
      await using lease = await opened.client.lease(signal, { random: Random.fromSeed(seed) });
      if (lease.kind !== 'tokens') throw new Error('expected a lease by token ids');
      const { ids: prompt } = await lease.render(NANO_TRAITS.messages, { format: 'continuation' });
      return [...(await lease.generate({ prompt, sampling: { temperature: 1, topP: 1 }, maxNewTokens: 24, stop: [], signal })).ids];
    };
    expect(await sampled(1)).toEqual(await sampled(1));
    expect(await sampled(1)).not.toEqual(await sampled(2));
  });
});
