import { join } from 'node:path';
import { DOCUMENT_BYTES, readRegularFileSync } from '../../files/regular-file.ts';
import { parseDenseManifest } from './dense-manifest.ts';

/** A line about an index of an older version, whose vectors have no checksums; none for any other index or folder. */
export function denseNotices(path: string): readonly string[] {
  let json: string;
  try {
    json = readRegularFileSync(join(path, 'manifest.json'), DOCUMENT_BYTES);
  } catch {
    // Opening it says what is wrong.
    return [];
  }
  const manifest = parseDenseManifest(json);
  if (typeof manifest === 'string' || manifest.files !== undefined) return [];
  return [
    `${path} is an index of an older version: its vectors have no checksums, so damage goes unnoticed. vf-index --dense --force builds it anew.`,
  ];
}
