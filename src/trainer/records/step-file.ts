/** Reads facts from a file of rollouts without loading all of it: its ids, and whether its step is complete. */
import { openRegularFile } from '../../files/regular-file.ts';
import { readLines } from '../../files/json-lines.ts';
import { parseWire } from '../../schemas/results.ts';
import { ClosingSchema, StepLineSchema, type WireClosing } from '../../schemas/training-records.ts';

/** `step-000012`, the name of a step's files and folders. */
export function stepName(step: number): string {
  return `step-${String(step).padStart(6, '0')}`;
}

/** Far longer than a closing line. */
const TAIL_BYTES = 1024;

/** Looks for the closing line first, so that most incomplete files are not read at all. Does not check arrays. */
export async function isCompleteFile(path: string, step: number): Promise<boolean> {
  const closing = await readClosing(path);
  if (closing === null || closing.step !== step) return false;
  return (await readIds(path))?.size === closing.rollouts;
}

/** The ids of the rollouts since the last restart; null if a line is damaged. */
export async function readIds(path: string): Promise<ReadonlySet<string> | null> {
  const ids = new Set<string>();
  for await (const { text } of readLines(path)) {
    const parsed = parseWire(StepLineSchema, text);
    if ('problem' in parsed) return null;
    if (parsed.value.rollout_id !== undefined) ids.add(parsed.value.rollout_id);
    else if (text.startsWith('{"restarted"')) ids.clear();
  }
  return ids;
}

/** Reads only the closing line at the end of a file. */
async function readClosing(path: string): Promise<WireClosing | null> {
  const file = await openRegularFile(path);
  try {
    const { size } = await file.stat();
    const { buffer, bytesRead } = await file.read(Buffer.alloc(TAIL_BYTES), 0, TAIL_BYTES, Math.max(0, size - TAIL_BYTES));
    const last = buffer.toString('utf8', 0, bytesRead).trimEnd().split('\n').at(-1)!;
    const parsed = parseWire(ClosingSchema, last);
    return 'value' in parsed ? parsed.value : null;
  } finally {
    await file.close();
  }
}
