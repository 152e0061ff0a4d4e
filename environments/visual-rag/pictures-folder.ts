import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from 'vf-search';
import { bundledFolder } from 'vf-search/environment-kit';

/** The folder of the pages' pictures: the named one, or that of a bundled deck. Rejects with ConfigError if the data set has neither. */
export async function picturesFolder({ dataset, imagesFolder }: { readonly dataset: string; readonly imagesFolder: string | null }): Promise<string> {
  if (imagesFolder !== null) return imagesFolder;
  const bundled = await bundledFolder(dataset);
  if (bundled === null) throw new ConfigError(`visual-rag needs the pictures of the pages of ${dataset}. Name their folder with "images".`);
  const folder = join(bundled, 'pages');
  if (existsSync(folder)) return folder;
  throw new ConfigError(
    `The pages of ${dataset} are words without pictures. Use observations "ocr", or a data set with pictures, such as deck-mini.`,
  );
}
