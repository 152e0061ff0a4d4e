// Runs after tsc. Bundles the pages in web/ with esbuild into dist/web/<page>/{index.html,<page>.js,<page>.css}. The licences of what a bundle contains stand at its top
// and in NOTICE. A file that is the same stays untouched and a new one appears whole: programs may serve dist/, or build it too, meanwhile.
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { build } from 'esbuild';

const root = join(import.meta.dirname, '..');

/** Page → its TypeScript, its style and the packages inside its bundle. */
const PAGES = {
  view: { script: 'web/view/view.tsx', style: 'web/view/styles/view.css', packages: ['preact', 'uplot'] },
};

for (const [name, page] of Object.entries(PAGES)) {
  const folder = join(root, 'dist/web', name);
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: [
      { in: page.script, out: name },
      { in: page.style, out: name },
    ],
    outdir: folder,
    write: false,
    bundle: true,
    minify: true,
    format: 'iife',
    target: ['es2023', 'chrome123', 'firefox121', 'safari17.5'],
    charset: 'utf8',
    legalComments: 'none',
    tsconfig: join(root, 'web/tsconfig.json'),
    banner: { js: licences(page.packages), css: licences(page.packages) },
    logLevel: 'warning',
  });
  for (const file of outputFiles) put(file.path, file.contents);
  put(join(folder, 'index.html'), readFileSync(join(root, dirname(page.script), 'index.html')));
}

/** @param {string[]} packages */
function licences(packages) {
  const lines = packages.map((name) => {
    const folder = join(root, 'node_modules', name);
    const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const copyright = /^.*copyright \(c\).*$/im.exec(readFileSync(join(folder, 'LICENSE'), 'utf8'))?.[0].trim();
    return `${name} ${version}, ${license}, ${copyright}`;
  });
  return `/*! vf-search, Apache-2.0. Contains ${lines.join('; ')}. The licences are in the file NOTICE of vf-search. */`;
}

/** @param {string} path @param {Uint8Array} content */
function put(path, content) {
  if (existsSync(path) && readFileSync(path).equals(content)) return;
  mkdirSync(dirname(path), { recursive: true });
  const whole = `${path}.${process.pid}`;
  writeFileSync(whole, content);
  renameSync(whole, path);
}
