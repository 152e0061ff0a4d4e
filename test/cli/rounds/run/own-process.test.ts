import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { runOwn } from '../../../../src/cli/rounds/run/own-process.ts';
import { CancelledError } from '../../../../src/core/errors.ts';

/** Until the process has ended; its parent does not know it yet. */
function waitForEnd(pid: number): void {
  while (!/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8')));
}

describe.skipIf(process.platform !== 'linux')('runOwn', { timeout: 60_000 }, () => {
  const stoppedAtEnd = (words: readonly string[]) => {
    const stop = new AbortController();
    const onStart = (pid: number) => {
      waitForEnd(pid);
      stop.abort();
    };
    return runOwn('vf-rounds', words, { signal: stop.signal, onStart });
  };

  it('counts a command that was done when the stop came as done, and one that was not as stopped', async () => {
    expect(await stoppedAtEnd(['--help'])).toMatchObject({ status: 0, stdout: expect.stringContaining('vf-rounds') as string });
    await expect(stoppedAtEnd(['no-such-stage'])).rejects.toThrow(CancelledError);
  });
});
