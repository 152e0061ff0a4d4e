/** Runs on disk for tests of the viewer, written line by line: an evaluation, and a training run of two steps and two evaluations. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packArray } from '../../src/schemas/packed-array.ts';

type Fields = Readonly<Record<string, unknown>>;

export interface WrittenRow {
  readonly group: string;
  readonly index?: number;
  /** Null for a rollout that failed. @default 1 */
  readonly reward?: number | null;
  readonly question?: string;
  readonly response?: string;
  readonly answer?: string;
  readonly more?: Fields;
}

/** A line of results.jsonl, without the line feed. */
export function resultLine({
  group,
  index = 0,
  reward = 1,
  question = 'who?',
  response = 'nobody',
  answer = 'no one',
  more = {},
}: WrittenRow): string {
  const failed = reward === null;
  return JSON.stringify({
    example_id: group,
    prompt: [{ role: 'user', content: question }],
    completion: [{ role: 'assistant', content: response }],
    answer,
    reward,
    error: failed
      ? { error: 'PolicyError', message: 'gone', error_chain_repr: '', error_chain_str: 'gone', phase: 'generation', retryable: true }
      : null,
    is_completed: !failed,
    is_truncated: false,
    stop_condition: failed ? 'has_error' : 'completed',
    metrics: failed ? { em: null } : { em: reward },
    token_usage: { input_tokens: 10, output_tokens: 5 + index, cached_tokens: 0 },
    rollout_id: `${group}/${index}`,
    group_id: group,
    rollout_index: index,
    num_turns: 1 + index,
    segments: [{ kind: 'model', text: response }],
    ...more,
  });
}

function metadataOf(count: number, more: Fields = {}): Fields {
  return {
    env_id: 'written',
    env_args: {},
    model: 'nobody',
    num_examples: count,
    rollouts_per_example: 1,
    num_planned: count,
    num_finished: count,
    num_errored: 0,
    complete: true,
    avg_reward: 0.5,
    started_at: '2026-01-01T00:00:00.000Z',
    updated_at: '2026-01-01T00:01:00.000Z',
    time: 60,
    policy: { kind: 'chat', name: 'nobody', tokenizer_hash: null },
    ...more,
  };
}

export function writeEvaluation(directory: string, rows: readonly WrittenRow[], metadata: Fields = {}): string {
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'metadata.json'), JSON.stringify(metadataOf(rows.length, metadata)));
  writeFileSync(join(directory, 'results.jsonl'), rows.map((row) => `${resultLine(row)}\n`).join(''));
  return directory;
}

/** A line of a training step. Its tokens are those of `nano-base`. */
export function trajectoryLine({ group, index = 0, reward = 1, response = 'nobody', more = {} }: WrittenRow): string {
  const ids = Int32Array.from([20, 21, 22, 30 + index, 31]);
  return JSON.stringify({
    rollout_id: `${group}/${index}`,
    group_id: group,
    rollout_index: index,
    reward,
    stop_condition: reward === null ? 'has_error' : 'completed',
    is_truncated: false,
    is_cut: false,
    model: 'nano-base',
    policy_version: 3,
    num_turns: 1,
    metrics: reward === null ? {} : { em: reward },
    error: reward === null ? { type: 'PolicyError', message: 'gone', retryable: true, source: 'policy' } : null,
    token_usage: { input_tokens: 3, output_tokens: 2, cached_tokens: null },
    segments: [{ kind: 'model', text: response }],
    prompt_length: 3,
    ids: packArray(ids),
    targets: packArray(Int32Array.from([3, 4])),
    log_probs: packArray(Float64Array.from([-0.5, -1.5])),
    ...more,
  });
}

export function stepText(step: number, rows: readonly WrittenRow[]): string {
  return [...rows.map(trajectoryLine), JSON.stringify({ complete: true, step, attempts: 1, rollouts: rows.length }), ''].join('\n');
}

function metricLine(kind: string, step: number, values: Fields): string {
  return `${JSON.stringify({ kind, step, time: '2026-01-01T00:00:00.000Z', ...values })}\n`;
}

export function writeTraining(directory: string, config = ''): string {
  for (const folder of ['rollouts', 'evaluations']) mkdirSync(join(directory, folder), { recursive: true });
  const put = (name: string, text: string) => writeFileSync(join(directory, name), text);
  put(
    'run.json',
    JSON.stringify({
      schema_version: 2,
      run_id: 'written',
      started_at: '2026-01-02T00:00:00.000Z',
      finished_at: '2026-01-02T00:01:00.000Z',
      config_digest: '',
      attempts: [],
    }),
  );
  put(
    'config.toml',
    `steps = 2\n${config}[environment]\nid = "written"\n[model]\npath = "nano-base"\n[policy]\nbase_url = "http://127.0.0.1:1/v1"\n`,
  );
  put(
    'metrics.jsonl',
    [
      metricLine('evaluation', 0, { reward_mean: 0.25 }),
      metricLine('step', 1, { loss: 1 }),
      metricLine('step', 2, { loss: null }),
      metricLine('evaluation', 2, { reward_mean: 0.75 }),
    ].join(''),
  );
  put('events.jsonl', `${JSON.stringify({ kind: 'started', step: 0, time: '2026-01-02T00:00:00.000Z', message: 'on' })}\n`);
  const step = [0, 1, 2].map((index) => ({ group: 'a', index, reward: index / 2 }));
  put('rollouts/step-000001.jsonl', stepText(1, step));
  put('rollouts/step-000002.jsonl', stepText(2, [...step, { group: 'b', index: 0, reward: null }, { group: 'b', index: 1, reward: 1 }]));
  put(
    'evaluations/step-000000.jsonl',
    stepText(0, [
      { group: 'h', reward: 0, response: 'before' },
      { group: 'k', reward: 1 },
    ]),
  );
  put(
    'evaluations/step-000002.jsonl',
    stepText(2, [
      { group: 'h', reward: 1, response: 'after' },
      { group: 'k', reward: 1 },
    ]),
  );
  return directory;
}
