import { join } from 'node:path';
import { bundledFolder, ConfigError } from 'vf-search';

/** The folder of the pages' pictures: the named one, or that of a bundled deck. Throws ConfigError if there is neither. */
export async function picturesFolder({ dataset, imagesFolder }: { readonly dataset: string; readonly imagesFolder: string | null }): Promise<string> {
  if (imagesFolder !== null) return imagesFolder;
  const bundled = await bundledFolder(dataset);
  if (bundled === null) throw new ConfigError(`visual-rag needs the pictures of the pages of ${dataset}. Name their folder with "images".`);
  return join(bundled, 'pages');
}
