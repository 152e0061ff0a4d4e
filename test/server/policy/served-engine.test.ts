import { getEventListeners } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CancelledError } from '../../../src/core/errors.ts';
import { DEFAULT_LIMITS } from '../../../src/server/policy/policy-app.ts';
import { PLAIN_SAMPLING } from '../../../src/server/policy/sampling-defaults.ts';
import { ServedEngine } from '../../../src/server/policy/served-engine.ts';
import { nanoRequest } from '../../engine/nano-requests.ts';
import { type NanoServer, nanoServer } from './nano-server.ts';

describe('ServedEngine.generate', () => {
  let server: NanoServer;
  let served: ServedEngine;
  beforeAll(async () => {
    server = await nanoServer();
    served = new ServedEngine({
      engine: server.engine,
      servedName: 'nano',
      logProbsMode: 'raw',
      defaults: PLAIN_SAMPLING,
      limits: DEFAULT_LIMITS,
      version: 'test',
      onFailure: () => {},
    });
  });
  afterAll(() => server.close());

  it('lets go of its client once everything has ended', async () => {
    const client = new AbortController();
    await served.generate([nanoRequest(), nanoRequest()], { client: client.signal });
    await expect(served.generate([nanoRequest({ prompt: new Int32Array(0) })], { client: client.signal })).rejects.toThrow('at least one prompt');
    expect(getEventListeners(client.signal, 'abort')).toEqual([]);
  });

  it('starts nothing for a client that has already left', async () => {
    const { promptTokens } = server.engine.stats();
    await expect(served.generate([nanoRequest()], { client: AbortSignal.abort() })).rejects.toThrow(CancelledError);
    expect(server.engine.stats().promptTokens).toBe(promptTokens);
  });

  it('refuses the request whose log-probs, with those of all that run, are more than eight of the largest requests may have, until one has ended', async () => {
    const small = new ServedEngine({ ...served.options, limits: { ...DEFAULT_LIMITS, maxLogProbs: 100 } });
    const { signal: client } = new AbortController();
    const ask = () => small.generate([nanoRequest({ maxTokens: 10, logProbs: 5 }), nanoRequest({ maxTokens: 10, logProbs: 5 })], { client });
    const running = Array.from({ length: 8 }, ask);
    await expect(ask()).rejects.toMatchObject({
      status: 503,
      retryable: true,
      message: expect.stringMatching(/log-probs of running requests/) as string,
    });
    // Log-probs of the sampled tokens alone are not objects.
    running.push(small.generate([nanoRequest({ maxTokens: 10, logProbs: 0 })], { client }));
    await Promise.all(running);
    expect(await ask()).toHaveLength(2);
  });
});
