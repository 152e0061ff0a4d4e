/** Finds what would stop rounds hours later: options that a stage does not take, files that are missing, a folder that cannot be written. Makes nothing. */
import { existsSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Command } from 'commander';
import { ConfigError, thrownText } from '../../../core/errors.ts';
import { folderProblem } from '../../../files/make-folder.ts';
import { openRegularFile } from '../../../files/regular-file.ts';
import { parseProgram } from '../../parse-program.ts';
import { addCurateCommands } from '../curate-commands.ts';
import { addDistillCommands } from '../distill-commands.ts';
import { WEIGHTS } from './round-steps.ts';
import type { RoundsConfig } from './rounds-config.ts';

/** Files that `run` itself gives to each stage. */
const FROM_TRACE = ['--trace', 'trace.jsonl', '-o', 'rows.jsonl'];
const FROM_ROWS = ['rows.jsonl', '-o', 'rows.jsonl'];
const OWN_WORDS = {
  bucket: [...FROM_TRACE, '--rows', 'rows.jsonl'],
  focus: [...FROM_TRACE, '--rows', 'rows.jsonl'],
  extract: FROM_TRACE,
  vet: FROM_ROWS,
  rewrite: FROM_ROWS,
  finalize: FROM_ROWS,
} as const;

/** `rows`: the file with the rows of phase 1. Rejects with ConfigError. */
export async function checkRounds(config: RoundsConfig, rows: string): Promise<void> {
  const { path, output, adapter, review } = config;
  const problem = folderProblem(output);
  if (problem !== null) throw new ConfigError(`output in ${path} cannot be used: ${problem}. Name a folder that can be written.`);
  for (const stage of Object.keys(OWN_WORDS) as (keyof typeof OWN_WORDS)[]) checkStage(stage, config);
  await checkFile(rows, `rows in ${path}`);
  // A list can be the one that the buckets will make.
  for (const list of review?.exclude ?? []) if (existsSync(list)) await checkFile(list, `exclude in [review] of ${path}`);
  if (adapter !== null) await checkFile(join(adapter, WEIGHTS), `adapter in ${path}`);
}

function checkStage(stage: keyof typeof OWN_WORDS, config: RoundsConfig): void {
  const words = config[stage];
  if (words === null) return;
  const program = new Command('vf-rounds');
  for (const add of [addCurateCommands, addDistillCommands]) add(program, () => {});
  try {
    parseProgram(program, [stage, ...OWN_WORDS[stage], ...words]);
  } catch (cause) {
    if (!(cause instanceof ConfigError)) throw cause;
    throw new ConfigError(`[${stage}] of ${config.path}: ${cause.message}`, { cause });
  }
}

async function checkFile(file: string, where: string): Promise<void> {
  try {
    await using _ = await openRegularFile(file);
    if ((await stat(file)).isDirectory()) throw new ConfigError(`${file} is a folder; name a regular file`);
  } catch (cause) {
    const isMissing = (cause as NodeJS.ErrnoException).code === 'ENOENT';
    throw new ConfigError(`${where} cannot be read: ${isMissing ? `${file} does not exist` : thrownText(cause)}`, { cause });
  }
}
