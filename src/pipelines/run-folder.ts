/** Folders of pipeline runs: `<base>/pipelines/<name of the pipeline>/<8 hex digits>`, with `calls.jsonl` and, at the end, `result.json`. */
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import type { JournalHeader } from './call-journal.ts';
import { readLines } from '../files/json-lines.ts';
import { jsonOrNull } from '../schemas/json-or-null.ts';
import { fieldsOf } from '../schemas/is-object.ts';

export const CALLS_FILE = 'calls.jsonl';
export const RESULT_FILE = 'result.json';

export interface RunFolderOptions {
  /** @default ./outputs */
  readonly output: string | undefined;
  /** A folder, or true for the newest incomplete run of the same pipeline and parameters. */
  readonly resume: string | boolean | undefined;
  readonly pipeline: string;
  readonly header: JournalHeader;
}

export async function runFolder({
  output,
  resume,
  pipeline,
  header,
}: RunFolderOptions): Promise<{ readonly folder: string; readonly resume: boolean }> {
  if (typeof resume === 'string') return { folder: resolve(resume), resume: true };
  const base = join(resolve(output ?? 'outputs'), 'pipelines', basename(pipeline).replace(/\.ya?ml$/i, ''));
  if (resume === true) {
    const found = await newestIncomplete(base, header);
    if (found !== null) return { folder: found, resume: true };
  }
  return { folder: join(base, randomBytes(4).toString('hex')), resume: false };
}

async function newestIncomplete(base: string, header: JournalHeader): Promise<string | null> {
  const runs = (existsSync(base) ? readdirSync(base) : [])
    .map((name) => join(base, name))
    .filter((folder) => existsSync(join(folder, CALLS_FILE)) && !existsSync(join(folder, RESULT_FILE)))
    .map((folder) => ({ folder, changedAt: statSync(join(folder, CALLS_FILE)).mtimeMs }))
    .toSorted((a, b) => b.changedAt - a.changedAt);
  const wanted = JSON.stringify(header);
  const found = await Promise.all(runs.map(async ({ folder }) => ({ folder, header: await headerIn(join(folder, CALLS_FILE)) })));
  const same = found.find((run) => JSON.stringify(run.header) === wanted);
  // With other files it is refused, and the message names them.
  const changed = found.find((run) => JSON.stringify({ ...run.header, files: header['files'] }) === wanted);
  return (same ?? changed)?.folder ?? null;
}

/** Empty if there is none. */
async function headerIn(path: string): Promise<JournalHeader> {
  for await (const { text } of readLines(path)) {
    return fieldsOf(jsonOrNull(text));
  }
  return {};
}
