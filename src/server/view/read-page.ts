import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import type { PageFile } from './view-app.ts';

const MEDIA_TYPES = {
  'index.html': 'text/html; charset=utf-8',
  'view.js': 'text/javascript; charset=utf-8',
  'view.css': 'text/css; charset=utf-8',
} as const;

/** The built page: its files by name. */
export type Page = ReadonlyMap<keyof typeof MEDIA_TYPES, PageFile>;

/** @param root the package's folder. Throws ConfigError if the package was not built. */
export async function readPage(root: string): Promise<Page> {
  const page = new Map<keyof typeof MEDIA_TYPES, PageFile>();
  for (const [name, mediaType] of Object.entries(MEDIA_TYPES) as [keyof typeof MEDIA_TYPES, string][]) {
    const path = join(root, 'dist/web/view', name);
    const bytes = await readFile(path).catch((cause: unknown) => {
      throw new ConfigError(`The page is not built: ${path} is missing. Run npm run build first.`, { cause });
    });
    page.set(name, { bytes: new Uint8Array(bytes), mediaType });
  }
  return page;
}
