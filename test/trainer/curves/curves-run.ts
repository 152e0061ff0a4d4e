/** Curves of small training runs, and what metrics.jsonl says that they must be. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CurveLog } from '../../../src/trainer/curves/curve-log.ts';
import { openTensorboardFile } from '../../../src/trainer/curves/tensorboard-file.ts';
import { openWandbFile } from '../../../src/trainer/curves/wandb-file.ts';
import type { TrainingStart } from '../../../src/trainer/training-observer.ts';
import type { ReadPoint } from './read-curves.ts';

export const SETTINGS = { steps: 6, optimizer: { learning_rate: 1e-5 }, name: null, environment: { id: 'x', tags: ['a', 'b'] }, deep: { on: true } };
export const CONFIG = 'steps = 6\n\n[optimizer]\nlearning_rate = 1e-5\n';

/** Both logs of the run at `path`; `failures` are what they say about files that they cannot write. */
export function curveLogs(path: string): { readonly logs: readonly [CurveLog, CurveLog]; readonly failures: string[] } {
  const failures: string[] = [];
  const onFailure = (message: string) => failures.push(message);
  const tensorboard = ({ rows }: TrainingStart) => openTensorboardFile({ ...tensorboardOptions(path), rows });
  const wandb = ({ rows }: TrainingStart) => openWandbFile({ ...wandbOptions(path), rows });
  return {
    logs: [new CurveLog({ viewer: 'TensorBoard', open: tensorboard, onFailure }), new CurveLog({ viewer: 'W&B', open: wandb, onFailure })],
    failures,
  };
}

export const tensorboardOptions = (path: string) => ({ folder: join(path, 'tensorboard'), settings: SETTINGS, config: CONFIG });

export const wandbOptions = (path: string) => ({
  folder: join(path, 'wandb'),
  run: { id: '00112233', name: 'run', project: 'p', entity: null, group: 'run--x', tags: ['tag'], startedAt: new Date(0) },
  settings: SETTINGS,
  packageVersion: '0',
});

/** The points of every row of metrics.jsonl. */
export function recordedPoints(path: string): ReadPoint[] {
  const lines = readFileSync(join(path, 'metrics.jsonl'), 'utf8').trimEnd().split('\n');
  return lines.flatMap((line) => {
    const { kind, step, time, ...values } = JSON.parse(line) as { kind: string; step: number; time: string };
    return Object.entries(values as Record<string, number | null>).flatMap(([name, value]): ReadPoint[] =>
      value === null ? [] : [[`${kind === 'step' ? 'train' : 'eval'}/${name}`, step, value, Date.parse(time) / 1000]],
    );
  });
}

/** Event files hold float32. */
export const inFloat32 = (points: readonly ReadPoint[]): ReadPoint[] =>
  points.map(([tag, step, value, seconds]) => [tag, step, Math.fround(value) + 0, seconds]);
