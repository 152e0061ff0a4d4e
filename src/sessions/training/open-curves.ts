/** The logs of a run's curves that its configuration requests: TensorBoard, Weights & Biases. */
import { redactionOf } from '../../evaluate/redaction.ts';
import { CurveLog } from '../../trainer/curves/curve-log.ts';
import { openTensorboardFile } from '../../trainer/curves/tensorboard-file.ts';
import { openWandbFile, type WandbRun } from '../../trainer/curves/wandb-file.ts';
import type { TrainingDirectory } from '../../trainer/records/training-directory.ts';
import { packageVersion } from '../../data/package-root.ts';
import type { TrainingSetup } from './resolve-training.ts';

export interface OpenCurvesOptions {
  readonly setup: Pick<TrainingSetup, 'config' | 'wire'>;
  readonly directory: Pick<TrainingDirectory, 'paths' | 'run'>;
  /** Text of config.toml, free of secrets. */
  readonly configText: string;
  readonly secrets: ReadonlySet<string>;
  readonly note: (line: string) => void;
}

/** Creates no file: each log does so when the run starts. */
export function openCurves({ setup, directory, configText, secrets, note }: OpenCurvesOptions): CurveLog[] {
  const { tensorboard, wandb } = setup.config.logging;
  const { paths, run } = directory;
  const settings = redactionOf([...secrets]).settings(setup.wire);
  const onFailure = (message: string) => note(`vf-train: ${message}`);
  const logs: CurveLog[] = [];
  if (tensorboard) {
    const open = (rows: Parameters<typeof openTensorboardFile>[0]['rows']) =>
      openTensorboardFile({ folder: paths.tensorboard, rows, settings, config: configText });
    logs.push(new CurveLog({ viewer: 'TensorBoard', open, onFailure }));
  }
  if (wandb !== null) {
    const wandbRun: WandbRun = {
      // The part of the folder's name that is unique.
      id: run.run_id.split('--').at(-1)!,
      name: setup.config.name ?? setup.config.environment.id,
      project: wandb.project,
      entity: wandb.entity,
      group: wandb.group ?? run.run_id,
      tags: wandb.tags ?? [],
      startedAt: new Date(run.started_at),
    };
    const open = (rows: Parameters<typeof openWandbFile>[0]['rows']) =>
      openWandbFile({ folder: paths.wandb, run: wandbRun, rows, settings, packageVersion: packageVersion() });
    logs.push(new CurveLog({ viewer: 'Weights & Biases', open, onFailure }));
  }
  return logs;
}
