import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, it } from 'vitest';
import { addressNotice } from '../../../src/sessions/engine/address-notice.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';
import { BARE_ENVIRONMENT } from '../../bare-environment.ts';

const ROOT = join(import.meta.dirname, '../../..');

describe('addressNotice', () => {
  it('has nothing to say where there is no limit, or where all threads find room', () => {
    expect([addressNotice(8, null), addressNotice(8, 12e9), addressNotice(1, 7e9)]).toEqual([null, null, null]);
  });

  it('says what the process may have, what the engine takes, and what to do', () => {
    expect(addressNotice(2, 2_500_000 * 1024)).toBe(
      'the address space is limited to 2500000 KiB (ulimit -v), but the embedded engine with 2 threads needs up to 7400000 KiB; if Node ends with "out of memory", raise the limit or use fewer threads',
    );
    // The same limit is enough for one thread and not for eight.
    expect([addressNotice(1, 7.2e9), addressNotice(8, 7.2e9)]).toEqual([null, expect.stringContaining('8 threads')]);
  });

  it.runIf(process.platform === 'linux')(
    'is the first line of a command under such a limit, however Node then ends',
    { timeout: 60_000 },
    async () => {
      using folder = new TemporaryFolder();
      for (const [name, ...args] of [
        ['vf-train', 'search-r1', '--preset', 'laptop', '--steps', '1', '-n', '2', '-r', '2', '--set', 'evaluation.every=0', '-o', folder.path],
        ['vf-eval', 'search-r1', '-p', 'embedded', '-n', '1', '-o', folder.path],
      ] as const) {
        const line = 'ulimit -v 5000000; exec "$@"';
        const command = ['-c', line, 'sh', process.execPath, '--conditions=vf-search-source', join(ROOT, `src/cli/${name}.ts`), ...args];
        const child = spawn('/bin/sh', command, { cwd: folder.path, env: BARE_ENVIRONMENT, stdio: ['ignore', 'ignore', 'pipe'] });
        const ended = once(child, 'close');
        const [first] = await once(createInterface(child.stderr), 'line');
        child.kill('SIGKILL');
        await ended;
        expect(first).toMatch(new RegExp(`^${name}: the address space is limited to 5000000 KiB .*raise the limit`));
      }
    },
  );
});
