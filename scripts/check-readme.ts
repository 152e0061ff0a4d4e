/**
 * Runs the fenced blocks of the documents that follow a line `<!-- check -->`: `sh` blocks in a scratch folder that looks like the clone, `ts` blocks
 * as environments of `vf-eval`. Prints a line per block; exit 1 on failure.
 */
import { spawnSync } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

const root = join(import.meta.dirname, '..');
const BLOCK = /^<!-- check -->\n```(sh|ts)\n(.*?)^```$/gms;

interface Block {
  readonly file: string;
  readonly language: string;
  readonly text: string;
}

function blocks(file: string): Block[] {
  const text = readFileSync(join(root, file), 'utf8');
  return [...text.matchAll(BLOCK)].map((match) => ({ file, language: match[1]!, text: match[2]! }));
}

function run(block: Block, folder: string): boolean {
  // In a folder that only looks like the clone, npx would install the package into its cache; `.ci/run` uses the real npx.
  let command = block.text.replaceAll(/\bnpx (vf-\w+)/g, `node ${join(root, 'bin')}/$1.js`);
  if (block.language === 'ts') {
    writeFileSync(join(folder, 'environment.ts'), block.text);
    command = `node ${join(root, 'bin/vf-eval.js')} ./environment.ts -n 2 --plain -A`;
  }
  const path = [join(root, 'node_modules/.bin'), process.env['PATH']].join(delimiter);
  const { status, stdout, stderr, error } = spawnSync('bash', ['-euo', 'pipefail', '-c', command], {
    cwd: folder,
    encoding: 'utf8',
    env: { ...process.env, PATH: path },
  });
  const title = block.text.split('\n').find((line) => line.trim() !== '' && !line.startsWith('#'));
  process.stdout.write(`${status === 0 ? 'ok    ' : 'FAILED'} ${block.file}: ${title}\n`);
  if (status !== 0) process.stdout.write(`${error ?? ''}${stdout.slice(-2000)}${stderr.slice(-2000)}\n`);
  return status === 0;
}

const files = ['README.md', ...globSync('docs/*.md', { cwd: root }), ...globSync('environments/*/README.md', { cwd: root })];
const found = files.flatMap(blocks);
const folder = mkdtempSync(join(tmpdir(), 'vf-readme-'));
try {
  // The links make paths and environments work as in a clone; the commands write only to the scratch folder.
  for (const name of ['bin', 'datasets', 'dist', 'node_modules', 'package.json', 'scripts', 'test', 'examples', 'configs', 'src', 'environments']) {
    symlinkSync(join(root, name), join(folder, name));
  }
  const passed = found.filter((block) => run(block, folder)).length;
  process.stdout.write(`${passed} of ${found.length} documented blocks run\n`);
  if (passed < found.length || found.length < 3) process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true });
}
