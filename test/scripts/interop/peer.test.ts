import { chmodSync, copyFileSync, existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { peerPython, runPeer } from '../../interop/peer.ts';
import { until } from '../../transport/loopback.ts';

const ROOT = join(import.meta.dirname, '../../..');
const folder = mkdtempSync(join(tmpdir(), 'vf-peers-'));
const before = process.env['VF_INTEROP_DIR'];

/** In place of a Python: its second argument says what it does. */
const STAND_IN = `#!/bin/sh
case "$2" in
  answer) echo 'a line before'; echo "{\\"argument\\": \\"$3\\", \\"offline\\": \\"$HF_HUB_OFFLINE\\", \\"own\\": \\"$VF_OWN\\", \\"added\\": \\"$ADDED\\"}" ;;
  prose) echo '{"not": "last"}'; echo 'the end' ;;
  fail) echo 'why it failed' >&2; exit 3 ;;
  hang) sleep 1000 & echo $! >"$3"; wait ;;
  leave) sleep 1000 & echo $! >"$3"; echo '{}' ;;
esac
`;

beforeAll(() => {
  process.env['VF_INTEROP_DIR'] = folder;
  for (const peer of ['clients', 'trl'] as const) {
    mkdirSync(join(folder, peer, 'venv/bin'), { recursive: true });
    writeFileSync(join(folder, peer, 'venv/bin/python'), STAND_IN);
    chmodSync(join(folder, peer, 'venv/bin/python'), 0o755);
    copyFileSync(join(ROOT, 'scripts/interop/clients/requirements.txt'), join(folder, peer, 'installed'));
  }
});
afterAll(() => {
  if (before === undefined) delete process.env['VF_INTEROP_DIR'];
  else process.env['VF_INTEROP_DIR'] = before;
  rmSync(folder, { recursive: true });
});

const TIME = { timeoutMs: 20_000 };

/** The process that a stand-in started. */
async function started(file: string): Promise<number> {
  await until(() => existsSync(file));
  return Number(readFileSync(file, 'utf8'));
}

const isAlive = (pid: number) => existsSync(`/proc/${pid}`);

describe('peerPython', () => {
  it('is the Python of an installation from the requirements as they are now', () => {
    expect(peerPython('clients')).toBe(join(folder, 'clients/venv/bin/python'));
  });

  it('is null where nothing is installed, and where other requirements were', () => {
    expect([peerPython('openenv'), peerPython('trl')]).toEqual([null, null]);
  });
});

describe('runPeer', () => {
  it('returns the last line, and passes no variable of this package on but what it is given', async () => {
    process.env['VF_OWN'] = 'of the developer';
    const ran = await runPeer('clients', 'openai_client', ['answer', 'one'], { ...TIME, env: { ADDED: 'two' } });
    delete process.env['VF_OWN'];
    expect(ran).toEqual({ argument: 'one', offline: '1', own: '', added: 'two' });
  });

  it('fails with the output of a script that fails, or whose last line is not JSON', async () => {
    await expect(runPeer('clients', 'openai_client', ['fail'], TIME)).rejects.toThrow(/openai_client\.py ended with exit code 3\.[^]*why it failed/);
    await expect(runPeer('clients', 'openai_client', ['prose'], TIME)).rejects.toThrow(/is not JSON[^]*the end/);
    await expect(runPeer('openenv', 'client', [], TIME)).rejects.toThrow('run scripts/interop/install.sh openenv');
  });

  it.skipIf(process.platform !== 'linux')('kills what the script started, when it is late and when it has ended', async () => {
    const [late, left] = [join(folder, 'late'), join(folder, 'left')];
    await expect(runPeer('clients', 'openai_client', ['hang', late], { timeoutMs: 2000 })).rejects.toThrow('was killed after 2000 ms');
    await runPeer('clients', 'openai_client', ['leave', left], TIME);
    for (const file of [late, left]) {
      const pid = await started(file);
      await until(() => !isAlive(pid));
    }
  });
});

describe('install.sh --quick', () => {
  // CI installs these and requires them: a quick suite of any other peer would fail on a machine that has nothing yet.
  it('installs the peers that have a quick suite', () => {
    const tests = globSync('test/interop/*.test.ts', { cwd: ROOT }).map((file) => readFileSync(join(ROOT, file), 'utf8'));
    const quick = tests.flatMap((text) => [...text.matchAll(/\bdescribePeer\('([^']+)', \{ quick: true \}/g)].map(([, peer]) => peer!));
    const [, installed] = /^readonly QUICK=\((.+)\)$/m.exec(readFileSync(join(ROOT, 'scripts/interop/install.sh'), 'utf8'))!;
    expect(installed!.split(' ').toSorted()).toEqual(quick.toSorted());
    expect(quick).toContain('openenv-core');
  });
});
