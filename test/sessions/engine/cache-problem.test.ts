import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { EmbeddedPolicy } from '../../../src/sessions/policy/embedded-policy.ts';
import { openEngine } from '../../../src/sessions/engine/open-engine.ts';
import { ConfigError } from '../../../src/core/errors.ts';

const modelPath = join(import.meta.dirname, '../../models/nano-base');
const options = (cacheTokens: number) => ({ modelPath, threads: 2, maxModelLen: 512, cacheTokens, signal: AbortSignal.timeout(60_000) });
const refusal = async (cacheTokens: number) => {
  const error: unknown = await openEngine(options(cacheTokens), '--cache-tokens').catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(ConfigError);
  return (error as ConfigError).message;
};

describe('cacheProblem', () => {
  it('names the setting, what was asked for, and the most that fits, which then opens', async () => {
    const message = await refusal(50_000_000);
    const [, most] =
      /^--cache-tokens must be at most (\d+), which is what each of its 2 threads has left for its cache .*; got 50000000$/.exec(message) ?? [];
    expect(Number(most)).toBeGreaterThan(512);
    const engine = await openEngine(options(Number(most)));
    expect(engine.stats().threads).toBe(2);
    await engine.close();
  });

  it('names the minimum, the longest sequence', async () => {
    expect(await refusal(511)).toBe('--cache-tokens must be at least 512, the length of the longest sequence, got 511');
  });

  it('calls it by its key where a training run samples in this process', async () => {
    const { signal, ...engine } = options(50_000_000);
    const opening = EmbeddedPolicy.open({ engine, servedName: 'nano', logProbsMode: 'raw', signal });
    await expect(opening).rejects.toThrow(/^policy\.embedded\.cache_tokens must be at most \d+, .*; got 50000000$/);
  });
});
