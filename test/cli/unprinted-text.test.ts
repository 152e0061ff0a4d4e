/** Commands whose results are saved while their last lines cannot be written, or meet a Ctrl-C. */
import { spawnSync } from 'node:child_process';
import { closeSync, openSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { unprintedText } from '../../src/cli/unprinted-text.ts';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';
import { EvalFolder } from './vf-eval-process.ts';

const CLI = join(import.meta.dirname, '../../src/cli');
/** A Ctrl-C that comes as the first line goes to stdout. */
const INTERRUPTS = `const { stdout } = process; const { write } = stdout; let isSent = false;
  stdout.write = (...given) => { if (given[0] !== '' && !isSent) isSent = process.emit('SIGINT'); return write.apply(stdout, given); };`;
const INTERRUPTED = ['--import', `data:text/javascript,${encodeURIComponent(INTERRUPTS)}`];

let folder: EvalFolder;
beforeAll(() => {
  folder = new EvalFolder();
});
afterAll(() => folder[Symbol.dispose]());

function run(
  command: string,
  args: readonly string[],
  { flags = [], stdout = 'pipe' }: { readonly flags?: readonly string[]; readonly stdout?: 'pipe' | number } = {},
) {
  return spawnSync(process.execPath, ['--conditions=vf-search-source', ...flags, join(CLI, `${command}.ts`), ...args], {
    cwd: folder.path,
    env: { ...BARE_ENVIRONMENT, HOME: folder.path },
    stdio: ['ignore', stdout, 'pipe'],
    encoding: 'utf8',
  });
}

describe('a command whose results are saved', { timeout: 60_000 }, () => {
  it('ends with 0 where a Ctrl-C comes as it prints them, and names the folder and a command that prints them where its output cannot be written', () => {
    const evaluated = run('vf-eval', ['capitals', '-n', '2', '-o', '.', '--json'], { flags: INTERRUPTED });
    expect(evaluated).toMatchObject({ status: 0, signal: null, stdout: expect.stringMatching(/"complete":true[^]*\n$/) as string });
    const at = `evals/capitals--extractive-baseline`;
    const directory = `${at}/${readdirSync(join(folder.path, at))[0]!}`;
    expect(run('vf-score', [directory], { flags: INTERRUPTED })).toMatchObject({ status: 0, signal: null });
    const full = openSync('/dev/full', 'w');
    const unprinted = run('vf-eval', ['capitals', '-n', '2', '-o', '.', '--json', '-R', directory], { stdout: full });
    closeSync(full);
    expect(unprinted.status).toBe(1);
    expect(unprinted.stderr).toMatch(
      new RegExp(
        String.raw`\nvf-eval: The results are saved in ${directory}; only printing them to stdout failed: no space left on device \(ENOSPC\)\. Free some space, or send the output elsewhere, and \S.*vf-eval.* -R ${directory} prints them\n$`,
      ),
    );
  });
});

describe('unprintedText', () => {
  const error = Object.assign(new Error('write EBADF'), { errno: -9, code: 'EBADF' });

  it('names the command that continues a run whose results are not complete', () => {
    expect(unprintedText(error, 'stdout', { continueWith: 'vf-try -R here' })).toBe(
      'Cannot write to stdout: bad file descriptor (EBADF). Send the output elsewhere, then run vf-try -R here',
    );
    expect(unprintedText(error, 'stderr', {})).toMatch(/then run the command again$/);
  });
});
