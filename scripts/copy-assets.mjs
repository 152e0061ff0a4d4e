// Runs after tsc. Copies the files that the compiled code needs in addition to its JavaScript: the data of environments, the torch worker, the Python of the
// sandboxes, the font of the plots with its licence, and the kernels of the embedded engine. A file that is the same stays untouched and a new one appears whole:
// programs may run from dist/, or build it too, meanwhile.
import { copyFileSync, existsSync, globSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { dirname, join } from 'node:path';

copy('environments', (path) => path.endsWith('.json'));
copy('src/trainer/gradients/torch', (path) => !/\.ts$|__pycache__/.test(path));
copy('src/execution/python', (path) => path.endsWith('.py'));
copy('src/reports/plot', (path) => !path.endsWith('.ts'));
copy('src/engine/kernels/wasm', () => true);

/** @param {string} folder @param {(path: string) => boolean} wanted */
function copy(folder, wanted) {
  for (const entry of globSync('**/*', { cwd: folder, withFileTypes: true })) {
    const from = join(entry.parentPath, entry.name);
    if (!entry.isFile() || !wanted(from)) continue;
    const to = join('dist', from);
    if (existsSync(to) && readFileSync(to).equals(readFileSync(from))) continue;
    mkdirSync(dirname(to), { recursive: true });
    const whole = `${to}.${process.pid}`;
    copyFileSync(from, whole);
    renameSync(whole, to);
  }
}
