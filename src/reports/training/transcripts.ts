/**
 * Shows the same held-out question before and after training, in the terminal and complete in a file of the run. Samples nothing: the rollouts are those
 * of the evaluations.
 */
import { existsSync, readdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { jsonOrNull } from '../../schemas/json-or-null.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import type { Row } from '../../core/dataset.ts';
import { markedText } from '../../core/message.ts';
import type { Environment } from '../../core/environment.ts';
import { describeError } from '../../core/errors.ts';
import { readLines } from '../../files/json-lines.ts';
import type { WireAskedLine } from '../../schemas/asked-line.ts';
import type { SampleTranscript } from '../../schemas/summary.ts';
import { askedPath } from '../../trainer/records/step-asked.ts';
import type { TrainingPaths } from '../../trainer/training-session.ts';
import { parseTrajectory } from '../../trainer/records/trajectory-record.ts';
import { stepName } from '../../trainer/records/step-file.ts';
import type { Trajectory } from '../../trainer/trajectory.ts';
import { renderTranscript } from '../evaluation/render-transcript.ts';
import { plural } from '../text/number-text.ts';
import { noPaint, type Paint } from '../text/paint.ts';
import { factLines } from '../text/report.ts';

export interface TranscriptsOptions {
  /** Name that the run was given; null without one. */
  readonly name: string | null;
  /** The evaluation environment. */
  readonly environment: Pick<Environment, 'eval'>;
  readonly paths: Pick<TrainingPaths, 'evaluations' | 'transcripts'>;
  readonly columns: number;
  readonly paint: Paint;
  /** Prints one line, unescaped. */
  readonly note: (line: string) => void;
  /** Takes why there is no transcript. */
  readonly warn: (line: string) => void;
}

/** Number of first rows to choose from; the one with the lowest reward is shown. */
const CANDIDATES = 16;
const FILE_COLUMNS = 120;

/** A rollout with the replies of models by role. */
type Shown = Trajectory & Pick<SampleTranscript, 'asked'>;

interface Chosen {
  readonly row: Row;
  readonly step: number;
  readonly before: Shown;
}

export class Transcripts {
  readonly #options: TranscriptsOptions;
  #shown: Promise<Chosen | null> | null = null;

  constructor(options: TranscriptsOptions) {
    this.#options = options;
  }

  /** Called after each evaluation; shows a rollout of the first one. */
  evaluated(): void {
    this.#shown ??= this.#withoutFailure(async () => {
      const chosen = await this.#choose();
      if (chosen !== null) this.#show(titleAt(chosen.step), chosen, chosen.before, true);
      return chosen;
    });
  }

  /** Shows the same question after training and writes both to a file; null without two evaluations to compare. */
  finish(): Promise<string | null> {
    return this.#withoutFailure(async () => {
      const wasShown = this.#shown !== null;
      const chosen = await (this.#shown ?? this.#choose());
      const last = this.#steps().at(-1);
      if (chosen === null || last === undefined || last === chosen.step) return null;
      const after = (await this.#rollouts(last, [chosen.before.rolloutId])).at(0);
      if (after === undefined) return null;
      if (!wasShown) this.#show(titleAt(chosen.step), chosen, chosen.before, true);
      this.#show(titleAt(last), chosen, after, false);
      const { name } = this.#options;
      const texts = [
        ...(name === null ? [] : [factLines([['name', name]])]),
        lines(titleAt(chosen.step), chosen.row, chosen.before, FILE),
        lines(titleAt(last), chosen.row, after, FILE),
      ];
      await writeFile(this.#options.paths.transcripts, texts.map((text) => `${text.join('\n')}\n`).join('\n'));
      return this.#options.paths.transcripts;
    });
  }

  async #choose(): Promise<Chosen | null> {
    const [step] = this.#steps();
    if (step === undefined) return null;
    const rows = new Map([...this.#options.environment.eval.take(CANDIDATES)].map((row) => [`${row.exampleId}/0`, row]));
    const rollouts = await this.#rollouts(step, [...rows.keys()]);
    const [before] = rollouts.toSorted((a, b) => a.reward! - b.reward!);
    return before === undefined ? null : { row: rows.get(before.rolloutId)!, step, before };
  }

  /** Finished rollouts, in the order of `ids`. */
  async #rollouts(step: number, ids: readonly string[]): Promise<Shown[]> {
    const path = join(this.#options.paths.evaluations, `${stepName(step)}.jsonl`);
    const found = new Map<string, Trajectory>();
    for await (const { text } of readLines(path)) {
      const parsed = parseTrajectory(text);
      if (!('value' in parsed) || parsed.value.reward === null || !ids.includes(parsed.value.rolloutId)) continue;
      found.set(parsed.value.rolloutId, parsed.value);
      if (found.size === ids.length) break;
    }
    const asked = await repliesOf(askedPath(path), ids);
    return ids.flatMap((id) => (found.has(id) ? { ...found.get(id)!, asked: asked.get(id) ?? [] } : []));
  }

  /** Steps of the recorded evaluations, ascending. */
  #steps(): number[] {
    const steps = readdirSync(this.#options.paths.evaluations).flatMap((name) => /^step-(\d+)\.jsonl$/.exec(name)?.[1] ?? []);
    return steps.map(Number).toSorted((a, b) => a - b);
  }

  #show(title: string, { row }: Chosen, rollout: Shown, isWhole: boolean): void {
    const { columns, paint, note } = this.#options;
    for (const line of ['', ...lines(title, row, rollout, { columns, paint, full: false, isWhole }), '']) note(line);
  }

  /** Transcripts are a convenience: a failure to show one must not fail the run. */
  async #withoutFailure<T>(work: () => Promise<T | null>): Promise<T | null> {
    try {
      return await work();
    } catch (error) {
      this.#options.warn(`no transcript: ${describeError(error)}`);
      return null;
    }
  }
}

/** Replies of the rollouts `ids`; if a rollout was played again, its last line counts. */
async function repliesOf(path: string, ids: readonly string[]): Promise<Map<string, NonNullable<SampleTranscript['asked']>>> {
  const replies = new Map<string, NonNullable<SampleTranscript['asked']>>();
  if (!existsSync(path)) return replies;
  for await (const { text } of readLines(path)) {
    const { rollout_id: id, asked } = fieldsOf(jsonOrNull(text)) as Partial<WireAskedLine>;
    if (id !== undefined && asked !== undefined && ids.includes(id))
      replies.set(
        id,
        asked.map(({ role, text: reply }) => ({ role, text: reply })),
      );
  }
  return replies;
}

interface Look {
  readonly columns: number;
  readonly paint: Paint;
  readonly full: boolean;
  /** Includes prompt and reference, which stay the same. */
  readonly isWhole: boolean;
}

const FILE: Look = { columns: FILE_COLUMNS, paint: noPaint, full: true, isWhole: true };

function lines(title: string, row: Row, rollout: Shown, { isWhole, ...look }: Look): string[] {
  const sample: SampleTranscript = {
    exampleId: row.exampleId,
    rolloutIndex: rollout.index,
    prompt: isWhole ? row.prompt.map(({ role, content }) => ({ role, content: markedText(content) })) : [],
    segments: rollout.segments,
    ...branchesOf(rollout),
    asked: rollout.asked ?? [],
    answer: row.answer ?? row.info ?? null,
    reward: rollout.reward,
    stopCondition: rollout.stop,
  };
  return renderTranscript(sample, { ...look, title });
}

/** None if it is not known which of the segments are whose. */
function branchesOf({ branches, segments }: Trajectory): Pick<SampleTranscript, 'branches'> {
  const shown = branches?.map(({ parent, fork = null, role, segments: own = NaN }) => ({ parent, fork, segments: own, ...(role && { role }) }));
  return shown?.reduce((sum, branch) => sum + branch.segments, 0) === segments.length ? { branches: shown } : {};
}

function titleAt(step: number): string {
  return step === 0 ? 'Before training' : `After ${plural(step, 'step')}`;
}
