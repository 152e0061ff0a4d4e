/** The steps of rounds: trainings and stages, each once, also after a kill. */
import { existsSync, statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { namesIn } from '../../files/if-there.ts';
import { ConfigError, ResultsError } from '../../core/errors.ts';
import { makeFolder } from '../../files/make-folder.ts';
import { processStart } from '../../files/process-start.ts';
import { countRows } from '../row-files.ts';
import { hashInputs, recordStage, type StageInput } from '../stage-files.ts';
import type { WireDoneStep, WireRunningSince } from '../../schemas/rounds-state.ts';
import { ownCommand } from '../../reports/text/own-command.ts';
import { isRunning, untilEnded } from './left-command.ts';
import type { EndedCommand, RoundsContext } from './round-commands.ts';
import type { RoundsState } from './rounds-state.ts';
import { shownWords } from '../../transport/shown-words.ts';
import { type StepSummary, summaryIn } from './training-summary.ts';

/** The results of a training. */
export interface Trained {
  readonly run: string;
  readonly trace: string;
  /** Null if no step changed the policy. */
  readonly adapter: string | null;
}

export interface TrainingOrder {
  readonly key: string;
  readonly title: string;
  /** Of the run. */
  readonly name: string;
  /** Words of vf-train, without folder and name. */
  readonly words: readonly string[];
  /** Its folder. */
  readonly folder: string;
  readonly inputs: readonly StageInput[];
  readonly isSupervised?: boolean;
}

export const WEIGHTS = 'adapter_model.safetensors';

export class RoundSteps {
  readonly #state: RoundsState;
  /** Path of the file that defines the rounds. */
  readonly #path: string;
  readonly #context: RoundsContext;

  constructor(state: RoundsState, path: string, context: RoundsContext) {
    this.#state = state;
    this.#path = path;
    this.#context = context;
  }

  /** Trains, or continues the training that an earlier process began. Throws ResultsError if it does not come to its end. */
  async train(order: TrainingOrder): Promise<Trained> {
    const { key, folder, words, name } = order;
    const known = this.#state.find(key);
    if (known !== null) return this.#known(order, trainedOf(known));
    await this.#untilFree(key);
    makeFolder(folder);
    const begun = await runIn(folder);
    const command = [...words, '-o', folder, '--name', name, '--json'];
    const { stdout, ...done } = await this.#run(order, 'vf-train', command, begun);
    const summary = summaryIn(stdout);
    const run = await runIn(folder);
    if (summary === null || run === null)
      throw new ResultsError(`Round step ${key}: vf-train ended without a summary; look at its lines above, then run the same command again`);
    const { adapter, reward, held_out: heldOut } = summary;
    const trained: Trained = { run, trace: join(run, 'trace.jsonl'), adapter };
    await recordTraining(order, trained, summary);
    await this.#state.finish({ ...done, run, adapter, reward: { training: reward, held_out: heldOut } });
    return trained;
  }

  isDone(key: string): boolean {
    return this.#state.find(key) !== null;
  }

  /** Runs a stage of vf-rounds, which replaces its earlier output. */
  async stage(key: string, title: string, words: readonly string[]): Promise<void> {
    if (this.isDone(key)) return this.#known({ key, title }, undefined);
    await this.#untilFree(key);
    const { stdout: _, ...done } = await this.#run({ key, title }, 'vf-rounds', words, null);
    await this.#state.finish({ ...done, run: null, adapter: null, reward: {} });
  }

  #known<T>({ key, title }: Pick<TrainingOrder, 'key' | 'title'>, made: T): T {
    this.#context.note(`vf-rounds run: ${title} (${key}) was done before`);
    return made;
  }

  /** `begun`: the run of an earlier process, which is continued. The recorded command is the first one, because it says how the step was made. */
  async #run({ key, title }: Pick<TrainingOrder, 'key' | 'title'>, name: 'vf-train' | 'vf-rounds', command: readonly string[], begun: string | null) {
    const { commands, note, signal } = this.#context;
    note(`vf-rounds run: ${title} (${key})${begun === null ? '' : ', which an earlier process began'}`);
    const words = begun === null ? command : ['-R', begun, '--json'];
    const startedAt = new Date();
    const earlier = begun === null ? null : await this.#earlier(key, begun);
    const since = { started_at: startedAt.toISOString(), seconds: 0, ...earlier, process_started_at: startedAt.toISOString() };
    let saved = Promise.resolve();
    const { status, stdout } = await commands.run(name, words, {
      signal,
      onStart: (pid) => {
        saved = processStart(pid).then((start = null) => this.#state.begin({ key, pid, start, since }));
        // Awaited below, unless the command fails first.
        saved.catch(() => {});
      },
    });
    await saved;
    if (status !== 0) {
      const shown = ownCommand(name, shownWords(words));
      // Once a step is finished, the file must not change, unless this flag is given.
      const flag = this.#state.steps.length === 0 ? '' : `, with --allow-changes if you change ${this.#path}`;
      const text = `Round step ${key} (${title}) ${endText(status)}, then run the same command again${flag}. The step was: ${shown}`;
      throw status === 2 ? new ConfigError(text) : new ResultsError(text);
    }
    const seconds = since.seconds + (Date.now() - startedAt.getTime()) / 1000;
    return { key, command: [name, ...shownWords(command)], started_at: since.started_at, seconds, stdout };
  }

  /** The time at which the step began, and the time that earlier processes worked on it, for the last one until its last write. Null if it is unknown. */
  async #earlier(key: string, run: string): Promise<Pick<WireRunningSince, 'started_at' | 'seconds'> | null> {
    const { key: last, since } = this.#state.running;
    if (last !== key || since === undefined) return null;
    const written = (await readdir(run)).map((name) => statSync(join(run, name), { throwIfNoEntry: false })?.mtimeMs ?? 0);
    const worked = Math.max(...written) - Date.parse(since.process_started_at);
    return { started_at: since.started_at, seconds: since.seconds + Math.max(0, worked) / 1000 };
  }

  /** A killed `vf-rounds run` leaves its command running. This waits until that command has ended. */
  async #untilFree(key: string): Promise<void> {
    const { key: last, pid, start = null } = this.#state.running;
    if (last !== key || pid === null || start === null || !(await isRunning({ pid, start }))) return;
    this.#context.note(`vf-rounds run: the command of ${key} that an earlier process began is still running (process ${pid}); waiting for it`);
    await untilEnded({ pid, start }, this.#context.signal);
  }
}

/** The way a command failed, and the remedy. */
function endText(status: EndedCommand['status']): string {
  if (typeof status === 'number') return `failed with exit code ${status}; its own line is above. Fix this`;
  return `was killed by ${status}${status === 'SIGKILL' ? '; the machine may have run out of memory. Free some' : '. Find out why'}`;
}

function trainedOf({ run, adapter }: WireDoneStep): Trained {
  return { run: run!, trace: join(run!, 'trace.jsonl'), adapter };
}

/** The run that vf-train began in the folder; null for none. */
export async function runIn(folder: string): Promise<string | null> {
  const base = join(folder, 'train');
  const runs = (await namesIn(base)).map((name) => join(base, name)).filter((path) => existsSync(join(path, 'run.json')));
  return runs.toSorted((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs)[0] ?? null;
}

/** A manifest in the folder of the run, so that a report can follow rows and adapters through trainings. */
async function recordTraining(
  { inputs, isSupervised = false, key }: TrainingOrder,
  { run, trace, adapter }: Trained,
  summary: StepSummary,
): Promise<void> {
  const weights = adapter === null ? null : join(adapter, WEIGHTS);
  const outputs = [...(isSupervised ? [] : [trace]), ...(weights === null ? [] : [weights])]
    .filter((path) => existsSync(path))
    .map((path) => relative(run, path));
  const rollouts = summary.rollouts.finished;
  const rows = inputs.find(({ role }) => role === 'rows');
  const target = { stage: isSupervised ? 'sft' : 'train', folder: run, name: 'training', outputs } as const;
  await recordStage(target, await hashInputs(inputs), {
    rule: { step: key, steps: summary.step },
    counts: { ...(rows === undefined ? {} : { rows: await countRows(rows.path) }), rollouts },
    rows: { 'trace.jsonl': rollouts },
  });
}

/** The weights of an adapter, as an input of a step that starts from it. */
export function adapterInput(adapter: string | null): StageInput[] {
  return adapter === null ? [] : [{ role: 'adapter', path: join(adapter, WEIGHTS) }];
}
