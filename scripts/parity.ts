/**
 * Checks the port against golden vectors: `node --conditions=vf-search-source scripts/parity.ts <directory>...`. Prints one line per file, its
 * failures below it, and a total; exit 1 if anything failed.
 */
import { checkFile } from '../test/parity/check-file.ts';
import { closeSandbox } from '../test/parity/sandbox.ts';
import { listVectors } from '../test/parity/vectors.ts';

const MAX_SHOWN = 5;

const directories = process.argv.slice(2);
if (directories.length === 0) {
  process.stderr.write(
    'Pass directories of vector files: node --conditions=vf-search-source scripts/parity.ts test/golden/parity test/golden/losses\n',
  );
  process.exit(2);
}
const vectors: { readonly directory: string; readonly name: string }[] = [];
let passed = 0;
let failed = 0;
let skipped = 0;
for (const directory of directories) {
  const names = await listVectors(directory).catch((error: unknown) => {
    process.stderr.write(`${directory} is not a directory of vector files: ${String(error)}\n`);
    process.exit(2);
  });
  vectors.push(...names.map((name) => ({ directory, name })));
  if (names.length > 0) continue;
  failed++;
  process.stdout.write(`no vector file in ${directory}\n`);
}
for (const { directory, name } of vectors) {
  const file = await checkFile(directory, name);
  const count = (outcome: string) => file.cases.filter((c) => c.outcome === outcome).length;
  passed += count('passed');
  failed += count('failed') + (file.problem === null ? 0 : 1);
  skipped += count('declared') + (file.skipped ? file.size : 0);
  const note = file.skipped ? `skipped: ${file.note}` : count('declared') > 0 ? `${count('declared')} declared differences: ${file.note}` : '';
  process.stdout.write(`${name}: ${count('passed')}/${file.size}${note ? ` (${note})` : ''}\n`);
  if (file.problem !== null) process.stdout.write(`  ${file.problem}\n`);
  const failures = file.cases.filter((c) => c.outcome === 'failed');
  for (const { id, detail } of failures.slice(0, MAX_SHOWN)) process.stdout.write(`  ${id}: ${detail}\n`);
  if (failures.length > MAX_SHOWN) process.stdout.write(`  and ${failures.length - MAX_SHOWN} more\n`);
}
await closeSandbox();
process.stdout.write(`${passed} passed, ${failed} failed, ${skipped} skipped\n`);
process.exitCode = failed > 0 ? 1 : 0;
