import { join } from 'node:path';
import { readRegularFileSync } from '../../files/regular-file.ts';

/** `max_position_embeddings` of a model directory, in tokens; null for a hub id, or if the file does not have it. */
export function contextLength(modelPath: string): number | null {
  try {
    const { max_position_embeddings: positions } = JSON.parse(readRegularFileSync(join(modelPath, 'config.json'))) as Record<string, unknown>;
    return typeof positions === 'number' ? positions : null;
  } catch {
    // A hub id, or a folder that the server will refuse itself.
    return null;
  }
}
