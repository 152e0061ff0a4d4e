import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isRunning, untilEnded } from '../../../src/rounds/driver/left-command.ts';
import { CancelledError } from '../../../src/core/errors.ts';
import { processStart } from '../../../src/files/process-start.ts';

let child: ChildProcess;
let command: { readonly pid: number; readonly start: string };
beforeEach(async () => {
  child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)', 'vf-train'], { stdio: 'ignore' });
  await once(child, 'spawn');
  command = { pid: child.pid!, start: (await processStart(child.pid!))! };
});
afterEach(() => void child.kill('SIGKILL'));

describe('isRunning', () => {
  it('knows a process by its start, not by its id alone', async () => {
    expect(await isRunning(command)).toBe(true);
    expect(await isRunning({ ...command, start: String(Number(command.start) - 1) })).toBe(false);
    expect(await isRunning({ ...command, pid: process.pid })).toBe(false);
  });
});

describe('untilEnded', () => {
  it('waits until the process has ended', async () => {
    let isOver = false;
    const ended = untilEnded(command, new AbortController().signal).then(() => (isOver = true));
    await once(spawn(process.execPath, ['-e', '']), 'close');
    expect(isOver).toBe(false);
    child.kill('SIGKILL');
    await ended;
    expect(child.signalCode ?? (await once(child, 'exit'))[1]).toBe('SIGKILL');
  });

  it('ends at once when it is stopped', async () => {
    const controller = new AbortController();
    const ended = untilEnded(command, controller.signal);
    controller.abort();
    await expect(ended).rejects.toBeInstanceOf(CancelledError);
    expect(await isRunning(command)).toBe(true);
  });
});
