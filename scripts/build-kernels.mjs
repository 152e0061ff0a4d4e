// Builds the kernels of the embedded engine from src/engine/kernels/assembly (AssemblyScript) into src/engine/kernels/wasm, once with relaxed
// SIMD and once without. Does nothing if the sources have not changed since the last build.
//
//     node scripts/build-kernels.mjs [--force]
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
const sources = join(root, 'src/engine/kernels/assembly');
const outputs = join(root, 'src/engine/kernels/wasm');
const stamp = join(outputs, 'sources.sha256');
const BUILDS = ['relaxed', 'plain'];

/** The engine's memory is imported; the compiler places constants below address 65536 (see compute/memory.ts). */
const OPTIONS =
  '-O3 --noAssert --runtime stub --importMemory --noExportMemory --sharedMemory --initialMemory 2 --maximumMemory 65536 --enable simd --enable threads';

let assemblyScript;
try {
  assemblyScript = (await import('assemblyscript/asc')).default;
} catch (cause) {
  process.stderr.write(`Could not load the package assemblyscript, a development dependency: ${cause.message}. Run npm ci.\n`);
  process.exit(1);
}

const names = readdirSync(sources).filter((name) => name.endsWith('.ts'));
const hash = createHash('sha256')
  .update(readFileSync(import.meta.filename))
  .update(assemblyScript.version);
for (const name of names.toSorted()) hash.update(name).update(readFileSync(join(sources, name)));
const wanted = `${hash.digest('hex')}\n`;
const isBuilt = BUILDS.every((build) => existsSync(join(outputs, `${build}.wasm`))) && existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted;

if (!isBuilt || process.argv.includes('--force')) {
  mkdirSync(outputs, { recursive: true });
  for (const build of BUILDS) put(join(outputs, `${build}.wasm`), await compile(build));
  put(stamp, wanted);
}

async function compile(build) {
  const relaxed = build === 'relaxed' ? ['--enable', 'relaxed-simd'] : [];
  const written = new Map();
  const { error, stderr } = await assemblyScript.main(
    ['index.ts', '--baseDir', sources, '--outFile', 'out.wasm', ...OPTIONS.split(' '), ...relaxed],
    {
      readFile: (name, base) => (existsSync(join(base, name)) ? readFileSync(join(base, name), 'utf8') : null),
      writeFile: (name, content) => void written.set(name, content),
      listFiles: () => [],
    },
  );
  const bytes = written.get('out.wasm');
  if (error !== null || bytes === undefined) {
    process.stderr.write(`The kernels do not compile (${build}):\n${stderr}${error?.message ?? 'no output'}\n`);
    process.exit(1);
  }
  return bytes;
}

/** Replaces a file atomically, so that a process that loads the kernels meanwhile reads either the old or the new ones. */
function put(path, content) {
  const temporary = `${path}.${process.pid}`;
  writeFileSync(temporary, content);
  renameSync(temporary, path);
}
