/** Images that the policy was shown, by the SHA-256 of their bytes. */
import { join } from 'node:path';
import { openInside } from './files-inside.ts';
import { ViewRequestError } from './view-problem.ts';

export interface RunImage {
  readonly bytes: Buffer;
  readonly mediaType: string;
}

const MEDIA_TYPES = { png: 'image/png', jpg: 'image/jpeg', webp: 'image/webp' } as const;
const MOST_BYTES = 64 * 2 ** 20;

export async function readRunImage(directory: string, sha256: string): Promise<RunImage> {
  if (!/^[0-9a-f]{64}$/.test(sha256))
    throw new ViewRequestError(400, 'The name of an image is the SHA-256 of its bytes: 64 hex digits. Load the page again.');
  for (const [extension, mediaType] of Object.entries(MEDIA_TYPES)) {
    await using file = await openInside(directory, join('images', `${sha256}.${extension}`));
    if (file === null) continue;
    const { size } = await file.stat();
    if (size > MOST_BYTES) throw new ViewRequestError(400, `The image has ${size} bytes, too many to show. Open the file in the run's folder.`);
    return { bytes: await file.readFile(), mediaType };
  }
  throw new ViewRequestError(404, 'The run has no such image in its folder. Check whether its images were copied with it.');
}
