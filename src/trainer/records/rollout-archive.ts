/**
 * Rollouts of steps that no checkpoint needs any more, for people to read: `step-000012.jsonl` becomes `step-000012.jsonl.gz`. Beyond a bound the oldest lose their
 * token ids, positions and log-probs, which are most of the bytes (`step-000012.jsonl.thin.gz`: texts, rewards and metrics stay); if that is not enough, steps are
 * left out, so that the gaps between the kept ones grow with their age. A file is replaced only once its successor is on disk, so a kill loses nothing.
 */
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip, type Gunzip, type Gzip } from 'node:zlib';
import { namesIn } from '../../files/if-there.ts';
import { streamRegularFile } from '../../files/regular-file.ts';
import { ResultsError } from '../../core/errors.ts';
import { readLines, replaceFile } from '../../files/json-lines.ts';
import { isDamage, unpackError } from '../../files/packed-file.ts';
import { thinLine } from './trajectory-record.ts';
import { systemText } from '../../files/system-text.ts';

/** Files of any kind in a folder of rollouts: of a step or phase, or the calls to models, later rewards or advantages of one. Another spelling of the step's number is not the trainer's. */
const FILE = /^(step-(\d{6}|[1-9]\d{6,})(?:\.[A-Za-z0-9-]+)*(?:_rewards|_advantages)?\.jsonl)(\.thin)?(\.gz)?$/;
const WITHOUT_TOKENS = /(?:\.asked|_rewards|_advantages)\.jsonl/;
const THIN = '.thin.gz';
const WHOLE = '.gz';
/** Log-probs and ids hardly compress: the thorough level takes twice as long for 5 % less. */
const FAST = 1;

/** The state of a kept file: `live`, as it was written; `whole`, compressed; `thin`, without tokens. */
export type Kept = 'live' | 'whole' | 'thin';

export interface RolloutFile {
  readonly name: string;
  /** The name that it was written under. */
  readonly written: string;
  readonly step: number;
  readonly kept: Kept;
  readonly bytes: number;
}

export interface Thinning {
  /** Files that lost their tokens, and steps that were left out. */
  readonly thinned: number;
  readonly removed: number;
}

/** In the order of their steps. A missing folder has none. */
export async function rolloutFiles(directory: string): Promise<RolloutFile[]> {
  const names = await namesIn(directory);
  const parts = names.map((name) => FILE.exec(name)).filter((match) => match !== null);
  const files = await Promise.all(
    parts.map(async ([name, written, step, thin, packed]): Promise<RolloutFile | null> => {
      if (thin !== undefined && packed === undefined) return null;
      const size = await stat(join(directory, name)).then(
        (found) => found.size,
        () => null,
      );
      if (size === null) return null;
      const kept = thin !== undefined ? 'thin' : packed !== undefined ? 'whole' : 'live';
      return { name, written: written!, step: Number(step), kept, bytes: size };
    }),
  );
  return files.filter((file) => file !== null).toSorted((a, b) => a.step - b.step || (a.name < b.name ? -1 : 1));
}

/** Compresses the files of steps before `step`, then thins until all files of the folder fit into `maxBytes`. Throws ResultsError if it cannot. Needs the run's lock. */
export async function archiveRollouts(
  directory: string,
  { before, maxBytes }: { readonly before: number; readonly maxBytes: number },
): Promise<Thinning> {
  await removePartial(directory);
  const retired = (await rolloutFiles(directory)).filter(({ step, kept }) => step < before && kept === 'live');
  for (const { name } of retired) await compress(directory, name);
  return thinOldest(directory, await rolloutFiles(directory), maxBytes);
}

/** Unpacks the complete files of steps from `step` on. A run repeats these steps if their checkpoints are gone. Needs the run's lock. */
export async function restoreRollouts(directory: string, step: number): Promise<void> {
  const files = (await rolloutFiles(directory)).filter((file) => file.step >= step);
  const live = new Set(files.filter(({ kept }) => kept === 'live').map(({ written }) => written));
  for (const { name, written, kept } of files) {
    if (kept === 'whole' && !live.has(written)) {
      await replaceFile(join(directory, written), (write) => transformed(join(directory, name), createGunzip(), write));
    }
    // A thin file cannot be trained on; its step is sampled again.
    if (kept !== 'live') await remove(directory, name);
  }
}

/** Deletes the archived rollouts of steps before `step`. */
export async function discardArchived(directory: string, step: number): Promise<void> {
  for (const file of await rolloutFiles(directory)) if (file.step < step && file.kept !== 'live') await remove(directory, file.name);
}

async function transformed(path: string, transform: Gunzip | Gzip, write: (bytes: Buffer) => Promise<void>): Promise<void> {
  await pipeline(await streamRegularFile(path, { pieceBytes: 2 ** 18 }), transform, each(write)).catch((cause: unknown) => {
    throw isDamage(cause)
      ? unpackError(path, cause, ', or delete the files of its step in that folder: a step that the run repeats is then sampled again')
      : cause;
  });
}

async function compress(directory: string, name: string): Promise<void> {
  const path = join(directory, name);
  await replaceFile(`${path}${WHOLE}`, (write) => transformed(path, createGzip({ level: FAST }), write));
  await remove(directory, `${name}${THIN}`);
  await remove(directory, name);
}

async function thinOldest(directory: string, files: readonly RolloutFile[], maxBytes: number): Promise<Thinning> {
  let total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  let thinned = 0;
  for (const { name, written, bytes } of files.filter((file) => file.kept === 'whole' && !WITHOUT_TOKENS.test(file.name))) {
    if (total <= maxBytes) return { thinned, removed: 0 };
    total += (await thinFile(directory, name, written)) - bytes;
    thinned += 1;
  }
  const live = new Set(files.filter(({ kept }) => kept === 'live').map(({ step }) => step));
  const steps = [...new Set(files.map(({ step }) => step))].filter((step) => !live.has(step));
  const newest = files.at(-1)?.step ?? 0;
  let removed = 0;
  while (total > maxBytes && steps.length > 0) {
    const at = leastMissed(steps, newest);
    const [step] = steps.splice(at, 1);
    // Sizes as they are now: thinning has changed them.
    for (const { name, bytes } of (await rolloutFiles(directory)).filter((file) => file.step === step)) {
      await remove(directory, name);
      total -= bytes;
    }
    removed += 1;
  }
  return { thinned, removed };
}

/** The index of the step whose absence leaves the smallest gap for its age; the first and the last are kept longest. `steps` ascend. */
export function leastMissed(steps: readonly number[], newest: number): number {
  let [best, least] = [steps.length - 1, Infinity];
  for (let i = 1; i < steps.length - 1; i++) {
    const gap = (steps[i + 1]! - steps[i - 1]!) / (newest - steps[i]! + 1);
    if (gap < least) [best, least] = [i, gap];
  }
  return best;
}

/** Resolves with the size of the thin file. */
async function thinFile(directory: string, name: string, written: string): Promise<number> {
  const path = join(directory, `${written}${THIN}`);
  let bytes = 0;
  const count = (write: (chunk: Buffer) => Promise<void>) => (chunk: Buffer) => {
    bytes += chunk.length;
    return write(chunk);
  };
  await replaceFile(path, (write) => pipeline(Readable.from(thinLines(join(directory, name))), createGzip(), each(count(write))));
  await remove(directory, name);
  return bytes;
}

async function* thinLines(path: string): AsyncGenerator<string> {
  for await (const { text } of readLines(path, { isPacked: true })) yield `${thinLine(text)}\n`;
}

function each(write: (bytes: Buffer) => Promise<void>): (chunks: AsyncIterable<Buffer>) => Promise<void> {
  return async (chunks) => {
    for await (const chunk of chunks) await write(chunk);
  };
}

async function remove(directory: string, name: string): Promise<void> {
  const path = join(directory, name);
  await rm(path, { force: true }).catch((cause: Error) => {
    throw new ResultsError(`Cannot delete the old rollouts ${path}: ${systemText(cause)}`, { cause });
  });
}

/** Removes partial files that killed processes left. */
async function removePartial(directory: string): Promise<void> {
  const names = await namesIn(directory);
  for (const partial of names.filter((name) => /^step-.*\.gz\.\d+\.tmp$|^step-.*\.jsonl\.\d+\.tmp$/.test(name))) await remove(directory, partial);
}
