/**
 * Whole training runs in a folder of their own, without a model server: a scripted policy writes words that depend on the rollout's name alone, the
 * reward is a hash of them, so that whatever is sampled twice is the same twice. The backend is the test's.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { ScriptedClient, type ScriptedTurn } from '../../src/clients/scripted.ts';
import type { Environment } from '../../src/core/environment.ts';
import { reward, Rubric } from '../../src/core/rubric.ts';
import type { OwnCredit } from '../../src/trainer/credit.ts';
import type { GradientBackend } from '../../src/trainer/gradient-backend.ts';
import { lossTerms } from '../../src/trainer/losses/loss-terms.ts';
import type { PolicyServers } from '../../src/trainer/weight-publisher.ts';
import type { CreateSource } from '../../src/trainer/trajectory-source.ts';
import { train } from '../../src/trainer/loop/train.ts';
import { TrainingDirectory } from '../../src/trainer/records/training-directory.ts';
import type { TrainingObserver } from '../../src/trainer/training-observer.ts';
import type { TrainingOutcome, DemonstrationSet, TrainingRun, TrainingSession } from '../../src/trainer/training-session.ts';
import { CountingEnv } from '../rollouts/counting-env.ts';
import { MemoryPublisher } from './memory-publisher.ts';
import { someConfig } from './some-config.ts';

const BASE = {
  steps: 6,
  seed: 3,
  rollouts: { examples_per_step: 3, rollouts_per_example: 4, max_concurrent: 4 },
  algorithm: { old_log_probs: 'trainer', constant_groups: 'drop', minibatches: 2, kl: { coefficient: 0.01 }, correction: { level: 'token' } },
  optimizer: { learning_rate: 0.01 },
  backend: { max_tokens: 200 },
  evaluation: { every: 3, examples: 4 },
  checkpoint: { every: 2, keep: 2 },
};

export interface SmallRunOptions {
  /** Set over the small configuration, in the spelling of the file. */
  readonly config?: Record<string, unknown>;
  readonly backend: () => Promise<GradientBackend>;
  readonly observer?: TrainingObserver;
  readonly signal?: AbortSignal;
  readonly servers?: PolicyServers;
  /** Called for every generation; may throw what a client may throw. */
  readonly onTurn?: (turn: ScriptedTurn) => Promise<void> | void;
  readonly environment?: Environment;
  readonly evaluationSetup?: number;
  readonly isEvaluatedAgain?: boolean;
  readonly isUpdatedOtherwise?: boolean;
  readonly createSource?: CreateSource;
  readonly ownCredit?: OwnCredit;
  readonly demonstrations?: DemonstrationSet;
  /** Changes the session before it is used. */
  readonly session?: (session: TrainingSession & { readonly publisher: MemoryPublisher }) => TrainingSession;
}

/** A new folder `run--x` below `parent`; its path. */
export async function newRun(parent: string): Promise<string> {
  const options = { outputDirectory: parent, name: 'run', id: 'x', config: '', configDigest: '', startedAt: new Date(0) };
  await using directory = await TrainingDirectory.create(options);
  return directory.path;
}

let attempts = 0;

/** One process's life on the run at `path`: from its last checkpoint to its end. */
export async function trainSmall(path: string, options: SmallRunOptions): Promise<TrainingOutcome> {
  const { observer = {}, onTurn, signal = new AbortController().signal } = options;
  await using directory = await TrainingDirectory.open(path);
  const attempt = `attempt-${process.pid}-${++attempts}`;
  await directory.beginAttempt({ id: attempt, startedAt: new Date(0), packageVersion: '0' });
  const environment = options.environment ?? new CountingEnv({ rows: 9, maxTurns: 1, rubric: new Rubric({ funcs: [reward(coin)] }) });
  let sessions = 0;
  const config = someConfig(BASE, options.config ?? {});
  const losses = lossTerms(config, { algorithm: config.algorithm, responseTokens: environment.limits.responseTokens });
  const run: TrainingRun = {
    config,
    losses,
    ...(options.createSource === undefined ? {} : { createSource: options.createSource }),
    ...(options.ownCredit === undefined ? {} : { ownCredit: options.ownCredit }),
    ...(options.demonstrations === undefined ? {} : { openDemonstrations: async () => options.demonstrations! }),
    directory,
    environment,
    evaluation: environment,
    ...(options.evaluationSetup === undefined ? {} : { evaluationSetup: options.evaluationSetup }),
    isEvaluatedAgain: options.isEvaluatedAgain ?? false,
    isUpdatedOtherwise: options.isUpdatedOtherwise ?? false,
    servers: options.servers ?? { replicas: ['memory'], revive: async () => {} },
    openSession: async () => {
      const backend = await options.backend();
      const versions = new PolicyVersions({ version: 0, model: 'base' }, { isInFlight: config.publish.inFlight });
      const turns = async (turn: ScriptedTurn) => {
        await onTurn?.(turn);
        return words(turn.key!);
      };
      const client = new ScriptedClient({ turns, versions, logProb: -5.5 });
      const publisher = new MemoryPublisher(versions);
      const close = async () => {
        await publisher.close();
        await client.close();
        await backend.close();
      };
      const session = { backend, client, versions, publisher, name: `${attempt}-${++sessions}`, [Symbol.asyncDispose]: close };
      return options.session?.(session) ?? session;
    },
    observer,
    redact: (text) => text,
  };
  return train(run, signal);
}

/** What must not depend on how often a run was interrupted: rows of metrics without times, speeds and what a publish found. */
export async function rowsOf(path: string): Promise<Record<string, unknown>[]> {
  const text = await readFile(join(path, 'metrics.jsonl'), 'utf8');
  const isTime = (name: string) => /seconds|^time$|_per_second$|^probe_/.test(name);
  return text
    .trimEnd()
    .split('\n')
    .map((line) => Object.fromEntries(Object.entries(JSON.parse(line) as object).filter(([name]) => !isTime(name))));
}

/** The file of the adapter that a run ended with, as bytes. */
export async function finalAdapter({ adapter }: TrainingOutcome, file: string): Promise<Buffer> {
  return readFile(join(adapter!, file));
}

export async function eventsOf(path: string): Promise<{ readonly kind: string; readonly step: number; readonly message: string }[]> {
  const text = await readFile(join(path, 'events.jsonl'), 'utf8');
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { kind: string; step: number; message: string });
}

/** 5 to 20 letters of the name of the rollout. */
function words(key: string): string {
  const digest = createHash('sha256').update(key).digest();
  return `${Array.from(digest.subarray(0, 5 + (digest[31]! % 16)), (byte) => String.fromCharCode(97 + (byte % 26))).join('')};`;
}

/** 0 or 1, by what was written. */
function coin({ modelText }: { readonly modelText: string }): number {
  return createHash('sha256').update(`reward ${modelText}`).digest()[0]! % 2;
}
