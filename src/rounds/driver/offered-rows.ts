import { pageSets, readBundledManifest, trainingSets } from '../../data/bundled.ts';
import { environmentIfFound } from '../../registry/find-environment.ts';

/** The data sets of the package that the environment can train on, for a message. */
export async function offeredRows(environment: string): Promise<string> {
  const manifest = await readBundledManifest();
  const found = environmentIfFound(environment);
  const isOfPages = found?.isBundled === true && found.id.replaceAll('_', '-') === 'visual-rag';
  return `${(isOfPages ? pageSets : trainingSets)(manifest).join(', ')} (bundled)`;
}
