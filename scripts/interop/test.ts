/**
 * Proves with real Python packages, each in the environment that scripts/interop/install.sh makes, that they work with this one.
 *
 *   npm run test:interop                        every peer that is installed; the others are skipped
 *   npm run test:interop -- trl verifiers       only these peers
 *   npm run test:interop -- --quick             only the quick suites: of trl, openenv, openenv-core, verifiers, inspect
 *
 * VF_REQUIRE_INTEROP=1      a peer that is not installed fails
 * VF_INTEROP_RESULTS=FILE   writes the table of results to FILE, in markdown
 * VF_INTEROP_DIR            where the environments are   (default ~/.cache/vf-search/interop)
 * VLLM_BASE_URL             a vLLM of test/models/nano-base that runs; otherwise a suite that needs one starts it
 */
import { spawnSync } from 'node:child_process';
import { globSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

const ROOT = join(import.meta.dirname, '../..');
const SUITE = /\bdescribePeer\(\s*'([^']+)',\s*\{([^}]*)\}/g;

const { values, positionals } = parseArgs({ options: { quick: { type: 'boolean', default: false } }, allowPositionals: true });
const peers = readdirSync(import.meta.dirname, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
const unknown = positionals.filter((name) => !peers.includes(name));
const files = globSync('test/interop/*.test.ts', { cwd: ROOT }).filter(isAskedFor);

if (unknown.length > 0) process.exitCode = complain(`Unknown peer ${unknown.join(', ')}; the peers are ${peers.join(', ')}.`);
else if (files.length === 0) process.exitCode = complain(`${positionals.join(', ')} has no quick suite; leave out --quick.`);
else {
  const { status } = spawnSync(
    process.execPath,
    ['node_modules/vitest/vitest.mjs', 'run', '--config', 'vitest.interop.config.ts', ...files.toSorted()],
    {
      cwd: ROOT,
      stdio: 'inherit',
      env: { ...process.env, VF_INTEROP_QUICK: values.quick ? '1' : '', VF_INTEROP_PEERS: positionals.join(',') },
    },
  );
  process.exitCode = status ?? 1;
}

/** True if the file has a suite that would run. The others are left out, so that they do not count as skipped. */
function isAskedFor(file: string): boolean {
  const suites = [...readFileSync(join(ROOT, file), 'utf8').matchAll(SUITE)];
  return suites.some(
    ([, peer, options]) => (positionals.length === 0 || positionals.includes(peer!)) && (!values.quick || options!.includes('quick: true')),
  );
}

function complain(message: string): number {
  process.stderr.write(`${message}\n`);
  return 2;
}
