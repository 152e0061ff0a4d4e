/** A command that waits for something that never comes must still end when it is asked to. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { until } from '../transport/loopback.ts';
import { startNode } from './attacked-process.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-attacked-signals-'));
const pipe = join(folder, 'pipe');
spawnSync('mkfifo', [pipe]);
afterAll(() => rmSync(folder, { recursive: true }));

const runner = new URL('../../src/cli/command-line.ts', import.meta.url).href;
/** A thread of this command waits inside open(), as on a file system that hangs. `main` is what else it does. */
const stuckCommand = (main: string) =>
  startNode([
    '--input-type=module',
    '--eval',
    `import { open } from 'node:fs/promises';
     import { runCommand } from ${JSON.stringify(runner)};
     await runCommand('stuck', async (argv, { signal, note }) => {
       const opened = open(${JSON.stringify(pipe)});
       process.on('exit', (code) => note('exit ' + code));
       note('ready');
       ${main}
     });`,
  ]);

const quickCommand = (main: string, env: Readonly<Record<string, string>> = {}) =>
  startNode(
    [
      '--input-type=module',
      '--eval',
      `import { runCommand } from ${JSON.stringify(runner)};
       await runCommand('quick', async (argv, context) => {
         const { signal, note } = context;
         setInterval(() => {}, 1000);
         note('ready');
         ${main}
       });`,
    ],
    { env },
  );

describe('runCommand', () => {
  it.each(['SIGINT', 'SIGTERM'] as const)('ends at the second %s while a thread waits inside open()', async (signal) => {
    await using command = stuckCommand('await opened;');
    await until(() => command.stderr.includes('ready'));
    command.child.kill(signal);
    await until(() => command.stderr.includes('press Ctrl-C again'));
    command.child.kill(signal);
    // The signal's own default: exit() would never return.
    expect(await command.ended).toEqual([null, signal]);
    expect(command.stderr).toContain(`exit ${signal === 'SIGINT' ? 130 : 143}`);
  });

  it('ends at the first signal where the command itself heeds it', async () => {
    await using command = stuckCommand('await new Promise((done) => signal.addEventListener("abort", done)); return 0;');
    await until(() => command.stderr.includes('ready'));
    command.child.kill('SIGTERM');
    expect(await command.ended).toEqual([null, 'SIGTERM']);
  });

  it('stops once for a terminal that closes, however often it says so, and at once for two Ctrl-C after that', async () => {
    await using command = stuckCommand('await new Promise((done) => signal.addEventListener("abort", done)); note("heard"); await opened;');
    await until(() => command.stderr.includes('ready'));
    command.child.kill('SIGHUP');
    await until(() => command.stderr.includes('heard'));
    command.child.kill('SIGHUP');
    expect(command.stderr).not.toContain('exit');
    // Two of them, which may arrive as one.
    await until(() => command.child.kill('SIGINT') && /exit \d/.test(command.stderr));
    expect(command.stderr).toContain('exit 130');
  });

  it('ends with 129 once its work is put away, and goes on under nohup', async () => {
    const waits = 'await new Promise((done) => signal.addEventListener("abort", done)); note("put away"); return 0;';
    await using hungUp = quickCommand(waits);
    await using kept = quickCommand(waits, { _: '/usr/bin/nohup' });
    await until(() => [hungUp, kept].every(({ stderr }) => stderr.includes('ready')));
    for (const { child } of [hungUp, kept]) child.kill('SIGHUP');
    expect(await hungUp.ended).toEqual([129, null]);
    expect(hungUp.stderr).toContain('put away');
    kept.child.kill('SIGTERM');
    expect(await kept.ended).toEqual([143, null]);
  });

  it('changes no exit code by a signal that comes when all is saved', async () => {
    await using command = quickCommand('context.saved = "here"; await new Promise((done) => signal.addEventListener("abort", done)); return 0;');
    await until(() => command.stderr.includes('ready'));
    command.child.kill('SIGINT');
    expect(await command.ended).toEqual([0, null]);
  });

  it('leaves a later signal its effect where a command that is done cannot exit', async () => {
    await using command = stuckCommand('return 0;');
    await until(() => command.stderr.includes('exit 0'));
    command.child.kill('SIGTERM');
    expect(await command.ended).toEqual([null, 'SIGTERM']);
  });
});

const watch = new URL('../../src/cli/loop-watch.ts', import.meta.url).href;
/** The event loop of this command stands still once it has written "hangs". */
const hangingCommand = (hang: string) =>
  startNode([
    '--input-type=module',
    '--eval',
    `import { writeSync } from 'node:fs';
     import { runCommand } from ${JSON.stringify(runner)};
     import { watchLoop } from ${JSON.stringify(watch)};
     watchLoop({ stillAfterMs: 200 });
     await runCommand('hanging', async (argv, { signal }) => {
       setTimeout(() => { writeSync(2, 'hangs'); ${hang} });
       await new Promise((done) => signal.addEventListener('abort', done));
       return 0;
     });`,
  ]);

describe('watchLoop', () => {
  it.each([
    ['a pattern that tries without end', 'SIGTERM', '/((\\S|\\s)+)+#/u.test("x".repeat(60));'],
    ['a loop of a module', 'SIGINT', 'for (;;);'],
    ['a wait of the main thread', 'SIGTERM', 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);'],
  ] as const)('lets a second signal end a process that hangs in %s', async (_, signal, hang) => {
    await using command = hangingCommand(hang);
    await until(() => command.stderr.includes('hangs'));
    // The loop that should heed the first ones stands still.
    const again = setInterval(() => command.child.kill(signal), 50);
    expect(await command.ended).toEqual([null, signal]);
    clearInterval(again);
  });

  it('leaves no session with the inspector behind, which a process would wait for at its end and speak of', async () => {
    await using command = hangingCommand(
      "while (process.listenerCount('SIGTERM') > 0); const until = Date.now() + 300; while (Date.now() < until); process.exit(3);",
    );
    expect(await command.ended).toEqual([1, null]);
    expect(command.stderr).toMatch(/^hangs[\w-]+: the process ended in the middle: process\.exit was called .*\n$/);
  });

  it('gives the handlers back once the loop turns again', async () => {
    await using command = hangingCommand(`
      while (process.listenerCount('SIGTERM') > 0);
      setTimeout(function look() {
        if (process.listenerCount('SIGTERM') === 0) setTimeout(look, 10);
        else writeSync(2, 'heeds signals');
      });`);
    await until(() => command.stderr.includes('heeds signals'));
    expect(command.child.exitCode).toBe(null);
  });
});
