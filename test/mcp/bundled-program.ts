import { buildSync } from 'esbuild';
import { basename, dirname, join } from 'node:path';

/** One file with all that a program of a test imports, in the folder: tests that start it many times load its packages in a third of the time. */
export function bundledProgram(path: string, folder: string): string {
  const outfile = join(folder, basename(path).replace(/\.ts$/, '.mjs'));
  const banner = { js: "import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);" };
  // esbuild would take the folder in which it was first loaded, which a test that ran before may have deleted.
  buildSync({ entryPoints: [path], absWorkingDir: dirname(path), outfile, banner, bundle: true, platform: 'node', format: 'esm', target: 'node24' });
  return outfile;
}
