/** The common part of all stages: reads and hashes inputs, writes outputs and manifest, reports the result. */
import { existsSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { readBundledManifest, trainingSets } from '../../data/bundled.ts';
import { findRows } from '../../data/find-rows.ts';
import { type HashedInput, assertWritable, hashInputs, sha256Of, type StageInput, type StageTarget, writeStage } from '../stage-files.ts';
import type { StageName, StageResult } from '../stage.ts';
import type { StageContext } from './round-commands.ts';
import { countText, plural } from '../../reports/text/number-text.ts';

interface StageWork {
  readonly target: StageTarget;
  readonly inputs: readonly StageInput[];
  /** Pure, except that it reads its inputs and calls models. */
  readonly work: (inputs: readonly HashedInput[]) => Promise<StageResult>;
}

/** What to do if an input is missing, by its role. */
const MISSING = {
  trace: 'name the trace.jsonl of a run of visual-rag, or of another environment that sets traces',
  rows: 'name the rows that vf-train was given',
  added: 'name rows, such as those that "vf-rounds review" wrote',
  exclusions: 'name a list that "vf-rounds bucket" or "vf-rounds verify" wrote',
  rewritten: 'name rows of "vf-rounds extract" with other thoughts',
  system: 'name a file with the text of the system prompt',
};
const DISTILLING: ReadonlySet<StageName> = new Set(['vet', 'rewrite', 'finalize']);

/** Runs a stage and notes one line. Nothing is written unless all of it worked. */
export async function runStage({ target, inputs, work }: StageWork, context: Pick<StageContext, 'note' | 'saved'>): Promise<void> {
  await assertWritable(target, inputs);
  const hashed = await hashInputs(inputs, {
    ...MISSING,
    ...(DISTILLING.has(target.stage) ? { rows: 'name rows that "vf-rounds extract" wrote' } : {}),
  });
  const result = await work(hashed);
  await assertSame(hashed, target.stage);
  const { outputs, counts } = await writeStage(target, hashed, result);
  context.saved = target.folder;
  const written = outputs.map(({ path, rows }) => `${countText(rows)} to ${path}`).join(', ');
  const lost = [
    ['rollouts_incomplete', 'incomplete rollout'],
    ['torn_lines', 'incomplete line'],
  ].flatMap(([key, what]) => ((counts[key!] ?? 0) > 0 ? [`${plural(counts[key!]!, what!)} left out`] : []));
  const place = target.folder === '.' ? '' : ` in ${target.folder}`;
  // An empty file needs a reason.
  const counted = Object.entries(counts).map(([name, count]) => `${name} ${count}`);
  const isEmpty = outputs.every(({ rows }) => rows === 0);
  const why = result.why !== undefined ? `. ${result.why}` : isEmpty ? `; ${counted.join(', ')}` : '';
  context.note(`vf-rounds ${target.stage}: ${[`${written}${place}`, ...lost].join('; ')}${why}`);
}

/** The manifest must not name contents that the stage did not read: the trace of a run grows until the run has ended. */
async function assertSame(inputs: readonly HashedInput[], stage: StageName): Promise<void> {
  for (const { path, sha256 } of inputs)
    if ((await sha256Of(path)) !== sha256)
      throw new ConfigError(`${path} changed while ${stage} read it; wait until its run has ended, then run ${stage} again`);
}

/** The target of a stage with one main file; `further` names the others by it: `sft.jsonl` has `sft.golden.jsonl`. */
export function fileTarget(
  stage: StageName,
  output: string,
  further: readonly string[] = [],
): StageTarget & { readonly file: string; readonly others: readonly string[] } {
  if (!output.endsWith('.jsonl')) throw new ConfigError(`-o must name a .jsonl file, got ${JSON.stringify(output)}`);
  const file = basename(output);
  const name = file.slice(0, -'.jsonl'.length);
  const others = further.map((part) => `${name}.${part}.jsonl`);
  return { stage, folder: dirname(output), name, file, others, outputs: [file, ...others] };
}

/**
 * The file of rows: as it is named, or the training rows of a data set that comes with the package, which `vf-rounds run` takes, too. Rejects with ConfigError for
 * a name that is neither; a missing path is detected when it is read.
 */
export async function rowsFile(named: string): Promise<string> {
  if (existsSync(named)) return named;
  const manifest = await readBundledManifest();
  if (Object.hasOwn(manifest.datasets, named)) return (await findRows(named, 'train', {})).path;
  if (/[./\\]/.test(named)) return named;
  throw new ConfigError(
    `The file ${named} does not exist, and no data set of the package has this name. Choose ${trainingSets(manifest).join(', ')} (bundled) or the path of a .jsonl or .parquet file`,
  );
}

export function inputsOf(role: string, paths: readonly string[] | undefined): StageInput[] {
  return (paths ?? []).map((path) => ({ role, path }));
}

export function pathsOf(inputs: readonly HashedInput[], role: string): string[] {
  return inputs.filter((input) => input.role === role).map(({ path }) => path);
}

/** Notes every tenth of the answers, from 20 rows on. */
export function progressNote(stage: string, { note }: Pick<StageContext, 'note'>): (done: number, total: number) => void {
  let shown = 0;
  return (done, total) => {
    const tenth = Math.floor((done * 10) / total);
    if (total < 20 || tenth === shown) return;
    shown = tenth;
    note(`vf-rounds ${stage}: ${countText(done)} of ${plural(total, 'row')} answered`);
  };
}
