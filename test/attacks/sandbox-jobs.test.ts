/** Programs whose processes together take what one alone may not: memory in children, files in the sandbox's /tmp. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { openExecutor } from '../../src/execution/index.ts';
import { MOST_FILES, watchesJobs, watchJob } from '../../src/execution/process/job-watch.ts';
import { HONEST, runOn } from '../contracts/code-executor.ts';
import { whyMissing } from '../execution/missing-executor.ts';

const MIB = 2 ** 20;
/** Each holds 60 MiB, which the limit of a process allows, until they are ended. */
const FORKS = (children: number, mib: number, hold: string) => `
import os, time
def f(a):
  for i in range(${children}):
    if os.fork() == 0:
      held = bytearray(${mib} * 2**20)
      for at in range(0, len(held), 4096): held[at] = 1
      ${hold}
      os._exit(0)
  for i in range(${children}): os.wait()
  return 'SURVIVED'`;
const ORPHANS = `
import os, time
def f(a):
  for i in range(12):
    child = os.fork()
    if child: os.waitpid(child, 0)
    else:
      if os.fork() > 0: os._exit(0)
      os.setsid()
      held = bytearray(60 * 2**20)
      for at in range(0, len(held), 4096): held[at] = 1
      time.sleep(20)
      os._exit(0)
  time.sleep(20)
  return 'SURVIVED'`;
const GROWS_LATER = FORKS(12, 60, 'time.sleep(20)').replace('      held =', '      time.sleep(0.3)\n      held =');
const FILES = `
import time
def f(a):
  for i in range(20001):
    with open(f'/tmp/{i}', 'w'): pass
  time.sleep(20)
  return 'SURVIVED'`;
const FOLDERS = FILES.replace("with open(f'/tmp/{i}', 'w'): pass", 'os.mkdir(f"/tmp/{i}")').replace('import time', 'import os, time');

const missing = watchesJobs() ? await whyMissing('bubblewrap') : 'this system does not say which processes a job has';
describe.skipIf(missing !== null)(`a job in bubblewrap${missing === null ? '' : ` (skipped: ${missing})`}`, () => {
  const outcomes = async (program: string) => {
    const executor = await openExecutor('bubblewrap', { workers: 1, cacheBytes: 0 });
    try {
      return [await runOn(executor, program, ['1'], { seconds: 15, memoryBytes: 64 * MIB }), await runOn(executor, HONEST.code, HONEST.calls)];
    } finally {
      await executor.close();
    }
  };

  it.each([
    ['hold more than its limit together', FORKS(14, 60, 'time.sleep(20)'), /^The processes of the program held more than 134,217,728 bytes together/],
    ['grow only later', GROWS_LATER, /held more than/],
    ['left its group', ORPHANS, /held more than/],
    ['are empty files in /tmp', FILES, new RegExp(`^The program made more than ${MOST_FILES.toLocaleString('en-US')} files in /tmp`)],
    ['are empty folders in /tmp', FOLDERS, /files in \/tmp/],
  ])('ends when its children %s', async (_, program, detail) => {
    expect(await outcomes(program)).toEqual([{ kind: 'memory', detail: expect.stringMatching(detail) as string }, HONEST.result]);
  });

  it('runs with a few children that stay below its limit, and with a few files', async () => {
    const program = FORKS(4, 10, 'time.sleep(0.3); open(f"/tmp/{i}", "w").close()');
    expect(await outcomes(program)).toEqual([{ kind: 'ran', calls: [{ repr: "'SURVIVED'" }] }, HONEST.result]);
  });
});

describe.skipIf(!watchesJobs())('watchJob', () => {
  const watched = async (code: string, memoryBytes: number) => {
    const child = spawn('python3', ['-c', `${code}\nf(1)`], { stdio: 'ignore', detached: true });
    const ended = once(child, 'exit').then(() => 'ended by itself');
    const excess = Promise.withResolvers<string>();
    using _ = watchJob({ pid: child.pid!, sandboxProcesses: 0, memoryBytes, tmpBytes: null }, excess.resolve);
    const outcome = await Promise.race([excess.promise, ended]);
    if (child.exitCode === null) process.kill(-child.pid!, 'SIGKILL');
    return outcome;
  };

  it('sums the processes of a program without a sandbox', async () => {
    expect(await watched(FORKS(6, 20, 'time.sleep(20)'), 80 * MIB)).toMatch(/^The processes of the program held more than 83,886,080 bytes/);
  });

  it('counts what parent and children share once', async () => {
    const program = FORKS(4, 1, 'time.sleep(0.3)').replace('def f(a):', 'def f(a):\n  shared = b"x" * 100 * 2**20');
    expect(await watched(program, 250 * MIB)).toBe('ended by itself');
  });
});
