/** `checkpoint.json`: the loop's own state, and size and SHA-256 of every file of the checkpoint. */
import { createHash } from 'node:crypto';
import { open, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { syncDirectory } from '../../files/json-lines.ts';
import { readRegularFile } from '../../files/regular-file.ts';
import { sumOf, unreadText, writtenFault } from '../../files/written-files.ts';
import { parseWire } from '../../schemas/results.ts';
import { CheckpointSchema, type WireCheckpoint } from '../../schemas/training-records.ts';
import type { CheckpointContent } from './checkpoints.ts';

const MANIFEST = 'checkpoint.json';

/** Writes the manifest of a folder and syncs all of it to disk. Streams each file once. */
export async function writeManifest(directory: string, { step, version, model, counters }: CheckpointContent): Promise<WireCheckpoint> {
  const paths = await pathsIn(directory);
  const files: WireCheckpoint['files'] = [];
  for (const path of paths.files) {
    const full = join(directory, path);
    files.push({ path, ...(await sumOf(full)) });
    await syncFile(full);
  }
  const content = { schema_version: 2 as const, step, version, model, counters: { ...counters }, files };
  const manifest = { ...content, sha256: sha256(JSON.stringify(content)) };
  const path = join(directory, MANIFEST);
  await writeFile(path, `${JSON.stringify(manifest, null, 2)}\n`);
  await syncFile(path);
  // Deepest first: a folder is durable only after its contents are.
  for (const folder of paths.folders.toReversed()) await syncDirectory(join(directory, folder));
  await syncDirectory(directory);
  return manifest;
}

/** Returns the manifest if every file matches it, otherwise a description of the fault. */
export async function readManifest(directory: string): Promise<{ readonly value: WireCheckpoint } | { readonly problem: string }> {
  let text: string;
  try {
    text = await readRegularFile(join(directory, MANIFEST));
  } catch (error) {
    return { problem: unreadText(MANIFEST, error) };
  }
  const parsed = parseWire(CheckpointSchema, text);
  if ('problem' in parsed) return { problem: `${MANIFEST} is invalid: ${parsed.problem}` };
  const { sha256: sum, ...content } = parsed.value;
  if (sha256(JSON.stringify(content)) !== sum) return { problem: `${MANIFEST} changed after it was written` };
  const problem = await writtenFault(directory, content.files);
  return problem === null ? parsed : { problem };
}

/** All files and folders under a folder, relative to it, with forward slashes, parents before their contents. */
async function pathsIn(directory: string, prefix = ''): Promise<{ files: string[]; folders: string[] }> {
  const found = { files: [] as string[], folders: [] as string[] };
  const entries = await readdir(join(directory, prefix), { withFileTypes: true });
  for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = `${prefix}${entry.name}`;
    if (!entry.isDirectory()) {
      found.files.push(path);
      continue;
    }
    const inner = await pathsIn(directory, `${path}/`);
    found.folders.push(path, ...inner.folders);
    found.files.push(...inner.files);
  }
  return found;
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

async function syncFile(path: string): Promise<void> {
  const file = await open(path, 'r+');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
