/** Teachers over the nano model: the embedded engine, a server in front of it, and those that are refused. */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Disposers } from '../../../../src/core/disposers.ts';
import { ConfigError } from '../../../../src/core/errors.ts';
import { EmbeddedPolicy } from '../../../../src/sessions/policy/embedded-policy.ts';
import { checkTeacher } from '../../../../src/sessions/training/teacher/check-teacher.ts';
import { openTeacher } from '../../../../src/sessions/training/teacher/open-teacher.ts';
import { EmbeddedBackend } from '../../../../src/trainer/gradients/embedded/embedded-backend.ts';
import type { TokenScorer } from '../../../../src/trainer/teacher.ts';
import { openEngine } from '../../../../src/sessions/engine/open-engine.ts';
import { TemporaryFolder } from '../../../cli/eval/temporary-folder.ts';
import { CountingEnv } from '../../../rollouts/counting-env.ts';
import { someConfig } from '../../../trainer/some-config.ts';

const NANO = join(import.meta.dirname, '../../../models/nano-base');
const { signal } = new AbortController();
const SEQUENCES = [
  { ids: Int32Array.from([5, 9, 300, 41, 700, 12, 8]), targets: Int32Array.of(2, 3, 5) },
  { ids: Int32Array.from([1, 2, 3]), targets: Int32Array.of(1) },
  { ids: Int32Array.from([1, 2, 3]), targets: new Int32Array(0) },
];
const LONG = { ids: new Int32Array(5000).fill(7), targets: Int32Array.of(3, 4999) };

const configOf = (teacher: object, model = NANO) => someConfig({ model: { path: model }, backend: { threads: 1 }, algorithm: { teacher } });

async function opened(teacher: object, variables: Readonly<Record<string, string>> = {}, secrets = new Set<string>()) {
  const disposers = new Disposers();
  const environment = new CountingEnv({ rows: 2, maxTurns: 1 });
  const found = await openTeacher({ config: configOf(teacher), environment, variables, secrets, note: () => {}, signal }, disposers).catch(
    async (error: unknown) => {
      await disposers.disposeAsync();
      throw error;
    },
  );
  return { scorer: found!.scorer as TokenScorer, [Symbol.asyncDispose]: () => disposers.disposeAsync() };
}

/** The log-probs that a trainer computes. */
async function trained(): Promise<number[][]> {
  const engine = await openEngine({ modelPath: NANO, cacheTokens: 0, threads: 1, signal });
  const adapter = { rank: 4, alpha: 8, targets: ['q_proj' as const], seed: 0, initial: null };
  const backend = await EmbeddedBackend.on(engine, { adapter, gradientCheckpointing: false, ownsEngine: true, signal });
  try {
    const found: number[][] = [];
    for (const { ids, targets } of SEQUENCES.filter((each) => each.targets.length > 0)) {
      const batch = { ids, targets, offsets: Int32Array.of(0, ids.length), temperature: 1 };
      found.push([...(await backend.forward(batch, { retain: false, adapter: 'off', signal })).logProbs]);
    }
    return [...found, []];
  } finally {
    await backend.close();
  }
}

describe('openTeacher', () => {
  it('scores tokens in this process as the trainer does, and no token of a sequence beyond the window', async () => {
    await using teacher = await opened({ path: NANO });
    const scores = await teacher.scorer.score([...SEQUENCES, LONG], signal);
    const expected = await trained();
    for (const [i, own] of expected.entries()) {
      expect(scores[i]).toHaveLength(own.length);
      for (const [t, value] of own.entries()) expect(scores[i]![t]).toBeCloseTo(value, 4);
    }
    expect([...scores[3]!]).toEqual([NaN, NaN]);
    // The same to the bit, whatever else is scored at the same time.
    expect(await teacher.scorer.score(SEQUENCES.slice(0, 1), signal)).toEqual([scores[0]]);
  });

  it('asks a server for the same log-probs, and keeps its key secret', async () => {
    await using policy = await EmbeddedPolicy.open({ engine: { modelPath: NANO, threads: 1 }, servedName: 'nano', logProbsMode: 'raw', signal });
    const secrets = new Set<string>();
    const server = { kind: 'server', base_url: policy.baseUrl, api_key_var: 'TEACHER_KEY', max_concurrent: 2, max_retries: 0 };
    await using teacher = await opened(server, { TEACHER_KEY: policy.apiKey }, secrets);
    await using embedded = await opened({ path: NANO });
    const scores = await teacher.scorer.score([...SEQUENCES, LONG], signal);
    for (const [i, own] of (await embedded.scorer.score(SEQUENCES, signal)).entries())
      for (const [t, value] of own.entries()) expect(scores[i]![t]).toBeCloseTo(value, 6);
    expect([...scores[3]!]).toEqual([NaN, NaN]);
    expect(secrets).toEqual(new Set([policy.apiKey]));
    await expect(opened(server)).rejects.toThrow(
      new ConfigError('The environment variable TEACHER_KEY holds no API key; set it or leave algorithm.teacher.api_key_var out'),
    );
  });

  it('rejects if the server has gone', async () => {
    const policy = await EmbeddedPolicy.open({ engine: { modelPath: NANO, threads: 1 }, servedName: 'nano', logProbsMode: 'raw', signal });
    const server = { kind: 'server', base_url: policy.baseUrl, api_key_var: 'TEACHER_KEY', max_retries: 0 };
    await using teacher = await opened(server, { TEACHER_KEY: policy.apiKey });
    await policy[Symbol.asyncDispose]();
    await expect(teacher.scorer.score(SEQUENCES.slice(0, 1), signal)).rejects.toThrow(/check that the server runs/);
  });

  it('refuses an adapter that does not fit the base', async () => {
    using folder = new TemporaryFolder();
    mkdirSync(join(folder.path, 'adapter'));
    folder.write('adapter/adapter_config.json', '{"peft_type": "LORA", "r": 4}');
    await expect(opened({ adapter: join(folder.path, 'adapter') })).rejects.toThrow(/algorithm\.teacher\.adapter .* is not a PEFT adapter of/);
  });
});

describe('checkTeacher', () => {
  const environment = new CountingEnv({ rows: 2, maxTurns: 1 });
  const check = (teacher: object) => checkTeacher(configOf(teacher), { environment, variables: {} });

  it('refuses a teacher with another vocabulary, in words or in number', async () => {
    using folder = new TemporaryFolder();
    const other = (name: string, file: string, change: (content: { vocab_size?: number; model?: { merges: unknown[] } }) => void) => {
      const path = join(folder.path, name);
      cpSync(NANO, path, { recursive: true });
      const content = JSON.parse(readFileSync(join(path, file), 'utf8')) as Parameters<typeof change>[0];
      change(content);
      writeFileSync(join(path, file), JSON.stringify(content));
      return path;
    };
    const words = other('words', 'tokenizer.json', ({ model }) => void model!.merges.splice(100));
    await expect(check({ path: words })).rejects.toThrow(/has another vocabulary than the policy .* \(the same text has other ids\)/);
    const size = other('size', 'config.json', (config) => void (config.vocab_size = 1601));
    await expect(check({ path: size })).rejects.toThrow(/has another vocabulary than the policy .* \(1601 tokens in place of 1600\)/);
    await expect(check({ path: NANO })).resolves.toBeUndefined();
  });

  it('refuses what is not there: a model, an adapter, a field of the rows', async () => {
    await expect(check({ path: '/nowhere' })).rejects.toThrow(/The directory \/nowhere does not exist/);
    await expect(check({ adapter: '/nowhere' })).rejects.toThrow(/algorithm\.teacher\.adapter \/nowhere is no PEFT directory/);
    using remote = new TemporaryFolder();
    remote.write('tinker.json', '{}');
    await expect(check({ adapter: remote.path })).rejects.toThrow(/are at a training service\. Bring them here with/);
    await expect(check({ kind: 'self', privileged: 'Read {info.passage}.' })).rejects.toThrow(
      /No row of .* has everything that algorithm\.teacher\.privileged names: "Read \{info\.passage\}\."/,
    );
  });
});
