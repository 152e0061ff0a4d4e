// Runs after tsc, which writes all declarations to dist/declarations. Copies those that an export of the package leads to next to their modules, and removes any other there:
// no user can import it. A file that is the same stays untouched and a new one appears whole: programs may run from dist/, or build it too, meanwhile.
import { copyFileSync, existsSync, globSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';

const FROM = 'dist/declarations';
/** A path or a name of this package that is imported or re-exported, also by `import('…')` in a type. */
const IMPORT = /(?:\bfrom |\bimport |\bimport\()["']((?:\.|vf-search)[^"']*)["']/g;

/** @type {{ exports: Record<string, string | { types: string }> }} */
const { exports } = JSON.parse(readFileSync('package.json', 'utf8'));
const reached = new Set();
for (const target of Object.values(exports)) if (typeof target === 'object') follow(join(target.types));

for (const path of reached) {
  const from = join(FROM, path.slice('dist/'.length));
  if (existsSync(path) && readFileSync(path).equals(readFileSync(from))) continue;
  mkdirSync(dirname(path), { recursive: true });
  const whole = `${path}.${process.pid}`;
  copyFileSync(from, whole);
  renameSync(whole, path);
}
for (const path of globSync('dist/{src,environments}/**/*.d.ts')) if (!reached.has(path)) rmSync(path, { force: true });

/** @param {string} path of the declaration in dist */
function follow(path) {
  if (reached.has(path)) return;
  reached.add(path);
  const text = readFileSync(join(FROM, path.slice('dist/'.length)), 'utf8');
  for (const [, name] of text.matchAll(IMPORT)) follow(name.startsWith('.') ? join(dirname(path), name.replace(/\.[jt]s$/, '.d.ts')) : typesOf(name));
}

/** @param {string} name `vf-search/…` */
function typesOf(name) {
  const target = exports[`.${name.slice('vf-search'.length)}`];
  if (typeof target !== 'object') throw new Error(`A declaration imports ${name}, which package.json does not export.`);
  return join(target.types);
}
