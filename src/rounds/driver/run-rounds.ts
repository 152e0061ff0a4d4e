/** Drives rounds to their end: phase 1, buckets, focused rounds, rare successes, supervised steps, and on from their adapter. */
import { basename, join } from 'node:path';
import { readBundledManifest, trainingSets } from '../../data/bundled.ts';
import { findRows } from '../../data/find-rows.ts';
import { makeFolder } from '../../files/make-folder.ts';
import { lockRun } from '../../files/run-lock.ts';
import { lossText } from '../extract-stage.ts';
import { countRows } from '../row-files.ts';
import { readManifest } from '../stage-files.ts';
import { plural } from '../../reports/text/number-text.ts';
import { givenRunName, nameEndingIn } from '../../schemas/run-name.ts';
import { ownCommand } from '../../reports/text/own-command.ts';
import { factsIfLoaded } from '../../registry/environment-facts.ts';
import { checkRounds } from './check-rounds.ts';
import { checkTrainings, trainingConfigOf } from './check-trainings.ts';
import { reportText } from '../report-text.ts';
import type { RoundsContext } from './round-commands.ts';
import { adapterInput, RoundSteps, runIn, type Trained } from './round-steps.ts';
import { focusedAt, readRoundsConfig, type RoundsConfig, type TrainingTable } from './rounds-config.ts';
import { roundsPlan } from './rounds-plan.ts';
import { RoundsState } from './rounds-state.ts';
import { supervisedWords } from './supervised-words.ts';

/** The start of a round. */
interface RoundStart {
  /** Rows that it trains. */
  readonly rows: string;
  readonly adapter: string | null;
}

export interface RunRoundsOptions {
  readonly allowChanges: boolean;
  /** Prints the steps, and begins none. */
  readonly dryRun: boolean;
}

export async function runRounds(path: string, { allowChanges, dryRun }: RunRoundsOptions, context: RoundsContext): Promise<void> {
  const config = readRoundsConfig(path);
  const { path: rows } = await findRows(config.rows, 'train', {
    env: context.variables,
    signal: context.signal,
    offers: await offeredRows(config.environment),
  });
  await checkRounds(config, rows, context);
  await checkTrainings(config, context);
  if (dryRun) {
    const state = await RoundsState.open(config, { firstRun: null, allowChanges: true });
    const done = new Set(state.steps.map(({ key }) => key));
    return context.commands.print(await roundsPlan(config, rows, { ...context, done }));
  }
  makeFolder(config.output);
  await using _ = await lockRun(config.output);
  const state = await RoundsState.open(config, { firstRun: await runIn(join(config.output, 'round-1', 'phase1')), allowChanges });
  const rounds = new Rounds(config, rows, new RoundSteps(state, path, context), context);
  context.onStart();
  try {
    await rounds.play();
  } catch (error) {
    if (context.signal.aborted) context.note(`vf-rounds run: stopped; continue with ${ownCommand('vf-rounds', ['run', path])}`);
    throw error;
  }
}

/** The data sets of the package that the environment can train on, for a message. */
async function offeredRows(environment: string): Promise<string> {
  const { dataSets } = await factsIfLoaded(environment);
  return `${(dataSets ?? trainingSets(await readBundledManifest())).join(', ')} (bundled)`;
}

class Rounds {
  readonly #config: RoundsConfig;
  /** File with the rows of phase 1. */
  readonly #rows: string;
  readonly #steps: RoundSteps;
  readonly #context: RoundsContext;

  constructor(config: RoundsConfig, rows: string, steps: RoundSteps, context: RoundsContext) {
    this.#config = config;
    this.#rows = rows;
    this.#steps = steps;
    this.#context = context;
  }

  async play(): Promise<void> {
    const { rounds } = this.#config;
    const { commands, note } = this.#context;
    let start: RoundStart | null = await this.#phase1();
    let round = 1;
    for (; start !== null; round++) {
      start = await this.#round(round, start);
      if (round === rounds) break;
    }
    if (start === null) note(`vf-rounds run: no prompt is left to train after round ${round - 1}`);
    else
      note(
        `vf-rounds run: ${rounds === 1 ? 'the round is' : `all ${rounds} rounds are`} done; the next one starts from ${start.adapter ?? 'the base model'}`,
      );
    const report = await reportText([this.#config.output], {});
    this.#context.onPlayed(this.#config.output);
    commands.print(report);
  }

  /** Trains all rows, then keeps those in reach. */
  async #phase1(): Promise<RoundStart | null> {
    const { phase1, bucket, review, rows: named } = this.#config;
    const rows = this.#rows;
    const trained = await this.#train('1/phase1', 'phase 1', phase1, { rows: named, file: rows, adapter: this.#config.adapter });
    const folder = this.#folder(1, 'data');
    await this.#steps.stage('1/bucket', 'buckets', ['bucket', '--trace', trained.trace, '--rows', rows, '-o', folder, ...bucket]);
    const start = { rows: join(folder, 'bucket-a.jsonl'), adapter: trained.adapter };
    if (review === null) return this.#unlessEmpty(start);
    const [kept, round] = [join(folder, 'bucket-0-kept.jsonl'), join(folder, 'round-1.jsonl')];
    const lists = review.exclude.flatMap((list) => ['--exclude', list]);
    await this.#steps.stage('1/review', 'review of bucket 0', ['review', '--rows', join(folder, 'bucket-0.jsonl'), ...lists, '-o', kept]);
    // Bucket A, or its hard rows, then the rows that the review kept.
    const hard = review.hard.length > 0 ? review.hard : ['--measure', 'ndcg', '--threshold', '1'];
    await this.#steps.stage('1/focus', 'rows of round 1', [
      'focus',
      '--trace',
      trained.trace,
      '--rows',
      start.rows,
      ...hard,
      '--add',
      kept,
      '-o',
      round,
    ]);
    return this.#unlessEmpty({ ...start, rows: round });
  }

  async #round(round: number, start: RoundStart): Promise<RoundStart | null> {
    const { verify, focus } = this.#config;
    const [key, title] = [`${round}/focused`, `focused round ${round}`];
    const [focused] = focusedAt(this.#config, round);
    const lowered = this.#steps.isDone(key) ? [] : await this.#lowered(title, start.rows, focused);
    const table = { ...focused, flags: [...focused.flags, ...lowered] };
    const trained = await this.#train(key, title, table, { ...start, file: start.rows });
    const adapter = await this.#distilled(round, start, trained);
    const data = this.#folder(round + 1, 'data');
    const rows = join(data, `round-${round + 1}.jsonl`);
    if (round === this.#config.rounds) return { rows, adapter };
    const played = ['--trace', trained.trace, '--rows', start.rows];
    const list = join(data, 'verified.jsonl');
    if (verify !== null) await this.#steps.stage(`${round + 1}/verify`, `references of round ${round}`, ['verify', ...played, '-o', list, ...verify]);
    const words = ['focus', ...played, ...(verify === null ? [] : ['--exclude', list]), '-o', rows, ...focus];
    await this.#steps.stage(`${round + 1}/focus`, `hard prompts for round ${round + 1}`, words);
    return this.#unlessEmpty({ rows, adapter });
  }

  /** Supervised steps on the rare successes. Without any, the next round goes on from the focused one. */
  async #distilled(round: number, start: RoundStart, trained: Trained): Promise<string | null> {
    const { extract, vet, rewrite, finalize, sft } = this.#config;
    const at = (name: string) => join(this.#folder(round, 'sft-data'), name);
    await this.#steps.stage(`${round}/extract`, 'rare successes', ['extract', '--trace', trained.trace, '-o', at('candidates.jsonl'), ...extract]);
    let rows = at('candidates.jsonl');
    if ((await countRows(rows)) > 0) {
      for (const [name, words, output] of [
        ['vet', vet, 'passed.jsonl'],
        ['rewrite', rewrite, 'rewritten.jsonl'],
      ] as const) {
        if (words === null) continue;
        await this.#steps.stage(`${round}/${name}`, name === 'vet' ? 'vetting' : 'rewriting', [name, rows, '-o', at(output), ...words]);
        rows = at(output);
      }
    }
    await this.#steps.stage(`${round}/finalize`, 'demonstrations', ['finalize', rows, '-o', at('sft.jsonl'), ...finalize]);
    const count = await countRows(at('sft.jsonl'));
    if (count === 0) {
      const { counts } = (await readManifest(at('candidates.manifest.json'))) ?? { counts: {} };
      const { candidates = 0, rows: extracted = 0 } = counts as Record<string, number>;
      const why = extracted > 0 ? `The stages after extract left out all of its ${plural(extracted, 'row')}` : lossText(counts);
      const what = candidates === 0 ? 'rare successes' : 'demonstrations';
      this.#context.note(
        `vf-rounds run: round ${round} has no ${what}; the next one continues from its focused training${why === null ? '' : `. ${why}`}`,
      );
      return trained.adapter;
    }
    const adapter = sft.from === 'start' ? start.adapter : trained.adapter;
    const words = supervisedWords({ path: at('sft.jsonl'), count, run: trained.run });
    const made = await this.#train(
      `${round}/sft`,
      'supervised steps',
      { ...sft, flags: [...words, ...sft.flags] },
      { rows: start.rows, file: at('sft.jsonl'), adapter, isSupervised: true },
    );
    return made.adapter ?? adapter;
  }

  async #train(
    key: string,
    title: string,
    table: TrainingTable,
    from: RoundStart & { readonly file: string; readonly isSupervised?: true },
  ): Promise<Trained> {
    const { environment, rowsArgument, output } = this.#config;
    const { flags, arguments: args } = table;
    const [round, folder] = key.split('/') as [string, string];
    const own = JSON.stringify({ ...args, [rowsArgument]: from.rows });
    const words = [environment, ...flags, '-a', own, ...(from.adapter === null ? [] : ['--set', `model.initial_adapter=${from.adapter}`])];
    const inputs = [{ role: 'rows', path: from.file }, ...adapterInput(from.adapter)];
    const { name: named, environment: played, model } = await trainingConfigOf(this.#config, table, this.#context);
    const name = nameEndingIn(givenRunName(named, played.id, model.path) ?? basename(output), `: ${key}`);
    const isSupervised = from.isSupervised === true;
    return this.#steps.train({ key, title, name, words, folder: this.#folder(Number(round), folder), inputs, isSupervised });
  }

  /** Buckets and hard prompts become fewer from round to round, and a step cannot have more rows than there are. */
  async #lowered(title: string, rows: string, focused: TrainingTable): Promise<string[]> {
    const count = await countRows(rows);
    const { examplesPerStep: wanted } = (await trainingConfigOf(this.#config, focused, this.#context)).rollouts;
    if (count >= wanted) return [];
    this.#context.note(`vf-rounds run: ${title} has ${plural(count, 'row')}, so its steps take ${count} instead of ${wanted}`);
    return ['-n', String(count)];
  }

  async #unlessEmpty(start: RoundStart): Promise<RoundStart | null> {
    return (await countRows(start.rows)) === 0 ? null : start;
  }

  #folder(round: number, name: string): string {
    return join(this.#config.output, `round-${round}`, name);
  }
}
