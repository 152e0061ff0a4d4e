import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { thrownText } from '../core/errors.ts';
import { namesIn } from '../files/if-there.ts';
import type { Row } from '../core/dataset.ts';
import type { WireMetadata } from '../schemas/results.ts';
import type { EvaluationOptions } from './evaluation-options.ts';
import { redactionOf } from './redaction.ts';
import { configDifference, runConfig } from './run-config.ts';
import { runFiles } from './run-files.ts';
import { readMetadata } from './run-records.ts';

/** File systems allow 255 bytes in a name; some encrypted ones 143. */
const LONGEST_NAME = 140;

/** A path for a new run in v0's layout: `<base>/evals/<env_id>--<model, "/" as "--">/<8 hex digits>`. Creates nothing. */
export function newRunDirectory(base: string, envId: string, model: string): string {
  return join(runsDirectory(base, envId, model), randomBytes(4).toString('hex'));
}

export interface FoundRun {
  /** The run to resume; null if there is none. */
  readonly path: string | null;
  /** The way in which the newest incomplete run of the same environment and model differs, if there is no run to resume; null without such a run. */
  readonly difference: string | null;
  /** Why a run in that folder cannot be read, if there is no run to resume; null if all can. */
  readonly damaged: string | null;
}

/** The newest run under `base` with the same configuration, preferably one that lacks rollouts or has failed ones. */
export async function findRun<R extends Row>(base: string, options: Omit<EvaluationOptions<R>, 'outputDir'>): Promise<FoundRun> {
  const { run, secrets } = options;
  const wanted = runConfig(options, redactionOf(secrets));
  const directory = runsDirectory(base, run.envId, run.model);
  const runs: { readonly path: string; readonly metadata: WireMetadata; readonly difference: string | null }[] = [];
  let damaged: string | null = null;
  for (const name of await namesIn(directory)) {
    // A folder that vf-score has not finished does not count as a run.
    if (name.endsWith('.unfinished')) continue;
    const path = join(directory, name);
    if (!existsSync(runFiles(path).metadata)) continue;
    const metadata = await readMetadata(path).catch((error: unknown) => {
      damaged ??= thrownText(error);
      return null;
    });
    if (metadata === null) continue;
    // A name is not a setting, but one that the caller gives chooses among runs that are otherwise alike.
    const isOther = run.name !== undefined && metadata.name !== run.name;
    const difference =
      configDifference(metadata.config, wanted) ?? (isOther ? `the name was ${metadata.name ?? 'none'} and is ${run.name} now` : null);
    runs.push({ path, metadata, difference });
  }
  const newestFirst = runs.toSorted((a, b) => (a.metadata.started_at < b.metadata.started_at ? 1 : -1));
  const isIncomplete = ({ metadata }: (typeof runs)[number]) => !metadata.complete || metadata.num_errored > 0;
  const matching = newestFirst.filter(({ difference }) => difference === null);
  const found = matching.find(isIncomplete) ?? matching[0];
  if (found !== undefined) return { path: found.path, difference: null, damaged: null };
  return { path: null, difference: newestFirst.find(isIncomplete)?.difference ?? null, damaged };
}

function runsDirectory(base: string, envId: string, model: string): string {
  const name = `${safeName(envId)}--${safeName(model)}`;
  if (Buffer.byteLength(name) <= LONGEST_NAME) return join(base, 'evals', name);
  const digest = createHash('sha256').update(name).digest('hex').slice(0, 8);
  return join(
    base,
    'evals',
    `${Buffer.from(name)
      .subarray(0, LONGEST_NAME - 12)
      .toString('utf8')
      .replace(/\ufffd$/, '')}--${digest}`,
  );
}

/** A single path component: separators become `--`, control characters `_`, and a leading dot cannot leave the folder. */
function safeName(name: string): string {
  return (
    name
      .replace(/[/\\]/g, '--')
      .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '_')
      .replace(/^\.+/, '_') || '_'
  );
}
