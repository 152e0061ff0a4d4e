import { checkFile } from './check-file.ts';
import { listVectors } from './vectors.ts';

const MAX_SHOWN = 5;

interface Printer {
  readonly print: (text: string) => void;
  readonly complain: (text: string) => void;
}

/** Checks the port against all vectors of the directories. Prints one line per file, its failures below it, and a total. Gives the exit code of scripts/parity.ts. */
export async function checkDirectories(directories: readonly string[], { print, complain }: Printer): Promise<0 | 1 | 2> {
  if (directories.length === 0) {
    complain('Pass directories of vector files: node --conditions=vf-search-source scripts/parity.ts test/golden/parity test/golden/losses\n');
    return 2;
  }
  const vectors: { readonly directory: string; readonly name: string }[] = [];
  let passed = 0;
  let failed = 0;
  let skipped = 0;
  for (const directory of directories) {
    let names: readonly string[];
    try {
      names = await listVectors(directory);
    } catch (error) {
      complain(`${directory} is not a directory of vector files: ${String(error)}\n`);
      return 2;
    }
    vectors.push(...names.map((name) => ({ directory, name })));
    if (names.length > 0) continue;
    failed++;
    print(`no vector file in ${directory}\n`);
  }
  for (const { directory, name } of vectors) {
    const file = await checkFile(directory, name);
    const count = (outcome: string) => file.cases.filter((c) => c.outcome === outcome).length;
    passed += count('passed');
    failed += count('failed') + (file.problem === null ? 0 : 1);
    skipped += count('declared') + (file.skipped ? file.size : 0);
    const note = file.skipped ? `skipped: ${file.note}` : count('declared') > 0 ? `${count('declared')} declared differences: ${file.note}` : '';
    print(`${name}: ${count('passed')}/${file.size}${note ? ` (${note})` : ''}\n`);
    if (file.problem !== null) print(`  ${file.problem}\n`);
    const failures = file.cases.filter((c) => c.outcome === 'failed');
    for (const { id, detail } of failures.slice(0, MAX_SHOWN)) print(`  ${id}: ${detail}\n`);
    if (failures.length > MAX_SHOWN) print(`  and ${failures.length - MAX_SHOWN} more\n`);
  }
  print(`${passed} passed, ${failed} failed, ${skipped} skipped\n`);
  return failed > 0 ? 1 : 0;
}
