/** What a command says and exits with where code of the user's ends its process, or throws where nothing catches it. */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { uncaughtFault } from '../../src/cli/unexpected-end.ts';
import { TemporaryFolder } from './eval/temporary-folder.ts';

const SRC = join(import.meta.dirname, '../../src');
const from = (path: string) => JSON.stringify(pathToFileURL(join(SRC, path)).href);

let folder: TemporaryFolder;
beforeAll(() => {
  folder = new TemporaryFolder();
});
afterAll(() => folder[Symbol.dispose]());

/** Runs a command in a process of its own that locks a run and then calls this code of the user's, which may use `signal` and `context`. */
function run(code: string) {
  folder.write('mine.mjs', `export const use = async (context) => { ${code} };\n`);
  const main = folder.write(
    'main.mjs',
    `import { runCommand } from ${from('cli/command-line.ts')};
import { lockRun } from ${from('files/run-lock.ts')};
import { use } from './mine.mjs';
await runCommand('vf-try', async (argv, context) => {
  const lock = await lockRun(${JSON.stringify(folder.path)});
  context.continueWith = 'vf-try -R here';
  await use(context);
  await lock[Symbol.asyncDispose]();
  console.log('summary');
  return 0;
});\n`,
  );
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--conditions=vf-search-source', main], { encoding: 'utf8' });
  return { status, stdout, stderr, locks: readdirSync(folder.path).filter((name) => name.startsWith('.lock')) };
}

const AT = () => String.raw`\(at ${folder.path}/mine\.mjs:1:\d+\)`;

describe('the end of a process', { timeout: 60_000 }, () => {
  it('that code of the user brings about is a failure, names the code and the command that continues, and frees the lock', () => {
    for (const code of [0, 7]) {
      const ended = run(`process.exit(${code})`);
      expect(ended).toMatchObject({ status: 1, stdout: '', locks: [] });
      expect(ended.stderr).toMatch(
        new RegExp(
          `^vf-try: the process ended in the middle: process\\.exit was called ${AT()}\\. Correct the code, then continue this run with vf-try -R here --allow-changes\n$`,
        ),
      );
    }
  });

  it('that comes because code of the user waits for nothing is a failure', () => {
    const ended = run('process.exitCode = 0; await new Promise(() => {})');
    expect(ended).toMatchObject({ status: 1, stdout: '', locks: [] });
    // Node itself warns before.
    expect(ended.stderr).toContain(
      'vf-try: the process ended in the middle: code waits for a promise that never settles. Correct the code, then continue this run with vf-try -R here --allow-changes\n',
    );
  });

  it('has the exit code of the command, whatever code of the user sets', () => {
    expect(run('process.exitCode = 7')).toEqual({ status: 0, stdout: 'summary\n', stderr: '', locks: [] });
  });

  it('comes after the summary where nothing catches what code of the user throws, and is a failure', () => {
    const stopped = 'await new Promise((done) => context.signal.addEventListener("abort", done))';
    for (const thrown of ['setTimeout(() => { throw new Error("later"); }, 1)', 'setTimeout(() => void Promise.reject(new Error("later")), 1)']) {
      const ended = run(`${thrown}; ${stopped}`);
      expect(ended).toMatchObject({ status: 1, stdout: 'summary\n', locks: [] });
      expect(ended.stderr).toMatch(new RegExp(`^vf-try: An error that nothing caught ended the run: Error: later ${AT()}\n$`));
    }
    expect(run(`setTimeout(() => { throw null; }, 1); ${stopped}`)).toMatchObject({ status: 1, stdout: 'summary\n' });
  });
});

describe('uncaughtFault', () => {
  it('asks for a correction of the module whose code threw, and leaves errors of this package to it', () => {
    const error = (frame: string) => Object.assign(new Error('x'), { stack: `Error: x\n    at node:internal/timers:5:1\n    ${frame}` });
    expect(uncaughtFault(error('at Timeout.f (file:///home/me/my%20loss.ts?vf=3:7:5)'))).toMatchObject({
      correct: '/home/me/my loss.ts',
      resumeFlags: ['--allow-changes'],
    });
    expect(uncaughtFault(error(`at f (${SRC}/trainer/loop/train.ts:7:5)`))).toBeNull();
    expect(uncaughtFault(Object.assign(new Error('read ECONNRESET'), { stack: 'Error: read ECONNRESET', syscall: 'read' }))).toBeNull();
  });
});
