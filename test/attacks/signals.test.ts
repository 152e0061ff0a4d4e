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

  it('leaves a later signal its effect where a command that is done cannot exit', async () => {
    await using command = stuckCommand('return 0;');
    await until(() => command.stderr.includes('exit 0'));
    command.child.kill('SIGTERM');
    expect(await command.ended).toEqual([null, 'SIGTERM']);
  });
});
