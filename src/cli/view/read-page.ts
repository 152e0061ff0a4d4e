import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { packageRoot } from '../../data/package-root.ts';
import type { PageFile } from '../../server/view/view-app.ts';

const MEDIA_TYPES = {
  'index.html': 'text/html; charset=utf-8',
  'view.js': 'text/javascript; charset=utf-8',
  'view.css': 'text/css; charset=utf-8',
} as const;

/** The built page. Throws ConfigError if the package was not built. */
export async function readPage(folder: string = join(packageRoot(), 'dist', 'web', 'view')): Promise<Map<keyof typeof MEDIA_TYPES, PageFile>> {
  const page = new Map<keyof typeof MEDIA_TYPES, PageFile>();
  for (const [name, mediaType] of Object.entries(MEDIA_TYPES) as [keyof typeof MEDIA_TYPES, string][]) {
    const path = join(folder, name);
    const bytes = await readFile(path).catch((cause: unknown) => {
      throw new ConfigError(`The page is not built: ${path} is missing. Run npm run build first.`, { cause });
    });
    page.set(name, { bytes: new Uint8Array(bytes), mediaType });
  }
  return page;
}
