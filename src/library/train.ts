/** `train` of the library: the work of `vf-train` as a function with callbacks. Its body is loaded with the first call. */
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import type { TrainingSummary } from '../schemas/training-summary.ts';
import type { MetricsRow, TrainingEvent } from '../trainer/training-observer.ts';

/** The type with every key optional, at every depth. */
type Part<T> = T extends readonly unknown[] ? T : T extends object ? { readonly [K in keyof T]?: Part<T[K]> | undefined } : T;

/** Settings of a training, nested as in docs/training-config.md, with names in camelCase. Arguments, roles and losses keep the names that they have there. */
type TrainSettings = Part<TrainingConfig>;

/** The environment and the settings of `train`. Without a preset, `settings` names a model, a sampler and a trainer. */
export interface TrainOptions<R extends Row = Row> {
  /**
   * An environment's name (`search-r1`) or path (`./city-notes`), a TOML file of `vf-train`, or a loaded environment of text, which stays open: load it with
   * `loadEnvironment(name, args, { purpose: 'training' })`. Required, unless `resume` names a run on an environment that is found by name or path.
   */
  readonly environment?: string | Environment<R>;
  /** Ready-made settings, such as `laptop`; `vf-train --list-presets` lists them. @default none: then `settings` names model and policy */
  readonly preset?: string;
  /** Override preset and file. @default none */
  readonly settings?: TrainSettings;
  /** Arguments of an environment that is given by name or path. @default none */
  readonly args?: Readonly<Record<string, unknown>>;
  /** Only supervised steps, on the rows of this JSONL file or these (docs/supervised.md). @default none: steps on rollouts */
  readonly sft?: string | readonly string[];
  /** Number of steps, from 0; with `sft`, supervised steps. @default that of preset or file, else 100; with `sft`, one pass over the rows */
  readonly steps?: number;
  /** Parent of the run's folder, which is created in its `train/`. @default that of preset or file, else `outputs` */
  readonly output?: string;
  /** The folder of a run to continue; true for the newest one with these settings, or a new one if there is none. @default false: a new run */
  readonly resume?: string | boolean;
  /** With `resume`: goes on with other settings of the optimiser and the algorithm, and with files that have other contents than before. @default false */
  readonly allowChanges?: boolean;
  /** Aborting stops the run, which keeps all work. @default never */
  readonly signal?: AbortSignal;
  /** The longest wait for a server that limits the rate of requests, in milliseconds; 0 fails at once. @default 3600000 */
  readonly maxWaitMs?: number;
  /** Environment variables, for API keys and such; those of `./.env` are added. @default those of this process */
  readonly variables?: Readonly<Record<string, string | undefined>>;
  /** Called at the start, and again when a lost backend takes the run back to its last checkpoint. `step`: steps done before. */
  readonly onStart?: (start: { readonly directory: string; readonly step: number; readonly steps: number }) => void;
  /** Called after each step, once its row is on disk. */
  readonly onStep?: (step: TrainedStep) => void;
  /** Called after each evaluation on the evaluation rows; step 0 is before training. */
  readonly onEvaluation?: (evaluation: TrainingEvaluation) => void;
  /** Events of interest to a user: alarms, failures, repeats. */
  readonly onEvent?: (event: Pick<TrainingEvent, 'step' | 'kind' | 'message'>) => void;
  /** A line about the run, for example the source of its model. */
  readonly onNotice?: (line: string) => void;
}

/** A finished step of a training run. */
export interface TrainedStep {
  /** Counted from 1. */
  readonly step: number;
  /** Steps of the whole run. */
  readonly steps: number;
  /** Mean over the finished rollouts of the step; null if none finished, and in supervised steps. */
  readonly reward: number | null;
  /** Null if the step was skipped. */
  readonly loss: number | null;
  /** All metrics of the step by name; docs/metrics.md defines them. */
  readonly metrics: MetricsRow['values'];
}

interface TrainingEvaluation {
  /** Steps done before it. */
  readonly step: number;
  readonly steps: number;
  /** Mean over the finished rollouts; null if none finished. */
  readonly reward: number | null;
  /** Bounds of its 95 % interval; null if unknown. */
  readonly low: number | null;
  readonly high: number | null;
  readonly metrics: MetricsRow['values'];
}

/** A training run that has ended. */
export interface Trained {
  /** `finished`: all steps are done. `stopped`: a guard or an error ended it. `interrupted`: the signal did. */
  readonly reason: 'finished' | 'stopped' | 'interrupted';
  /** The cause in one sentence; null if `reason` says enough. */
  readonly message: string | null;
  /** Steps done, those of earlier processes included. */
  readonly step: number;
  /** True if `train({ resume: directory })` can continue it; false for a finished run, which continues with more `steps`. */
  readonly resumable: boolean;
  /** Absolute path of the run's folder. */
  readonly directory: string;
  /** PEFT directory of the newest checkpoint; null if nothing was trained. */
  readonly adapter: string | null;
  /** PEFT directory of the best version, by held-out reward, another metric of the evaluation or validation loss (`checkpoint.best`); null if none was kept. */
  readonly bestAdapter: string | null;
  /** One row per step, evaluation and validation, those of earlier processes included. */
  readonly metrics: readonly MetricsRow[];
  readonly summary: TrainingSummary;
}

/**
 * Trains a LoRA adapter by reinforcement learning, or on demonstrations, in a folder of its own that `vf-train -R` and `vf-view` read too. With the embedded
 * engine, the same settings and seed give the same weights as `vf-train`, also after an abort and `resume`. It draws no plots and prints nothing.
 *
 * Rejects with ConfigError if it cannot run as asked, CancelledError if the signal aborts before the run begins, and other errors that end a run; the run can
 * then be resumed. A run that a guard stops, or the signal, is a result.
 * @example
 * const trained = await train({ environment: 'search-r1', preset: 'laptop', onStep: ({ step, reward }) => console.log(step, reward) });
 * console.log(trained.adapter); // /…/outputs/train/…/checkpoints/step-000015/adapter
 */
export async function train<R extends Row = Row>(options: TrainOptions<R>): Promise<Trained> {
  const { runTrainOptions } = await import('./run-train-options.ts');
  // Only the environment itself reads the type of its rows.
  return runTrainOptions(options as unknown as TrainOptions);
}
