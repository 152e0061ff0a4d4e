/** Finds the records of a run in its files, by rollout, so that a few can be read at a time. */
import { type FileHandle } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { openRegularFile } from '../files/regular-file.ts';
import { askedFromLine } from '../models/asked-records.ts';
import type { AskedRecord } from '../core/model.ts';
import type { Line } from '../files/json-lines.ts';
import { AskedLineSchema, type WireAskedLine } from '../schemas/asked-line.ts';
import { PlayedLineSchema, type WirePlayedLine } from '../schemas/played-line.ts';
import { ResultSchema, type WireResult } from '../schemas/results.ts';
import { type RecordedRollout, recordedRollout } from './recorded-rollout.ts';
import { runFiles } from './run-files.ts';
import { readRecords } from './run-records.ts';

export interface IndexedRollout {
  readonly rollout: RecordedRollout;
  readonly line: Line;
  /** True if it has no score because its rewards failed; its episode was played to its end. */
  readonly isUnscored: boolean;
}

export interface RunIndex {
  /** By rollout id, in the order of the file. */
  readonly rollouts: ReadonlyMap<string, IndexedRollout>;
  readonly asked: ReadonlyMap<string, Line>;
  readonly played: ReadonlyMap<string, Line>;
  /** Lines that were left out because they repeat others, a sentence for each file. */
  readonly repeated: readonly string[];
}

/** `check` sees every result once. `shownAs`: the run that errors name. */
export async function indexRun(directory: string, check: (result: WireResult) => void, shownAs: string = directory): Promise<RunIndex> {
  const [files, shown] = [runFiles(directory), runFiles(shownAs)];
  const rollouts = new Map<string, IndexedRollout>();
  const { notes: repeated } = await readRecords(
    files.results,
    ResultSchema,
    (result, line) => {
      check(result);
      rollouts.set(result.rollout_id, {
        rollout: recordedRollout(result),
        line: { ...line, text: '' },
        isUnscored: result.error?.phase === 'scoring',
      });
    },
    shown.results,
  );
  const asked = new Map<string, Line>();
  await readRecords(files.asked, AskedLineSchema, ({ rollout_id: id }, line) => asked.set(id, { ...line, text: '' }), shown.asked);
  const played = new Map<string, Line>();
  await readRecords(files.played, PlayedLineSchema, ({ rollout_id: id }, line) => played.set(id, { ...line, text: '' }), shown.played);
  return { rollouts, asked, played, repeated };
}

export interface RunRecord {
  readonly result: WireResult;
  readonly asked: readonly AskedRecord[];
  readonly played: WirePlayedLine | null;
  /** The lines as they are on file; null if there is none. */
  readonly lines: { readonly result: string; readonly asked: string | null; readonly played: string | null };
}

/** Reads single records of an indexed run. */
export class RunReader implements AsyncDisposable {
  readonly #index: RunIndex;
  readonly #files: Readonly<Record<'results' | 'asked' | 'played', FileHandle | null>>;

  private constructor(index: RunIndex, files: Readonly<Record<'results' | 'asked' | 'played', FileHandle | null>>) {
    this.#index = index;
    this.#files = files;
  }

  static async open(directory: string, index: RunIndex): Promise<RunReader> {
    const { results, asked, played } = runFiles(directory);
    const opened = async (path: string) => (existsSync(path) ? openRegularFile(path) : null);
    return new RunReader(index, { results: await opened(results), asked: await opened(asked), played: await opened(played) });
  }

  async read(id: string): Promise<RunRecord> {
    const result = (await lineText(this.#files.results, this.#index.rollouts.get(id)!.line))!;
    const asked = await lineText(this.#files.asked, this.#index.asked.get(id));
    const played = await lineText(this.#files.played, this.#index.played.get(id));
    return {
      result: JSON.parse(result) as WireResult,
      asked: asked === null ? [] : askedFromLine(JSON.parse(asked) as WireAskedLine),
      played: played === null ? null : (JSON.parse(played) as WirePlayedLine),
      lines: { result, asked, played },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const file of Object.values(this.#files)) await file?.close();
  }
}

async function lineText(file: FileHandle | null, line: Line | undefined): Promise<string | null> {
  if (file === null || line === undefined) return null;
  const bytes = Buffer.alloc(line.end - line.start - (line.isWhole ? 1 : 0));
  await file.read(bytes, 0, bytes.length, line.start);
  return bytes.toString('utf8');
}
