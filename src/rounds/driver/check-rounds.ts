/** Finds faults that would stop rounds hours later: options that a stage does not take, missing files, a folder that cannot be written. Creates nothing. */
import { existsSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { folderProblem } from '../../files/make-folder.ts';
import { openRegularFile } from '../../files/regular-file.ts';
import { readExclusions } from '../exclusions.ts';
import { readRows } from '../row-files.ts';
import { inPlace } from './in-place.ts';
import type { RoundCommands, RoundStage } from './round-commands.ts';
import { checkStageModel } from './stage-model.ts';
import { WEIGHTS } from './round-steps.ts';
import type { RoundsConfig } from './rounds-config.ts';
import { systemText } from '../../files/system-text.ts';

/** Files that `run` itself gives to each stage. */
const FROM_TRACE = ['--trace', 'trace.jsonl', '-o', 'rows.jsonl'];
const FROM_ROWS = ['rows.jsonl', '-o', 'rows.jsonl'];
const OWN_WORDS = {
  bucket: [...FROM_TRACE, '--rows', 'rows.jsonl'],
  verify: [...FROM_TRACE, '--rows', 'rows.jsonl'],
  focus: [...FROM_TRACE, '--rows', 'rows.jsonl'],
  extract: FROM_TRACE,
  vet: FROM_ROWS,
  rewrite: FROM_ROWS,
  finalize: FROM_ROWS,
} as const satisfies Record<RoundStage, readonly string[]>;
/** Stages that call a model. */
const ROLES = { verify: 'vetter', vet: 'vetter', rewrite: 'rewriter' } as const;

/** `rows`: the file with the rows of phase 1. Rejects with ConfigError. */
export async function checkRounds(config: RoundsConfig, rows: string, checking: Checking): Promise<void> {
  const { path, output, adapter } = config;
  const problem = folderProblem(output);
  if (problem !== null) throw new ConfigError(`output in ${path} cannot be used: ${problem}. Name a folder that can be written.`);
  for (const stage of Object.keys(OWN_WORDS) as RoundStage[]) await checkStage(stage, config, checking);
  await checkFile(rows, `rows in ${path}`);
  await inPlace(`rows in ${path}`, () => readRows(rows));
  await checkReview(config);
  const { review, path: place } = config;
  if (review !== null) await inPlace(`[review] of ${place}`, () => checking.commands.stageOptions('focus', [...OWN_WORDS.focus, ...review.hard]));
  if (adapter !== null) await checkFile(join(adapter, WEIGHTS), `adapter in ${path}`);
}

interface Checking {
  readonly commands: Pick<RoundCommands, 'stageOptions'>;
  readonly variables: NodeJS.ProcessEnv;
}

async function checkStage(stage: RoundStage, config: RoundsConfig, { commands, variables }: Checking): Promise<void> {
  const words = config[stage];
  if (words === null) return;
  const where = `[${stage}] of ${config.path}`;
  const options = await inPlace(where, () => commands.stageOptions(stage, [...OWN_WORDS[stage], ...words]));
  if (stage !== 'verify' && stage !== 'vet' && stage !== 'rewrite') return;
  const { role, config: file } = options;
  const asked = ROLES[stage];
  if (role === undefined && file === undefined)
    throw new ConfigError(`${where} names no model; set role = "${asked}=MODEL@URL", or set config to a TOML file with a table [roles.${asked}]`);
  const keys = [...(role === undefined ? [] : ['role']), ...(file === undefined ? [] : ['config'])];
  await inPlace(`${keys.join(' and ')} in ${where}`, () => checkStageModel(asked, options, variables));
}

/** The lists that leave rows out. One of them can be the list that the buckets will write. */
async function checkReview({ path, output, review }: RoundsConfig): Promise<void> {
  // Once the review is done, its lists may be gone.
  if (review === null || existsSync(join(output, 'round-1', 'data', 'bucket-0-kept.jsonl'))) return;
  const made = join(output, 'round-1', 'data', 'review.jsonl');
  const where = `exclude in [review] of ${path}`;
  if (review.exclude.length === 0)
    throw new ConfigError(`[review] of ${path} has no exclude; name at least one list, such as ${made}, which the buckets will make`);
  for (const list of review.exclude)
    if (!existsSync(list) && resolve(list) !== resolve(made))
      throw new ConfigError(`${where} cannot be read: ${list} does not exist; only ${made}, which the buckets will make, may be missing`);
  const lists = review.exclude.filter((list) => existsSync(list));
  for (const list of lists) await checkFile(list, where);
  await inPlace(where, async () => void (await readExclusions(lists)));
}

async function checkFile(file: string, where: string): Promise<void> {
  try {
    await using _ = await openRegularFile(file);
    if ((await stat(file)).isDirectory()) throw new ConfigError(`${file} is a folder; name a regular file`);
  } catch (cause) {
    const isMissing = (cause as NodeJS.ErrnoException).code === 'ENOENT';
    throw new ConfigError(`${where} cannot be read: ${isMissing ? `${file} does not exist` : systemText(cause)}`, { cause });
  }
}
