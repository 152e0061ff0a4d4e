import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { NO_POLICY } from '../../src/clients/no-policy.ts';
import type { Row } from '../../src/core/dataset.ts';
import { CancelledError, ConfigError, ModelError, RetrievalError } from '../../src/core/errors.ts';
import { recordEvaluation } from '../../src/evaluate/record-evaluation.ts';
import { exportRun } from '../../src/evaluate/export-run.ts';
import { openRoleModels } from '../../src/models/role-models.ts';
import { playProgramRows, programContract } from '../contracts/program.ts';
import { sumsOptions } from '../evaluate/sums-world.ts';
import { SummaryProgram } from './summary-program.ts';

programContract(async () => {
  const environment = new SummaryProgram();
  return { environment, [Symbol.asyncDispose]: () => environment.close() };
});

const at = (index: number, act: (signal: AbortSignal) => unknown) => async (row: Row, signal: AbortSignal) => {
  if (row.exampleId === index) await act(signal);
};
const fails = (error: Error) => () => {
  throw error;
};

describe('an agent that asks models of its own', () => {
  it('is scored on what its models wrote, and shows what they were shown as observations', async () => {
    const [first] = await playProgramRows(new SummaryProgram());
    expect(first!.segments.map(({ kind, text }) => `${kind}: ${text}`)).toEqual([
      'observation: text 0',
      'model: text 0 and more',
      'observation: Shorten: text 0 and more',
      'model: text 0!',
    ]);
    expect(first).toMatchObject({ reward: 1, metrics: { short: 1, pieces: 4 }, state: { length: 15 }, stop: 'completed', turns: 2 });
  });

  it('that fails for a row has no reward for that row, with the class and the source of the error', async () => {
    const [fine, lost, asked] = await playProgramRows(new SummaryProgram(at(1, fails(new RetrievalError('no index')))));
    expect([fine!.reward, lost!.reward, asked!.reward]).toEqual([1, null, 1]);
    expect(lost!.error).toMatchObject({ type: 'RetrievalError', message: 'no index', source: 'environment', phase: 'environment' });
    const [, foreign] = await playProgramRows(new SummaryProgram(at(1, fails(new TypeError('x is undefined')))));
    expect(foreign!.error).toMatchObject({ type: 'EnvironmentError', message: 'x is undefined', source: 'environment' });
    const [, role] = await playProgramRows(new SummaryProgram(at(1, fails(new ModelError('gone', { role: 'writer' })))));
    expect(role!.error).toMatchObject({ type: 'ModelError', source: 'model', reason: 'failed' });
  });

  it('is played again where the failure may pass, as often as the run allows', async () => {
    let begun = 0;
    const once = at(0, () => {
      if (begun++ === 0) throw new RetrievalError('busy', { retryable: true });
    });
    const [rollout] = await playProgramRows(new SummaryProgram(once), { maxReplays: 1 });
    expect(rollout).toMatchObject({ error: null, attempts: 2, reward: 1 });
  });

  it('that ignores its signal ends at the deadline all the same', async () => {
    const [rollout] = await playProgramRows(
      new SummaryProgram(
        at(0, () => new Promise(() => {})),
        1,
      ),
      { timeoutMs: 20 },
    );
    expect(rollout!.stop).toBe('timeout_reached');
    expect(rollout!.error).toMatchObject({
      type: 'TimeoutError',
      message: 'The rollout did not end within 0.02 s: the agent was at work. Raise timeoutMs if it needs more time.',
    });
  });

  it('that is cancelled while it plays is not recorded', async () => {
    const stop = new AbortController();
    const environment = new SummaryProgram(async (_, signal) => {
      stop.abort(new CancelledError('Interrupted by the user'));
      await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('stopped')), { once: true }));
    });
    await expect(playProgramRows(environment, { signal: stop.signal })).rejects.toBeInstanceOf(CancelledError);
  });

  it.each([
    undefined,
    {},
    { segments: 'x', state: {}, stop: 'completed' },
    { segments: [{ kind: 'model' }], state: {}, stop: 'completed' },
    { segments: [{ kind: 'modle', text: 'x' }], state: {}, stop: 'completed' },
    { segments: [{ kind: 'prompt', text: 'x' }], state: {}, stop: 'completed' },
    { segments: [], state: {}, stop: 'has_error' },
    { segments: [], state: {}, stop: '' },
  ])('that gives %j fails with an error that says what it must give', async (result) => {
    const environment = new SummaryProgram(undefined, 1);
    Object.assign(environment, { play: async () => result });
    const [rollout] = await playProgramRows(environment);
    expect(rollout!.error!.message).toMatch(
      /^play of summaries must give { segments: \[{ kind, text }\], state, stop } for a row: kind is one of model, prefill, /,
    );
    expect(rollout!.reward).toBeNull();
  });

  it('calls the models of its roles, and every call is recorded with its rollout', async () => {
    const environment = new SummaryProgram();
    await using models = await openRoleModels({ writer: { model: environment.roles['writer']!.builtin! } });
    const [, second] = await playProgramRows(environment, { models });
    expect(second!.asked).toMatchObject([{ role: 'writer', model: 'words', text: 'text 1 and more', messages: [{ content: 'text 1' }] }]);
  });

  it('refuses a misspelled option', () => {
    class Own extends SummaryProgram {}
    expect(new Own()).toBeInstanceOf(SummaryProgram);
    expect(() => new (Object.getPrototypeOf(SummaryProgram) as { new (options: unknown): unknown })({ id: 'x', evl: [] })).toThrow(
      new ConfigError('The environment x has no option evl; did you mean eval?'),
    );
  });
});

describe('an evaluation of a program', () => {
  const folder = mkdtempSync(join(tmpdir(), 'program-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  const options = (name: string, environment: SummaryProgram, more = {}) =>
    ({
      ...sumsOptions(join(folder, name), { client: NO_POLICY, stateColumns: ['length'] }),
      environment,
      run: { envId: 'summaries', envArgs: {}, model: 'pen', baseUrl: null, policyKind: 'none', packageVersion: '0.0.0' },
      ...more,
    }) as const;
  const json = (name: string, file: string) =>
    readFileSync(join(folder, name, file), 'utf8')
      .trim()
      .split('\n');

  it('writes text, state and metrics, no tokens, and says that no policy played', async () => {
    const { summary } = await recordEvaluation(options('whole', new SummaryProgram()));
    expect(summary).toMatchObject({ policyKind: 'none', model: 'pen', reward: { value: 1 }, turns: { value: 2 }, tokens: { input: 0, output: 0 } });
    const lines = json('whole', 'results.jsonl').map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines).toHaveLength(4);
    expect(lines.find(({ example_id: id }) => id === 2)).toMatchObject({
      completion: [
        { role: 'user', content: 'text 2' },
        { role: 'assistant', content: 'text 2 and more' },
        { role: 'user', content: 'Shorten: text 2 and more' },
        { role: 'assistant', content: 'text 2!' },
      ],
      segments: [{ kind: 'observation' }, { kind: 'model' }, { kind: 'observation' }, { kind: 'model' }],
      generations: [],
      num_turns: 2,
      model: 'pen',
      length: 15,
      short: 1,
    });
    expect(JSON.parse(json('whole', 'metadata.json').join('\n'))).toMatchObject({
      policy: { kind: 'none', name: 'none' },
      config: { policy_kind: 'none', sampling_args: {} },
      sampling_args: null,
      usage: null,
    });
  });

  it('goes on after a failure, playing only the rows that failed', async () => {
    const played: unknown[] = [];
    const note = (row: Row) => void played.push(row.exampleId);
    const { summary } = await recordEvaluation(options('resumed', new SummaryProgram(at(2, fails(new RetrievalError('down'))))));
    expect(summary.rollouts).toMatchObject({ finished: 3, errored: 1 });
    const resumed = await recordEvaluation(options('resumed', new SummaryProgram(async (row) => note(row)), { resume: true }));
    expect(resumed.summary.rollouts).toMatchObject({ finished: 4, errored: 0 });
    expect(played).toEqual([2]);
  });

  it('has nothing to export', async () => {
    await recordEvaluation(options('exported', new SummaryProgram()));
    await expect(exportRun(join(folder, 'exported'), async () => {})).rejects.toThrow(
      /is a run of the program summaries, which asks models of its own, so it has no token ids or log-probs to export\./,
    );
  });
});
