/** Rows whose line holds a text. Lines are read in the order of the file, some megabytes at a time; the escapes of JSON are read as what they stand for. */
import { openRegularFile } from '../files/regular-file.ts';
import type { RolloutIndex } from './rollout-index.ts';

const PIECE_BYTES = 8 * 2 ** 20;

/** Case counts for nothing. @param text what the page's reader typed, not empty */
export async function findText(index: RolloutIndex, text: string, signal?: AbortSignal): Promise<ReadonlySet<number>> {
  const wanted = JSON.stringify(text).slice(1, -1).toLowerCase();
  const found = new Set<number>();
  const rows = index.query();
  if (rows.length === 0) return found;
  await using file = await openRegularFile(index.path);
  for (let first = 0; first < rows.length;) {
    signal?.throwIfAborted();
    const place = index.place(rows[first]!);
    let last = first;
    while (last + 1 < rows.length && index.place(rows[last + 1]!).end - place.start <= PIECE_BYTES) last += 1;
    const bytes = Buffer.allocUnsafe(index.place(rows[last]!).end - place.start);
    await file.read(bytes, 0, bytes.length, place.start);
    for (let i = first; i <= last; i++) {
      const { start, end } = index.place(rows[i]!);
      if (
        bytes
          .toString('utf8', start - place.start, end - place.start)
          .toLowerCase()
          .includes(wanted)
      )
        found.add(rows[i]!);
    }
    first = last + 1;
  }
  return found;
}
