// Runs after tsc. Bundles the pages in web/ with esbuild into dist/web/<page>/{index.html,<page>.js,<page>.css}. The licences of the parts of a bundle are at its top
// and in NOTICE. A file that is the same stays untouched and a new one appears whole: programs may serve dist/, or build it too, meanwhile.
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { build } from 'esbuild';

const root = join(import.meta.dirname, '..');

/** Page → its TypeScript, its style, the packages inside its bundle, and the scripts of its workers with theirs. */
const PAGES = {
  view: { script: 'web/view/view.tsx', style: 'web/view/styles/view.css', packages: ['preact', 'uplot'] },
  lab: {
    script: 'web/lab/lab.tsx',
    style: 'web/lab/lab.css',
    packages: ['preact', 'uplot'],
    workers: {
      train: { script: 'web/lab/compute/lab.ts', packages: ['@huggingface/tokenizers', '@huggingface/jinja', 'lru-cache'] },
      thread: { script: 'web/lab/compute/thread.ts', packages: [] },
    },
  },
};

const COMMON = {
  absWorkingDir: root,
  write: false,
  bundle: true,
  minify: true,
  format: 'iife',
  target: ['es2023', 'chrome123', 'firefox121', 'safari17.5'],
  charset: 'utf8',
  legalComments: 'none',
  logLevel: 'warning',
};

for (const [name, page] of Object.entries(PAGES)) {
  const folder = join(root, 'dist/web', name);
  const { outputFiles } = await build({
    ...COMMON,
    entryPoints: [
      { in: page.script, out: name },
      { in: page.style, out: name },
    ],
    outdir: folder,
    tsconfig: join(root, 'web/tsconfig.json'),
    banner: { js: licences(page.packages), css: licences(page.packages) },
  });
  for (const file of outputFiles) put(file.path, file.contents);
  for (const [worker, { script, packages }] of Object.entries(page.workers ?? {})) await bundleWorker(join(folder, `${worker}.js`), script, packages);
  put(join(folder, 'index.html'), readFileSync(join(root, dirname(page.script), 'index.html')));
}

/**
 * Sources of the package itself. What is left of Node among their imports ends the build, and so does what the page has no use for.
 * @param {string} path @param {string} script @param {string[]} packages
 */
async function bundleWorker(path, script, packages) {
  const { outputFiles, metafile } = await build({
    ...COMMON,
    platform: 'browser',
    metafile: true,
    entryPoints: [script],
    outfile: path,
    conditions: ['vf-search-source'],
    plugins: [
      {
        name: 'the page has files of its own in place of these: settings are checked when it is built, and it plays no agents',
        setup(bundle) {
          bundle.onResolve({ filter: /\/(schema-check|play-agent)\.ts$/ }, ({ path: from }) => ({
            path: join(root, 'web/lab/compute', basename(from)),
          }));
        },
      },
    ],
    // Its paths lead environments, which know the package by its name, past the parts that need Node.
    tsconfig: join(root, 'web/lab/compute/tsconfig.json'),
    banner: { js: licences(packages) },
  });
  const unused = Object.keys(metafile.inputs).filter((input) => /^src\/(agents|server|sessions)\//.test(input));
  if (unused.length > 0) throw new Error(`The page has no use for ${unused.join(', ')}. Import the part that it needs from another file.`);
  put(path, outputFiles[0].contents);
}

/** @param {string[]} packages */
function licences(packages) {
  if (packages.length === 0) return '/*! vf-search, Apache-2.0. */';
  const lines = packages.map((name) => {
    const folder = join(root, 'node_modules', name);
    const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const text = readFileSync(join(folder, existsSync(join(folder, 'LICENSE')) ? 'LICENSE' : 'LICENSE.md'), 'utf8');
    const copyright = /^.*copyright \(c\).*$/im.exec(text)?.[0].trim();
    return [`${name} ${version}`, license, ...(copyright === undefined ? [] : [copyright])].join(', ');
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
