/**
 * Writes the lab as a directory that any web server can serve: the page, its weights and its kernels.
 *
 *   npm run build:lab                to dist/lab
 *   npm run build:lab -- DIRECTORY
 *
 * The page may share memory between threads only where the server sends two headers; `_headers` holds them in the form that Netlify and Cloudflare Pages read. Without
 * them it computes in one thread. The page's own file holds the policy of its content.
 */
import { copyFileSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { KERNEL_FILES, LAB_HEADERS, MODEL, MODEL_FILES, PAGE_FILES } from '../src/server/lab/lab-app.ts';

const ROOT = join(import.meta.dirname, '..');
const { positionals } = parseArgs({ allowPositionals: true });
const target = resolve(positionals[0] ?? join(ROOT, 'dist/lab'));

const files: readonly (readonly [from: string, to: string])[] = [
  ...PAGE_FILES.map((name): [string, string] => [join('dist/web/lab', name), name]),
  ...KERNEL_FILES.map((name): [string, string] => [join('dist/src/engine/kernels/wasm', name), join('kernels', name)]),
  ...MODEL_FILES.map((name): [string, string] => [join('models', MODEL, name), join('models', MODEL, name)]),
];
let bytes = 0;
for (const [from, to] of files) {
  mkdirSync(dirname(join(target, to)), { recursive: true });
  copyFileSync(join(ROOT, from), join(target, to));
  bytes += statSync(join(target, to)).size;
}
const lines = Object.entries(LAB_HEADERS).map(([name, value]) => `  ${name}: ${value}\n`);
writeFileSync(join(target, '_headers'), `/*\n${lines.join('')}`);
const shown = relative('', target) || '.';
process.stdout.write(
  `${shown}: ${files.length} files, ${(bytes / 1e6).toFixed(1)} MB. Serve it with the headers in ${join(shown, '_headers')}; without them it computes in one thread.\n`,
);
