// Runs after tsc, which writes what `using` needs on Node 22 into every file that has one, 2.5 KB each. Moves it into one module that these files import. A file without it
// stays untouched and a new one appears whole: programs may run from dist/, or build it too, meanwhile.
import { globSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, relative } from 'node:path';

const SHARED = 'dist/src/using.js';
const NAMES = ['__addDisposableResource', '__disposeResources'];
const HELPERS = new RegExp(String.raw`^var ${NAMES[0]} = [^]*?^};\nvar ${NAMES[1]} = [^]*?^}\);\n`, 'm');

for (const path of globSync('dist/{src,environments}/**/*.js')) {
  const text = readFileSync(path, 'utf8');
  const [helpers] = HELPERS.exec(text) ?? [];
  if (helpers === undefined || path === SHARED) continue;
  put(SHARED, helpers.replaceAll(/^var /gm, 'export var '));
  const from = relative(dirname(path), SHARED).replaceAll('\\', '/');
  put(
    path,
    text.replace(helpers, () => `import { ${NAMES.join(', ')} } from '${from.startsWith('.') ? from : `./${from}`}';\n`),
  );
}

/** @param {string} path @param {string} text */
function put(path, text) {
  const whole = `${path}.${process.pid}`;
  writeFileSync(whole, text);
  renameSync(whole, path);
}
