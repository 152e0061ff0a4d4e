/** A teacher behind the Tinker API, and the embedded teacher of the same adapter: their log-probs, and the runs that they train. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { modelPath } from '../../../../src/data/bundled-models.ts';
import { Disposers } from '../../../../src/core/disposers.ts';
import { ConfigError } from '../../../../src/core/errors.ts';
import { train, type TrainOptions } from '../../../../src/library/train.ts';
import { openTeacher } from '../../../../src/sessions/training/teacher/open-teacher.ts';
import type { TokenScorer } from '../../../../src/trainer/teacher.ts';
import { TemporaryFolder } from '../../../cli/eval/temporary-folder.ts';
import { CountingEnv } from '../../../rollouts/counting-env.ts';
import { Caller, type Served, serveNano, taught } from '../../../server/tinker/tinker-caller.ts';
import { scriptedService } from '../../../tinker/service/scripted-service.ts';
import { engineService } from '../../../tinker/service/engine-service.ts';
import { someConfig } from '../../../trainer/some-config.ts';

const NANO = modelPath('nano-base');
const { signal } = new AbortController();
const SEQUENCES = [
  { ids: Int32Array.from([5, 9, 300, 41, 700, 12, 8]), targets: Int32Array.of(2, 3, 6) },
  { ids: Int32Array.from([1, 2, 3]), targets: Int32Array.of(1) },
  { ids: Int32Array.from([1, 2, 3]), targets: new Int32Array(0) },
];
const LONG = { ids: new Int32Array(5000).fill(7), targets: Int32Array.of(3, 4999) };

let folder: TemporaryFolder;
let served: Served;
/** Weights at the service, and their files here. */
let path: string;
let adapter: string;
beforeAll(async () => {
  folder = new TemporaryFolder();
  served = await serveNano();
  const caller = new Caller(served.server.url);
  const model = await caller.model();
  for (let step = 0; step < 3; step++) {
    await caller.pass(model, [taught([300, 301, 7, 9, 42, 11, 5, 8, 3, 21]), taught([5, 9, 300, 41, 700, 12, 8])]);
    await caller.step(model, 1e-2);
  }
  ({ path } = await caller.resultOf<{ path: string }>('save_weights_for_sampler', { model_id: model, seq_id: caller.next(), path: 'teacher' }));
  const archive = await caller.get(`training_runs/${model}/checkpoints/sampler_weights/teacher/archive`);
  const found = archive.status === 302 ? await fetch(new URL(archive.headers.get('location')!, served.server.url)) : archive;
  writeFileSync(join(folder.path, 'adapter.tar.gz'), Buffer.from(await found.arrayBuffer()));
  adapter = join(folder.path, 'adapter');
  mkdirSync(adapter);
  execFileSync('tar', ['xzf', join(folder.path, 'adapter.tar.gz'), '-C', adapter]);
}, 60_000);
afterAll(async () => {
  await served.server.close();
  folder[Symbol.dispose]();
});

async function opened(teacher: object, notes: string[] = []) {
  const disposers = new Disposers();
  const config = someConfig({ model: { path: NANO }, backend: { threads: 1 }, algorithm: { teacher } });
  const environment = new CountingEnv({ rows: 2, maxTurns: 1 });
  const note = (line: string) => void notes.push(line);
  const found = await openTeacher({ config, environment, variables: {}, secrets: new Set(), note, signal }, disposers).catch(
    async (error: unknown) => {
      await disposers.disposeAsync();
      throw error;
    },
  );
  return { scorer: found!.scorer as TokenScorer, [Symbol.asyncDispose]: () => disposers.disposeAsync() };
}

async function expectSame(one: TokenScorer, other: TokenScorer) {
  const [found, expected] = [await one.score(SEQUENCES, signal), await other.score(SEQUENCES, signal)];
  for (const [i, own] of expected.entries()) {
    expect(found[i]).toHaveLength(SEQUENCES[i]!.targets.length);
    for (const [t, value] of own.entries()) expect(Math.abs(found[i]![t]! - value)).toBeLessThan(1e-5);
  }
  return found;
}

describe('TinkerScorer', () => {
  it('scores as the embedded engine does with the same adapter, and no token of a sequence beyond the window', { timeout: 60_000 }, async () => {
    const notes: string[] = [];
    await using teacher = await opened({ kind: 'tinker', base_url: served.server.url, model: path, max_concurrent: 2 }, notes);
    await using embedded = await opened({ adapter });
    await using base = await opened({ kind: 'tinker', base_url: served.server.url, model: 'nano-base' });
    const scores = await expectSame(teacher.scorer, embedded.scorer);
    expect(await base.scorer.score(SEQUENCES, signal)).not.toEqual(scores);
    expect((await teacher.scorer.score([LONG], signal)).map((each) => [...each])).toEqual([[NaN, NaN]]);
    expect(notes).toEqual([expect.stringContaining(`does not say which tokenizer the teacher ${path} has`)]);
  });

  it('reads a service that leaves out the first token of a prompt, and finishes its session', { timeout: 60_000 }, async () => {
    await using service = await engineService({ modelPath: NANO });
    {
      await using teacher = await opened({ kind: 'tinker', base_url: service.url, model: 'base' });
      await using embedded = await opened({ path: NANO });
      await expectSame(teacher.scorer, embedded.scorer);
      // What the service has forgotten is opened again.
      await service.restart();
      await expectSame(teacher.scorer, embedded.scorer);
    }
    expect(service.asked.map(({ route }) => route)).toContain('sessions/s1/finish');
  });

  it('rejects if a service refuses a sequence, whose tokens are never 0', async () => {
    await using teacher = await opened({ kind: 'tinker', base_url: served.server.url, model: path, max_concurrent: 1 });
    const strange = { ids: Int32Array.of(1, 5_000_000, 2), targets: Int32Array.of(1) };
    await expect(teacher.scorer.score([strange, ...SEQUENCES], signal)).rejects.toThrow(/5000000/);
    expect((await teacher.scorer.score(SEQUENCES.slice(1, 2), signal))[0]![0]).toBeLessThan(0);
  });

  it('is refused without a key, without its weights, and without log-probs of prompts', async () => {
    await expect(opened({ kind: 'tinker', model: 'Qwen/Qwen3-8B', api_key_var: 'VF_NO_SUCH_KEY' })).rejects.toThrow(
      /^The environment variable VF_NO_SUCH_KEY holds no API key of the hosted Tinker; set it, or set algorithm\.teacher\.base_url/,
    );
    const missing = opened({ kind: 'tinker', base_url: served.server.url, model: 'tinker://nobody/sampler_weights/x' });
    await expect(missing).rejects.toThrow(ConfigError);
    await expect(missing).rejects.toThrow(/tinker:\/\/nobody\/sampler_weights\/x.* Correct algorithm\.teacher\.model$/);
    await using silent = await scriptedService(({ route }) => {
      if (route === 'create_sampling_session') return { sampling_session_id: 'p1' };
      if (route === 'asample') return { request_id: 'f1' };
      return route === 'retrieve_future' ? { sequences: [{ stop_reason: 'length', tokens: [1], logprobs: [-1] }] } : undefined;
    });
    await expect(opened({ kind: 'tinker', base_url: silent.url, model: 'base' })).rejects.toThrow(/returns no log-probs of prompts/);
  });
});

describe('[algorithm.teacher] of a run', { timeout: 240_000 }, () => {
  const run = async (teacher: object, backend: object = {}) => {
    const options: TrainOptions = {
      environment: 'search-r1',
      preset: 'laptop',
      steps: 2,
      output: join(folder.path, 'runs'),
      settings: {
        ...backend,
        rollouts: { examplesPerStep: 8, rolloutsPerExample: 1 },
        evaluation: { every: 0 },
        algorithm: { teacher },
      },
    };
    const outcome = await train(options);
    expect(outcome).toMatchObject({ reason: 'finished', step: 2 });
    const values = outcome.metrics.map((row) => row.values);
    for (const each of values) {
      expect(each['teacher_scored']).toBe(1);
      expect(each['grad_norm']).toBeGreaterThan(0);
    }
    return values;
  };
  const atService = () => ({ backend: { kind: 'tinker', baseUrl: served.server.url, model: 'nano-base' }, lora: { alpha: 32 } });
  const kl = (values: Awaited<ReturnType<typeof run>>) => values.map((each) => each['teacher_kl']!);

  it('moves a policy as the embedded teacher of the same adapter does', async () => {
    const [embedded, remote] = [await run({ kind: 'embedded', adapter }), await run({ kind: 'tinker', baseUrl: served.server.url, model: path })];
    for (const [step, value] of kl(embedded).entries()) expect(kl(remote)[step]).toBeCloseTo(value, 4);
    expect(kl(embedded)[0]).toBeGreaterThan(0.01);
  });

  it('teaches a policy that trains at the same service, from there or from here', async () => {
    const [embedded, remote] = [await run({ kind: 'embedded', adapter }, atService()), await run({ kind: 'tinker', model: path }, atService())];
    for (const [step, value] of kl(embedded).entries()) expect(kl(remote)[step]).toBeCloseTo(value, 4);
  });

  it.each(['self', 'start'])('lets the policy at a service teach itself, with the answer in its prompt: %s', async (kind) => {
    const values = await run({ kind, privileged: 'The answer is {answer}.' }, atService());
    expect(kl(values).every((value) => Number.isFinite(value) && value !== 0)).toBe(true);
  });
});
