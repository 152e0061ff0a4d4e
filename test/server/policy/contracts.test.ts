/** The embedded policy keeps the contracts that a real vLLM keeps, with the same client and publisher. */
import { describe, expect, it } from 'vitest';
import { probePolicy } from '../../../src/clients/vllm-probe.ts';
import { policyClientContract } from '../../contracts/policy-client.ts';
import { weightPublisherContract } from '../../contracts/weight-publisher.ts';
import { NANO_MODEL, NANO_TRAITS, openVllm } from '../../loopback/vllm-client.ts';
import { nanoServer } from './nano-server.ts';

const signal = new AbortController().signal;

async function openPolicy() {
  const server = await nanoServer();
  const opened = await openVllm(server.url);
  return {
    ...opened,
    async [Symbol.asyncDispose]() {
      await opened[Symbol.asyncDispose]();
      await server.close();
    },
  };
}

policyClientContract('embedded engine', openPolicy, NANO_TRAITS);
weightPublisherContract('embedded engine', async () => Object.assign(await nanoServer({ maxLoraRank: 16 }), { baseModel: NANO_MODEL }));

describe('probePolicy', () => {
  it.each(['raw', 'processed'] as const)('finds a token policy with %s log-probs', async (logProbsMode) => {
    await using server = await nanoServer({ logProbsMode });
    expect(await probePolicy({ baseUrl: server.url, model: null, signal })).toMatchObject({
      kind: 'tokens',
      model: NANO_MODEL,
      maxModelLen: 2048,
      logProbsMode,
      hasChatTemplate: false,
      tokenizerHash: expect.stringMatching(/^sha256:/) as string,
    });
  });
});
