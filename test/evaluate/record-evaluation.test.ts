import { once } from 'node:events';
import { appendFile, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CancelledError, ConfigError, PolicyError } from '../../src/core/errors.ts';
import { metric } from '../../src/core/rubric.ts';
import { recordEvaluation } from '../../src/evaluate/record-evaluation.ts';
import type { EvaluationEvent, EvaluationOptions } from '../../src/evaluate/evaluation-options.ts';
import { findRun, newRunDirectory } from '../../src/evaluate/run-directory.ts';
import { MetadataSchema, parseWire, ResultSchema, type WireMetadata, type WireResult, type WireTokens } from '../../src/schemas/results.ts';
import { sumsClient, sumsEnvironment, sumsOptions, sumsTurn } from './sums-world.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-evaluate-'));
});
afterEach(() => rm(directory, { recursive: true }));

async function jsonLines<T>(file: string): Promise<T[]> {
  const text = await readFile(join(directory, file), 'utf8');
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as T);
}

async function metadataOf(path = directory): Promise<WireMetadata> {
  return JSON.parse(await readFile(join(path, 'metadata.json'), 'utf8')) as WireMetadata;
}

/** Fails the first generation of the given rollouts. */
function failing(ids: readonly string[], message = 'the server fell over') {
  return sumsClient({
    turns: (turn) => {
      if (ids.includes(turn.key!)) throw new PolicyError(message);
      return sumsTurn(turn);
    },
  });
}

describe('recordEvaluation', () => {
  it('records the prompt that the policy was given, not the row as it is', async () => {
    const environment = sumsEnvironment();
    const start = environment.start.bind(environment);
    environment.start = async (row, context) => {
      const episode = await start(row, context);
      return Object.assign(episode, { prompt: [{ role: 'system', content: 'Calculate.' }, ...row.prompt] });
    };
    await recordEvaluation(sumsOptions(directory, { numExamples: 1, environment }));
    const [result] = await jsonLines<WireResult>('results.jsonl');
    expect(result!.prompt).toEqual([
      { role: 'system', content: 'Calculate.' },
      { role: 'user', content: 'What is 0 + 0?' },
    ]);
  });

  it('says under the figures how often the environment could not clean up, including rollouts that a resume kept', async () => {
    const environment = Object.assign(sumsEnvironment(), {
      cleanup: async () => {
        throw new Error('no such container');
      },
    });
    const { summary } = await recordEvaluation(sumsOptions(directory, { environment, numExamples: 4 }));
    expect(summary.notices.at(-1)).toMatch(/^Clean-up failed in 4 of 4 rollouts: Error: no such container\. /);
    const resumed = await recordEvaluation(sumsOptions(directory, { numExamples: 4, resume: true }));
    expect(resumed.summary.notices).toEqual(summary.notices);
  });

  it('keeps a rollout without its failed metric, and reports that without secrets, including rollouts that a resume kept', async () => {
    const environment = sumsEnvironment();
    const notes = ({ row }: { readonly row: { readonly exampleId: unknown } }): number => {
      if (Number(row.exampleId) > 2) throw new TypeError('no notes at hush-hush');
      return 1;
    };
    Object.assign(environment, { rubric: environment.rubric.extend([metric(notes, { name: 'notes', isHeadline: true })]) });
    let shown: EvaluationEvent['progress']['headlines'] = [];
    const onEvent = ({ progress }: EvaluationEvent) => (shown = progress.headlines);
    const options = { environment, numExamples: 4, secrets: ['hush-hush'], onEvent };
    const { summary } = await recordEvaluation(sumsOptions(directory, options));
    expect(summary).toMatchObject({ rollouts: { finished: 4, errored: 0 }, metrics: { notes: { value: 1 } } });
    expect(shown).toContainEqual({ name: 'notes', mean: 1 });
    const text = /^Metric "notes" failed in 1 of 4 rollouts: TypeError: no notes at \S+\. Its mean leaves these rollouts out/;
    expect(summary.notices.at(-1)).toMatch(text);
    const last = (await jsonLines<WireResult>('results.jsonl')).find(({ example_id: id }) => id === 3);
    expect(last).toMatchObject({ reward: expect.any(Number), error: null, notes: null, metrics: { notes: null } });
    expect(last!.metric_errors).toEqual({ notes: expect.stringMatching(/^Metric "notes" failed: TypeError: no notes at (?!hush)/) });
    const resumed = await recordEvaluation(sumsOptions(directory, { ...options, resume: true }));
    expect(resumed.summary.notices.at(-1)).toMatch(text);
  });

  it('writes floats as floats and integers as integers in every file', async () => {
    await recordEvaluation(sumsOptions(directory, { numExamples: 1, stateColumns: ['turns'], client: sumsClient({ logProb: (i) => -i }) }));
    const result = await readFile(join(directory, 'results.jsonl'), 'utf8');
    for (const part of ['"reward":1.0,', '"metrics":{"right":1.0,"em":1.0,"pieces":3.0}', '"right":1.0,"em":1.0,"pieces":3.0}'])
      expect(result).toContain(part);
    for (const part of ['"example_id":0,', '"input_tokens":48,', '"seed":7,', '"turns":2,', '"info":{"difficulty":0}', '"policy_version":0,'])
      expect(result).toContain(part);
    expect(await readFile(join(directory, 'tokens.jsonl'), 'utf8')).toMatch(/"logprobs":\[(?:null,)+0\.0,-1\.0,-2\.0,-3\.0,/);
    const metadata = await readFile(join(directory, 'metadata.json'), 'utf8');
    for (const part of ['"temperature": 1.0,', '"avg_reward": 1.0,', '"pieces": 3.0', '"avg_error": 0.0,', '"seed": 7,', '"num_examples": 1,'])
      expect(metadata).toContain(part);
  });

  it('digests sampling with the keys that were given alone', async () => {
    const sampling = { temperature: 0.5, topP: 1, extra: { top_k: 5 } };
    await recordEvaluation(sumsOptions(directory, { numExamples: 2, sampling, maxTokens: 50 }));
    const { config, config_digest: digest } = await metadataOf();
    expect(config['sampling_args']).toEqual({ temperature: 0.5, top_p: 1, max_tokens: 50, top_k: 5 });
    expect(digest).toBe('85b956b43afe42f11586ae1438b771784ca98e54003bac33c015ac86ba5e2d9f');
  });

  it('accepts any number of rollouts at once, however few there are', async () => {
    const { summary } = await recordEvaluation(sumsOptions(directory, { maxConcurrent: Number.MAX_SAFE_INTEGER }));
    expect(summary.complete).toBe(true);
  });

  it('writes v0 columns, its own, every metric and the chosen state of each rollout', async () => {
    await recordEvaluation(sumsOptions(directory, { numExamples: 1, stateColumns: ['noted', 'turns', 'missing', 'reward', 'em'] }));
    const [result] = await jsonLines<WireResult>('results.jsonl');
    expect(result).toMatchObject({
      example_id: 0,
      prompt: [{ role: 'user', content: 'What is 0 + 0?' }],
      completion: [{ role: 'assistant', content: 'hm, \u2028 look again: =0' }],
      answer: '0',
      info: { difficulty: 0 },
      reward: 1,
      error: null,
      is_completed: true,
      is_truncated: false,
      stop_condition: 'completed',
      metrics: { right: 1, em: 1, pieces: 3 },
      right: 1,
      em: 1,
      pieces: 3,
      token_usage: { input_tokens: 48, output_tokens: 6, cached_tokens: null, final_input_tokens: 30, final_output_tokens: 6 },
      error_chain: null,
      long_error_chain: null,
      rollout_id: '0/0',
      segments: [
        { kind: 'model', text: 'hm, ' },
        { kind: 'observation', text: '\u2028 look again: ' },
        { kind: 'model', text: '=0' },
      ],
      noted: 'h=',
      turns: 2,
      missing: null,
    });
    expect(Object.keys(result!).slice(0, 4)).toEqual(['example_id', 'prompt', 'completion', 'answer']);
    expect(result!.timing.total).toBeCloseTo(result!.timing.setup.duration + result!.timing.generation.duration + result!.timing.scoring.duration, 9);
  });

  it('writes the observations of a chat policy as user messages and no tokens', async () => {
    await recordEvaluation(sumsOptions(directory, { numExamples: 1, client: sumsClient({ kind: 'chat' }) }));
    const [result] = await jsonLines<WireResult>('results.jsonl');
    expect(result!.completion).toEqual([
      { role: 'assistant', content: 'hm, ' },
      { role: 'user', content: '\u2028 look again: ' },
      { role: 'assistant', content: '=0' },
    ]);
    expect(await readdir(directory)).not.toContain('tokens.jsonl');
  });

  it('writes lines and metadata that fit their schemas, failed rollouts included', async () => {
    await recordEvaluation(sumsOptions(directory, { client: failing(['2/0']), rolloutsPerExample: 2 }));
    const lines = (await readFile(join(directory, 'results.jsonl'), 'utf8')).trimEnd().split('\n');
    expect(lines.map((line) => parseWire(ResultSchema, line)).filter((parsed) => 'problem' in parsed)).toEqual([]);
    expect(parseWire(MetadataSchema, await readFile(join(directory, 'metadata.json'), 'utf8'))).not.toHaveProperty('problem');
  });

  it('records a failure as null with its error, and leaves it out of every mean', async () => {
    const { summary } = await recordEvaluation(sumsOptions(directory, { client: failing(['0/0', '2/0']) }));
    const failed = (await jsonLines<WireResult>('results.jsonl')).filter((r) => r.error !== null);
    expect(failed.map((r) => [r.rollout_id, r.reward, r.metrics, r.is_completed, r.stop_condition])).toEqual([
      ['0/0', null, { right: null, em: null, pieces: null }, false, 'has_error'],
      ['2/0', null, { right: null, em: null, pieces: null }, false, 'has_error'],
    ]);
    expect(failed[0]!.error).toEqual({
      error: 'PolicyError',
      message: 'the server fell over',
      error_chain_repr: 'PolicyError',
      error_chain_str: 'PolicyError: the server fell over',
      phase: 'generation',
      retryable: false,
    });
    // Of the examples 1, 3, 4, 5 only 4 is right.
    expect(summary.reward).toMatchObject({ value: 0.25, n: 4 });
    expect(summary.rollouts).toEqual({ planned: 6, recorded: 6, finished: 4, errored: 2 });
    expect(await metadataOf()).toMatchObject({ avg_reward: 0.25, avg_reward_ok: 0.25, num_errored: 2, avg_error: 2 / 6, complete: true });
    expect((await jsonLines<WireTokens>('tokens.jsonl')).map((t) => t.rollout_id).toSorted()).toEqual(['1/0', '3/0', '4/0', '5/0']);
  });

  it('has no mean at all when everything failed', async () => {
    const all = Array.from({ length: 6 }, (_, i) => `${i}/0`);
    const { summary } = await recordEvaluation(sumsOptions(directory, { client: failing(all) }));
    expect(summary).toMatchObject({ reward: null, examples: 0, errors: { PolicyError: 6 } });
    expect(await metadataOf()).toMatchObject({ avg_reward: null, avg_error: 1, avg_metrics: {} });
  });

  it('keeps secrets and credentials out of every file', async () => {
    const secret = 'sk-very"secret';
    await recordEvaluation(
      sumsOptions(directory, {
        client: failing(['1/0'], `401 from https://ann:pa55@host/v1?api_key=abc with ${secret}`),
        secrets: [secret],
        run: {
          envId: 'sums',
          envArgs: { serper_api_key: 'plainly-here', retriever_url: 'http://bob:hunter2@host/retrieve', topk: 3 },
          model: 'm',
          baseUrl: 'https://ann:pa55@host/v1',
          policyKind: 'tokens',
          packageVersion: '0',
        },
        environment: sumsEnvironment(),
        sampling: { temperature: 1, topP: 1, extra: { note: secret } },
      }),
    );
    const files = await Promise.all((await readdir(directory)).map((name) => readFile(join(directory, name), 'utf8')));
    expect(files).toHaveLength(4);
    for (const leak of [secret, JSON.stringify(secret).slice(1, -1), 'plainly-here', 'hunter2', 'pa55', 'abc']) {
      expect(files.filter((text) => text.includes(leak))).toEqual([]);
    }
    expect((await metadataOf()).env_args).toEqual({ serper_api_key: '***', retriever_url: 'http://***@host/retrieve', topk: 3 });
  });

  it('plays the same rows in the same order for the same shuffle seed, each at most once', async () => {
    let runs = 0;
    const order = async (changes: Partial<EvaluationOptions>) => {
      const path = join(directory, String(runs++));
      await recordEvaluation(sumsOptions(path, { maxConcurrent: 1, ...changes }));
      return (await readFile(join(path, 'results.jsonl'), 'utf8'))
        .trimEnd()
        .split('\n')
        .map((line) => (JSON.parse(line) as WireResult).example_id);
    };
    expect(await order({ shuffle: true, shuffleSeed: 1 })).toEqual(await order({ shuffle: true, shuffleSeed: 1, numExamples: 99 }));
    expect(await order({ shuffle: true, shuffleSeed: 1 })).not.toEqual(await order({ shuffle: true, shuffleSeed: 2 }));
    expect(await order({ numExamples: 2 })).toEqual([0, 1]);
  });

  it('stops on abort with what finished on disk, and says so', async () => {
    const stop = new AbortController();
    const aborted = once(stop.signal, 'abort');
    const client = sumsClient({
      turns: async (turn) => {
        if (Number(turn.key!.split('/')[0]) > 2) await aborted;
        return sumsTurn(turn);
      },
    });
    const { summary, interrupted } = await recordEvaluation(
      sumsOptions(directory, {
        client,
        signal: stop.signal,
        onEvent: (event) => event.type === 'rollout' && event.progress.done === 3 && stop.abort(new CancelledError('Ctrl-C')),
      }),
    );
    expect(interrupted).toBe(true);
    expect(summary.complete).toBe(false);
    const results = await jsonLines<WireResult>('results.jsonl');
    expect(Object.fromEntries(results.map((r) => [r.rollout_id, r.error]))).toEqual({ '0/0': null, '1/0': null, '2/0': null });
    expect(await metadataOf()).toMatchObject({ complete: false, num_finished: 3, num_planned: 6 });
  });

  it('notices an abort even when the policy never waits for anything', async () => {
    const stop = new AbortController();
    setTimeout(() => stop.abort(new CancelledError('Ctrl-C')), 20);
    const environment = sumsEnvironment({ rows: 3000 });
    const { interrupted, summary } = await recordEvaluation(sumsOptions(directory, { environment, maxConcurrent: 2, signal: stop.signal }));
    expect(interrupted).toBe(true);
    expect(summary.rollouts.recorded).toBeLessThan(3000);
    expect(await jsonLines('results.jsonl')).toHaveLength(summary.rollouts.recorded);
  });

  it.each([
    [{ numExamples: 0 }, /rows must be an integer of at least 1, or -1/],
    [{ rolloutsPerExample: 1.5 }, /rolloutsPerRow/],
    [{ maxConcurrent: 0 }, /maxConcurrent/],
    [{ maxScoring: 0 }, /maxScoring must be an integer of at least 1/],
    [{ seed: 1.5 }, /^seed must be an integer of at least 0, got 1.5/],
    [{ seed: -1 }, /^seed must be/],
    [{ shuffleSeed: 1.5 }, /shuffleSeed must be/],
    [{ scoringTimeoutMs: -1 }, /scoringTimeoutMs must be a number above 0 or null/],
    [{ cost: { limit: -1, prices: new Map() } as never }, /maxCostUsd must be a number above 0 or null, got -1/],
    [{ environment: sumsEnvironment({ rows: 0 }) }, /sums has no rows/],
  ])('refuses %o', async (changes, message) => {
    const attempt = recordEvaluation(sumsOptions(directory, changes));
    await expect(attempt).rejects.toThrow(message);
    await expect(attempt).rejects.toThrow(ConfigError);
    expect(await readdir(directory)).toEqual([]);
  });

  it('says that a run cannot lie inside a file', async () => {
    await writeFile(join(directory, 'file'), '');
    await expect(recordEvaluation(sumsOptions(join(directory, 'file', 'run')))).rejects.toThrow(ConfigError);
  });

  it('does not write a second run over a first', async () => {
    await recordEvaluation(sumsOptions(directory));
    await expect(recordEvaluation(sumsOptions(directory))).rejects.toThrow(/already holds a run: .*metadata\.json\. Resume it/);
  });
});

describe('evaluate with resume', () => {
  const resumed = (changes: Partial<EvaluationOptions> = {}) => recordEvaluation(sumsOptions(directory, { resume: true, ...changes }));

  it('keeps finished rollouts, plays failed and missing ones, and says how many', async () => {
    await recordEvaluation(sumsOptions(directory, { client: failing(['1/1', '3/0']), numExamples: 4, rolloutsPerExample: 2 }));
    const before = await jsonLines<WireResult>('results.jsonl');
    const events: EvaluationEvent[] = [];
    const { summary } = await resumed({ rolloutsPerExample: 2, onEvent: (event) => events.push(event) });
    expect(events[0]).toMatchObject({ type: 'started', kept: 6, redone: 2, progress: { done: 6, total: 12, errored: 0 } });
    expect(events.filter((event) => event.type === 'rollout')).toHaveLength(6);
    const last = events.filter((event) => event.type === 'rollout').at(-1)!.progress;
    expect(last.headlines).toEqual([{ name: 'em', mean: expect.closeTo(summary.metrics['em']!.value, 12) as number }]);
    const active = events.filter((event) => event.type === 'active').map((event) => event.progress.active);
    expect([Math.min(...active), Math.max(...active) <= 4, active.at(-1)]).toEqual([0, true, 0]);
    expect(summary.rollouts).toEqual({ planned: 12, recorded: 12, finished: 12, errored: 0 });
    const after = await jsonLines<WireResult>('results.jsonl');
    expect(after.slice(0, 6)).toEqual(before.filter((r) => r.error === null));
    expect(new Set(after.map((r) => r.rollout_id)).size).toBe(12);
    expect((await metadataOf()).sessions.map((s) => s.recorded)).toEqual([8, 6]);
  });

  it('changes nothing when nothing is left to do', async () => {
    await recordEvaluation(sumsOptions(directory));
    const before = await readFile(join(directory, 'results.jsonl'));
    const { summary, interrupted } = await resumed();
    expect(await readFile(join(directory, 'results.jsonl'))).toEqual(before);
    expect([summary.complete, interrupted]).toEqual([true, false]);
  });

  it.each<[string, Partial<EvaluationOptions>, RegExp]>([
    ['sampling', { sampling: { temperature: 0.5, topP: 1 } }, /sampling_args\.temperature was 1 and is 0\.5 now/],
    ['a further sampling field', { sampling: { temperature: 1, topP: 1, extra: { top_k: 5 } } }, /sampling_args\.top_k was absent and is 5 now/],
    ['max tokens', { maxTokens: 9 }, /sampling_args\.max_tokens was absent and is 9 now/],
    ['the seed', { seed: 8 }, /seed was 7 and is 8 now/],
    ['rollouts per example', { rolloutsPerExample: 2 }, /rollouts_per_example was 1 and is 2 now/],
    ['shuffling', { shuffle: true }, /shuffle was false and is true now/],
    ['the model', { run: { ...sumsOptions('').run, model: 'other' } }, /model was "scripted" and is "other" now/],
    ['an argument of the environment', { run: { ...sumsOptions('').run, envArgs: { topk: 5 } } }, /env_args\.topk was absent and is 5 now/],
    ['the kind of policy', { client: sumsClient({ kind: 'chat' }) }, /policy_kind was "tokens" and is "chat" now/],
    ['fewer examples', { numExamples: 2 }, /num_examples was 6 and is 2 now; it may only grow/],
  ])('refuses a change of %s and names it with both values', async (_, changes, message) => {
    await recordEvaluation(sumsOptions(directory));
    const before = await readFile(join(directory, 'metadata.json'), 'utf8');
    await expect(resumed(changes)).rejects.toThrow(message);
    await expect(resumed(changes)).rejects.toThrow(ConfigError);
    expect(await readFile(join(directory, 'metadata.json'), 'utf8')).toBe(before);
  });

  it('accepts another speed, or another address of the same model', async () => {
    await recordEvaluation(sumsOptions(directory, { client: failing(['1/0']) }));
    const { summary } = await resumed({ maxConcurrent: 1, maxRetries: 5, run: { ...sumsOptions('').run, baseUrl: 'http://127.0.0.1:1/v1' } });
    expect(summary.rollouts.finished).toBe(6);
  });

  it('plays a whole group again when group rewards need it and a member is missing', async () => {
    const environment = sumsEnvironment({ groups: true });
    await recordEvaluation(sumsOptions(directory, { environment, client: failing(['3/1']), rolloutsPerExample: 2 }));
    const { summary } = await recordEvaluation(sumsOptions(directory, { environment, rolloutsPerExample: 2, resume: true }));
    expect(summary.rollouts).toEqual({ planned: 12, recorded: 12, finished: 12, errored: 0 });
    const results = await jsonLines<WireResult>('results.jsonl');
    expect(new Set(results.slice(-2).map((r) => r.rollout_id))).toEqual(new Set(['3/0', '3/1']));
    // Half of what is right, because the group has two members: the failed run saw a group of one.
    expect(results.filter((r) => r.group_id === '3').map((r) => r.metrics['shared'])).toEqual(results.slice(-2).map((r) => r.metrics['right']! / 2));
  });

  it('names the line that is not a result, and the folder that holds no run', async () => {
    await recordEvaluation(sumsOptions(directory));
    await appendFile(join(directory, 'results.jsonl'), 'what\n');
    await expect(resumed()).rejects.toThrow(/Line 7 of .*results\.jsonl is not a record of a rollout: text that is not JSON/);
    await expect(recordEvaluation(sumsOptions(join(directory, 'none'), { resume: true }))).rejects.toThrow(/The directory .*none does not exist/);
    expect(await readdir(directory)).not.toContain('none');
  });

  it('refuses a data set that lost an example', async () => {
    await recordEvaluation(sumsOptions(directory, { shuffle: false, environment: sumsEnvironment({ rows: 3 }) }));
    const text = await readFile(join(directory, 'results.jsonl'), 'utf8');
    await writeFile(join(directory, 'results.jsonl'), text.replace('"group_id":"1"', '"group_id":"77"'));
    await expect(resumed({ environment: sumsEnvironment({ rows: 3 }) })).rejects.toThrow(/example "77" is not among the rows to play now \(3\)/);
  });

  it('refuses a row whose answer or info has changed since it was played, and changes no file', async () => {
    await recordEvaluation(sumsOptions(directory, { numExamples: 2, rolloutsPerExample: 2, client: failing(['1/1']) }));
    const before = await readFile(join(directory, 'results.jsonl'), 'utf8');
    for (const change of [{ answer: '3' }, { info: { difficulty: 0.2 } }, { info: undefined }]) {
      const environment = sumsEnvironment();
      Object.assign([...environment.eval][1]!, change);
      await expect(resumed({ environment, rolloutsPerExample: 2 })).rejects.toThrow(
        /cannot be resumed: row "1" of the environment now has another answer/,
      );
    }
    expect(await readFile(join(directory, 'results.jsonl'), 'utf8')).toBe(before);
  });

  it('takes other data for rows that are played now, and prompts that are made otherwise', async () => {
    await recordEvaluation(sumsOptions(directory, { numExamples: 2, client: failing(['1/0']) }));
    const environment = sumsEnvironment();
    const [first, second] = environment.eval;
    Object.assign(first!, { prompt: [{ role: 'user', content: '0 + 0?' }] });
    Object.assign(second!, { answer: '3' });
    const { summary } = await resumed({ environment });
    expect(summary.rollouts).toEqual({ planned: 6, recorded: 6, finished: 6, errored: 0 });
  });

  it('knows a row again whose answer is a secret, which the run does not have on file', async () => {
    const secrets = ['hidden-answer'];
    const environment = sumsEnvironment();
    Object.assign([...environment.eval][0]!, { answer: secrets[0] });
    await recordEvaluation(sumsOptions(directory, { environment, numExamples: 1, secrets }));
    expect((await jsonLines<WireResult>('results.jsonl'))[0]!.answer).toBe('***');
    expect((await resumed({ environment, secrets })).summary.rollouts.finished).toBe(6);
  });
});

describe('newRunDirectory', () => {
  it('has v0 form and never leaves its base', () => {
    expect(newRunDirectory('out', 'search-r1', 'Qwen/Qwen2.5-3B')).toMatch(/^out\/evals\/search-r1--Qwen--Qwen2\.5-3B\/[0-9a-f]{8}$/);
    expect(newRunDirectory('out', 'e', 'a\u001b[2J\n\u202eb\0')).toMatch(/^out\/evals\/e--a_\[2J__b_\/[0-9a-f]{8}$/);
    expect(newRunDirectory('out', '../../etc', '..')).toMatch(/^out\/evals\/_--..--etc--_\/[0-9a-f]{8}$/);
  });
});

describe('newRunDirectory with a long name', () => {
  it('stays a name that a file system accepts, and differs for another model', () => {
    const folders = ['', 'a', 'b'].map((end) => newRunDirectory('out', 'search-r1', `${'é'.repeat(300)}${end}`).split('/')[2]!);
    expect(new Set(folders).size).toBe(3);
    for (const folder of folders) {
      expect(folder).toMatch(/^search-r1--é+--[0-9a-f]{8}$/);
      expect(Buffer.byteLength(folder)).toBeLessThanOrEqual(140);
    }
  });
});

describe('findRun', () => {
  it('finds the newest run of the same configuration, and prefers one with missing or failed rollouts to a finished one', async () => {
    const options = sumsOptions('');
    const { run } = options;
    const none = { path: null, difference: null, damaged: null };
    expect(await findRun(directory, options)).toEqual(none);
    const paths: string[] = [];
    for (const client of [failing(['0/0']), failing(['1/0']), sumsClient()]) {
      paths.push(newRunDirectory(directory, run.envId, run.model));
      await recordEvaluation(sumsOptions(paths.at(-1)!, { client }));
    }
    expect(await findRun(directory, options)).toEqual({ path: paths[1], difference: null, damaged: null });
    expect(await findRun(directory, { ...options, run: { ...run, model: 'other' } })).toEqual(none);
    expect(await findRun(directory, { ...options, seed: 9 })).toEqual({
      path: null,
      difference: expect.stringMatching(/^seed was \d+ and is 9 now$/),
      damaged: null,
    });
  });

  it('finds a finished run where there is no other', async () => {
    const path = newRunDirectory(directory, 'sums', sumsOptions('').run.model);
    await recordEvaluation(sumsOptions(path));
    const options = sumsOptions('');
    expect((await findRun(directory, options)).path).toBe(options.run.envId === 'sums' ? path : null);
  });
});
