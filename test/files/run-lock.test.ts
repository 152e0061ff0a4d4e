import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { lockRun } from '../../src/files/run-lock.ts';
import { finish, recorded, start } from '../evaluate/sums-process.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-lock-'));
});
afterEach(() => rm(directory, { recursive: true }));

describe('lockRun', () => {
  it('takes over from a process that is gone, even when its id now belongs to another one', async () => {
    const host = hostname().replace(/[^\w.-]/g, '_');
    await writeFile(join(directory, `.lock~${host}~${process.ppid}~1`), '');
    await writeFile(join(directory, `.lock~${host}~4194304~77`), '');
    const lock = await lockRun(directory);
    expect(await readdir(directory)).toEqual([expect.stringMatching(`~${process.pid}~`) as string]);
    await lock[Symbol.asyncDispose]();
    expect(await readdir(directory)).toEqual([]);
  });

  it.runIf(process.platform === 'linux')('counts a process that was killed and never reaped by its parent as gone', async () => {
    // The child outlives the shell, which turns into a program that reaps no child.
    const parent = spawn('sh', ['-c', 'sleep 0.5 & echo $!; exec sleep 30'], { stdio: ['ignore', 'pipe', 'ignore'] });
    const [pid] = (await once(parent.stdout, 'data')) as [Buffer];
    const stat = async () => (await readFile(`/proc/${String(pid).trim()}/stat`, 'utf8')).split(') ')[1]!.split(' ');
    await vi.waitFor(async () => expect((await stat())[0]).toBe('Z'), { timeout: 10_000 });
    await writeFile(join(directory, `.lock~${hostname()}~${String(pid).trim()}~${(await stat())[19]}`), '');
    const lock = await lockRun(directory);
    await lock[Symbol.asyncDispose]();
    parent.kill();
  });

  it('cannot judge another machine and says what to do', async () => {
    await writeFile(join(directory, '.lock~elsewhere~12~77'), '');
    await expect(lockRun(directory)).rejects.toThrow(
      /Process 12 on elsewhere is writing to .*\. If that process is gone, delete .*\.lock~elsewhere~12~77/,
    );
    expect(await readdir(directory)).toEqual(['.lock~elsewhere~12~77']);
  });

  it('is taken once by one process', async () => {
    await mkdir(join(directory, 'run'));
    const lock = await lockRun(join(directory, 'run'));
    await expect(lockRun(join(directory, 'run'))).rejects.toThrow(/This process is already writing a run to/);
    await lock[Symbol.asyncDispose]();
  });
});

describe('two resumes of one directory', () => {
  it('do not run at once: the second is refused and names the first', async () => {
    const run = join(directory, 'run');
    const first = start(run, { turnMs: 400 });
    await recorded(first, 1);
    const second = await finish(run, { resume: true });
    expect(second).toEqual({
      name: 'ConfigError',
      message: expect.stringMatching(/is writing to .*\. Wait for it or stop it, then resume/) as string,
    });
    expect(second.message).toContain(`Process ${first.pid}`);
    first.kill('SIGKILL');
    await once(first, 'close');
    expect((await finish(run, { resume: true })).summary.rollouts.finished).toBe(120);
  });

  it('leave exactly one running when they start in the same instant', async () => {
    const run = join(directory, 'run');
    const killed = start(run, { rows: 10, turnMs: 80 });
    await recorded(killed, 1);
    killed.kill('SIGKILL');
    await once(killed, 'close');
    const ends = await Promise.all([1, 2, 3].map(() => finish(run, { rows: 10, turnMs: 80, resume: true })));
    expect(ends.filter((end) => end.name === 'ConfigError')).toHaveLength(2);
    const winner = ends.find((end) => end.name === undefined);
    expect(winner?.summary.rollouts.finished).toBe(40);
    expect((await readFile(join(run, 'results.jsonl'), 'utf8')).trimEnd().split('\n')).toHaveLength(40);
  });
});
