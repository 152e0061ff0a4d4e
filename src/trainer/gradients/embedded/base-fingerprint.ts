/** SHA-256 of a base's configuration and of every weights file's name, size and both ends (the first end holds names and shapes). */
import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { readJson } from '../../../core/read-json.ts';
import { openRegularFile, readRegularFile } from '../../../files/regular-file.ts';

/** Reading all of a large model would take longer than loading it. */
const EDGE_BYTES = 2 ** 16;

/** @param directory a Hugging Face directory. Rejects with the system's error. */
export async function baseFingerprint(directory: string): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(readJson(await readRegularFile(join(directory, 'config.json')))));
  const names = (await readdir(directory)).filter((name) => name.endsWith('.safetensors'));
  for (const name of names.toSorted()) {
    await using file = await openRegularFile(join(directory, name));
    const { size } = await file.stat();
    hash.update(`${name}:${size}`);
    const edge = Buffer.alloc(Math.min(EDGE_BYTES, size));
    for (const position of [0, size - edge.length]) {
      await file.read(edge, 0, edge.length, position);
      hash.update(edge);
    }
  }
  return hash.digest('hex');
}
