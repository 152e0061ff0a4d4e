/** `vf-train` on a file with `[[ablation]]`: plays its runs one after the other, each in a folder of its own, and ends with a table of what they reached. */
import { basename } from 'node:path';
import { ConfigError, type TrainingError } from '../../core/errors.ts';
import { compareTrainings } from '../../reports/comparison/compare-trainings.ts';
import { readComparedTrainings } from '../../reports/comparison/compared-training.ts';
import { trainingComparisonMarkdown } from '../../reports/comparison/training-comparison-markdown.ts';
import { trainingComparisonText } from '../../reports/comparison/training-comparison-text.ts';
import { renderConfig } from '../../reports/training/render-config.ts';
import { countText, durationText, meanText, plural } from '../../reports/text/number-text.ts';
import { displayPath, nearbyPath, ownCommand } from '../../reports/text/own-command.ts';
import { paintFor } from '../../reports/text/paint.ts';
import { escapeControls, jsonLine, printable } from '../../reports/text/terminal-text.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import type { TrainingComparison } from '../../schemas/training-comparison.ts';
import { trainingComparisonToWire } from '../../schemas/training-comparison.ts';
import { type TrainingSummary, trainingSummaryToWire } from '../../schemas/training-summary.ts';
import { collectGarbage } from '../../sessions/engine/spare-memory.ts';
import { usesEngine } from '../../sessions/policy/local-base.ts';
import { concludeTraining } from '../../sessions/training/conclude-training.ts';
import { OtherInputsError } from '../../sessions/named-inputs.ts';
import { finishedRun } from '../../sessions/training/finished-run.ts';
import type { PlannedAblation, PlannedTraining } from '../../sessions/training/plan-ablations.ts';
import { runTraining } from '../../sessions/training/run-training.ts';
import { totalSteps } from '../../trainer/config/training-schedule.ts';
import { AblationDirectory } from '../../trainer/records/ablation-directory.ts';
import { type CommandContext, errorLine, EXIT, isUnderRounds } from '../command-line.ts';
import { ablationDryRun, checkParts } from './ablation-dry-run.ts';
import { trainingHost } from './run-train.ts';
import type { TrainArguments } from './train-arguments.ts';

interface Asked {
  readonly given: TrainArguments;
  readonly context: CommandContext;
  /** Those of the command line without -R. */
  readonly words: readonly string[];
}

/** More runs than the writer of a sweep is likely to have meant. */
const MANY_RUNS = 200;

const ALLOW = '--allow-changes';

export async function runAblations(ablations: readonly PlannedAblation[], asked: Asked): Promise<number> {
  const { given, context } = asked;
  const all = ablations.flatMap(({ runs }) => runs);
  for (const { setup } of all) for (const secret of setup.secrets) context.secrets.add(secret);
  if (given.push !== null)
    throw new ConfigError(
      `--push uploads one adapter, but ${given.target} describes ${plural(all.length, 'run')}. Push the best of them afterwards: vf-train -R RUN --push OWNER/NAME`,
    );
  if (given.action === 'show-config') {
    for (const { run, setup } of all)
      process.stdout.write(printable(`# ${escapeControls(run.label)}\n${renderConfig(setup, { secrets: [...setup.secrets] })}\n`));
    return EXIT.done;
  }
  if (given.action === 'dry-run') return ablationDryRun(ablations, { json: given.display.json, gpuPrice: given.gpuPrice, context });
  if (all.length > MANY_RUNS)
    context.note(`vf-train: ${countText(all.length)} runs, one after the other; --dry-run lists them. Ctrl-C stops, and -R continues`);
  // What only an opened environment can refuse is refused before the first run too. Each run shows its own notices.
  await checkParts(ablations, { note: () => {}, signal: context.signal });
  const player = new AblationPlayer(asked, all);
  for (const ablation of ablations) await player.play(ablation);
  return player.end();
}

interface PlayedAblation {
  readonly name: string;
  readonly directory: string;
  readonly comparison: TrainingComparison;
  readonly summaries: readonly (TrainingSummary | null)[];
}

class AblationPlayer {
  readonly #asked: Asked;
  readonly #total: number;
  /** Runs that are not recorded as finished and have not been played. */
  #left: number;
  readonly #played: PlayedAblation[] = [];
  #place = 0;
  #code: number = EXIT.done;
  /** Of the runs of this process. */
  readonly #seconds: number[] = [];
  /** Runs whose learning rate must change before they can continue. */
  readonly #diverged: PlannedTraining[] = [];
  #isInterrupted = false;
  /** True if a run continues only with --allow-changes: a module of the user must be corrected, or files have changed. */
  #needsAllowing = false;
  /** What the user must correct before the command helps. */
  readonly #correct = new Set<string>();

  constructor(asked: Asked, all: readonly PlannedTraining[]) {
    this.#asked = asked;
    this.#total = all.length;
    this.#left = all.filter(({ record }) => record.state !== 'finished').length;
  }

  /** The command that continues the runs that have not finished. */
  get #again(): string {
    const { words } = this.#asked;
    return ownCommand('vf-train', [...words, '-R', ...(this.#needsAllowing && !words.includes(ALLOW) ? [ALLOW] : [])]);
  }

  /** Plays the runs that have not finished, then writes and prints the table. */
  async play({ name, id, directory: earlier, runsFolder, runs, leftOut }: PlannedAblation): Promise<void> {
    if (this.#isInterrupted) return;
    const records = runs.map(({ record }) => record);
    const startedAt = new Date().toISOString();
    const record = { schema_version: 1 as const, name, started_at: startedAt, finished_at: null, runs: records };
    if (earlier === null && this.#asked.given.resume !== null)
      this.#note(`found no earlier ablation "${name}" under ${displayPath(runsFolder)}; starting a new one`);
    if (leftOut.length > 0)
      this.#note(
        `the file no longer describes ${leftOut.slice(0, 3).join(', ')}${leftOut.length > 3 ? ` and ${plural(leftOut.length - 3, 'further run')}` : ''}: left out of the table, and kept in ${nearbyPath(runsFolder)}`,
      );
    await using directory =
      earlier === null ? await AblationDirectory.create(runsFolder, id, record) : await AblationDirectory.reopen(earlier, records);
    const summaries: (TrainingSummary | null)[] = [];
    for (const [i, run] of runs.entries()) {
      this.#place++;
      if (this.#isInterrupted) continue;
      summaries.push(await this.#playRun(run, i, directory));
      if (run.record.state !== 'finished') this.#left--;
    }
    const comparison = await compareTrainings(await readComparedTrainings([directory.path], 'reward'));
    await directory.writeTable(this.#asked.context.redact(trainingComparisonMarkdown(comparison, name)));
    if (!this.#isInterrupted) await directory.finish(new Date());
    this.#played.push({ name, directory: directory.path, comparison, summaries });
    if (!this.#asked.given.display.json) this.#print(comparison, name, directory.path);
  }

  end(): number {
    const { given, context } = this.#asked;
    if (this.#code === EXIT.done) context.saved = this.#played.map(({ directory }) => displayPath(directory)).join(', ');
    if (given.display.json) {
      const ablations = this.#played.map(({ name, directory, comparison, summaries }) => ({
        name,
        directory,
        runs: summaries.map((summary) => summary && trainingSummaryToWire(summary)),
        comparison: trainingComparisonToWire(comparison),
      }));
      process.stdout.write(context.redact(jsonLine({ ablations })));
    }
    if (this.#diverged.length > 0) this.#note(divergedText(this.#diverged, given.target!));
    if (this.#code !== EXIT.done && !isUnderRounds()) this.#note(`finished runs are kept; ${this.#first()}continue the others with ${this.#again}`);
    return this.#isInterrupted ? EXIT.interrupted : this.#code;
  }

  /** Never throws for a run that fails: the others go on. Null without a summary. */
  async #playRun({ run, setup, record }: PlannedTraining, index: number, directory: AblationDirectory): Promise<TrainingSummary | null> {
    const { context } = this.#asked;
    const started = performance.now();
    context.note(`\nrun ${this.#place} of ${this.#total}: ${escapeControls(run.label)}${this.#timeLeft()}`);
    try {
      const finished = await finishedRun(setup);
      if (finished !== null) {
        const { readTrainingSummary } = await import('../../reports/training/training-summary.ts');
        this.#note(`${displayPath(finished.outcome.directory)} has already finished`);
        await directory.update(index, { state: 'finished', reason: null });
        return (await readTrainingSummary({ ...finished, config: setup.config })).summary;
      }
      const summary = await this.#train({ run, setup, record }, index, directory);
      this.#seconds.push((performance.now() - started) / 1000);
      return summary;
    } catch (error) {
      if (context.signal.aborted) {
        this.#interrupt();
        await directory.update(index, { state: 'interrupted', reason: null });
        return null;
      }
      this.#code = EXIT.failed;
      context.report(error);
      this.#noteNeeds(error);
      // A run that stopped earlier and cannot continue yet has not failed for another reason.
      const isRefused = error instanceof OtherInputsError && record.reason !== null;
      await directory.update(index, isRefused ? {} : { state: 'failed', reason: context.redact(errorLine(error)) });
      return null;
    }
  }

  async #train(planned: PlannedTraining, index: number, directory: AblationDirectory): Promise<TrainingSummary> {
    const { given, context } = this.#asked;
    const { setup } = planned;
    const host = trainingHost(setup, given.display, context);
    let summary: TrainingSummary | null = null;
    const { outcome, cost } = await runTraining(setup, {
      ...host,
      watch: async (run) => {
        await directory.update(index, { folder: basename(run.path), state: 'running', reason: null });
        const watch = await host.watch(run);
        context.continueWith = isUnderRounds() ? null : this.#again;
        // One transcript for each run would bury the figures; transcripts.txt has them.
        return { ...watch, transcripts: { ...watch.transcripts, note: () => {} } };
      },
      conclude: async (ended) => {
        // The engine is closed, and drawing needs as much memory as the engine did.
        if (usesEngine(setup.config)) collectGarbage();
        ({ summary } = await concludeTraining(ended, { variables: process.env, redact: context.redact, warn: (line) => this.#note(line) }));
      },
    });
    const { reason, message, resumeFlags = [], correct = null } = outcome;
    const ended: TrainingSummary = summary!;
    // Its flags would continue the run with settings of its own, in no group of the table.
    if ((correct === null && resumeFlags?.includes(ALLOW) === true) || ended.collapse !== undefined) this.#diverged.push(planned);
    this.#noteNeeds({ correct, resumeFlags });
    if (reason === 'interrupted') this.#interrupt();
    if (reason === 'stopped' && this.#code === EXIT.done) this.#code = cost?.limitReached === true ? EXIT.costReached : EXIT.failed;
    const spent = cost === null ? {} : { usd: cost.usd };
    await directory.update(index, { state: reason, reason: message === null ? null : context.redact(message), ...spent });
    this.#note(endText(ended, totalSteps(setup.config)));
    return ended;
  }

  #noteNeeds(ended: unknown): void {
    const { correct = null, resumeFlags = null } = fieldsOf(ended) as Partial<Pick<TrainingError, 'correct' | 'resumeFlags'>>;
    if (correct !== null) this.#correct.add(correct);
    const isAllowed = ended instanceof OtherInputsError ? ended.isAllowable : correct !== null && resumeFlags?.includes(ALLOW) === true;
    if (isAllowed) this.#needsAllowing = true;
  }

  #first(): string {
    return this.#correct.size === 0 ? '' : `correct ${[...this.#correct].map(displayPath).join(' and ')}, then `;
  }

  #interrupt(): void {
    this.#isInterrupted = true;
    this.#code = EXIT.interrupted;
  }

  #timeLeft(): string {
    if (this.#seconds.length === 0) return '';
    const mean = this.#seconds.reduce((sum, seconds) => sum + seconds, 0) / this.#seconds.length;
    return `  (about ${durationText(mean * this.#left)} left)`;
  }

  #print(comparison: TrainingComparison, name: string, directory: string): void {
    const view = { columns: Math.max(100, process.stdout.columns ?? 0), paint: paintFor(process.stdout, { plain: this.#asked.given.display.plain }) };
    const again = `${view.paint('dim', 'again      ')}${view.paint('cyan', ownCommand('vf-compare', [nearbyPath(directory)]))}`;
    process.stdout.write(printable(this.#asked.context.redact(`\n${trainingComparisonText(comparison, name, view)}\n${again}\n`)));
  }

  #note(line: string): void {
    this.#asked.context.note(`vf-train: ${escapeControls(line)}`);
  }
}

function divergedText(runs: readonly PlannedTraining[], file: string): string {
  const [{ run }] = runs as [PlannedTraining];
  const swept = run.values.map(({ path }) => path.join('.')).find((key) => key.endsWith('learning_rate'));
  const which = `${plural(runs.length, 'run')} stopped or collapsed in a way that a lower learning rate may avoid, first ${run.label}`;
  if (swept === undefined) return `${which}. Lower it in ${file}, and start again without -R, so that all runs have the same one`;
  return `${which}. Lower it in [ablation.sweep] of ${file}; -R then plays the runs that are new`;
}

/** `finished: evaluation reward 0.954 at step 15, 0.250 at step 0` */
function endText({ reason, message, step, heldOut }: TrainingSummary, steps: number): string {
  if (reason !== 'finished') return `${reason} at step ${countText(step)} of ${countText(steps)}${message === null ? '' : `: ${message}`}`;
  if (heldOut === null) return `finished, never evaluated`;
  const { start, end } = heldOut;
  return `finished: evaluation reward ${meanText(end.value)} at step ${countText(end.step)}, ${meanText(start.value)} at step ${countText(start.step)}`;
}
