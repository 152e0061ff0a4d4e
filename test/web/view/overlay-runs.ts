/** Trainings on disk, as small as the page needs them: settings, record, metrics. */
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface WrittenTraining {
  /** Null for that of environment and model. */
  readonly name: string | null;
  readonly seed?: number;
  /** @default overlaid */
  readonly environment?: string;
  readonly lr?: number;
  /** @default 4; 0: no metrics at all */
  readonly steps?: number;
  /** Reward of the last step. @default 0.5 */
  readonly reward?: number;
  readonly isFinished?: boolean;
  /** Further metrics of each step. */
  readonly more?: Readonly<Record<string, number>>;
}

/** Writes the run `train/<id>` below a folder; its id in the list. */
export function writeTraining(outputs: string, id: string, training: WrittenTraining): string {
  const { name, seed = 0, lr = 1e-4, steps = 4, reward = 0.5, isFinished = true, more = {}, environment = 'overlaid' } = training;
  const folder = join(outputs, 'train', id);
  mkdirSync(folder, { recursive: true });
  const named = name ?? 'overlaid-nobody';
  const tables = `[environment]\nid = "${environment}"\n[model]\npath = "nobody"\n[lora]\nrank = 8\n`;
  writeFileSync(
    join(folder, 'config.toml'),
    `name = ${JSON.stringify(named)}\nseed = ${seed}\nsteps = 4\n${tables}[optimizer]\nlearning_rate = ${lr}\n`,
  );
  const record = { schema_version: 2, run_id: id, name: named, started_at: '2026-01-01T00:00:00Z', config_digest: '', attempts: [] };
  writeFileSync(join(folder, 'run.json'), JSON.stringify({ ...record, finished_at: isFinished ? '2026-01-02T00:00:00Z' : null }));
  if (steps > 0) addSteps(outputs, id, { from: 0, to: steps, reward: (step) => (reward * step) / steps, more });
  return `train/${id}`;
}

export interface AddedSteps {
  /** An evaluation at 0 and after every second step. */
  readonly from: number;
  readonly to: number;
  readonly reward: (step: number) => number;
  readonly more?: Readonly<Record<string, number>>;
}

export function addSteps(outputs: string, id: string, { from, to, reward, more = {} }: AddedSteps): void {
  const lines: object[] = [];
  const time = '2026-01-01T00:00:00Z';
  for (let step = from; step <= to; step++) {
    const value = reward(step);
    if (step > 0) lines.push({ kind: 'step', step, time, reward_mean: value, kl: 0.01 * step, ...more });
    if (step % 2 === 0)
      lines.push({ kind: 'evaluation', step, time, reward_mean: value, reward_low: value - 0.1, reward_high: value + 0.1, rollouts: 10 });
  }
  appendFileSync(join(outputs, 'train', id, 'metrics.jsonl'), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
}
