/** @module-tag long */
import { spawn } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, describe, expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'vf-cluster-run-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe('train-until-done.sh', () => {
  it('brings a real run to its end though vf-train is killed', async () => {
    writeFileSync(join(folder, 'vf-train'), `#!/bin/sh\nexec '${process.execPath}' '${join(ROOT, 'bin/vf-train.js')}' "$@"\n`, { mode: 0o755 });
    const runs = join(folder, 'runs');
    const args = [
      runs,
      'search-r1',
      '--preset',
      'laptop',
      '--steps',
      '3',
      '--set',
      'checkpoint.every=1',
      '--set',
      'evaluation.examples=4',
      '--plain',
    ];
    const env = { ...process.env, PATH: `${folder}:${process.env['PATH']}`, VF_PAUSE_S: '0' };
    const child = spawn(join(ROOT, 'examples/cluster/train-until-done.sh'), args, { env, stdio: ['ignore', 'ignore', 'pipe'] });
    const ended = new Promise((done) => child.on('exit', done));
    const said = text(child.stderr);
    await expect.poll(() => globSync('train/*/checkpoints/step-000001', { cwd: runs }), { timeout: 240_000 }).toHaveLength(1);
    const [lock] = globSync('train/*/.lock~*', { cwd: runs });
    process.kill(Number(basename(lock!).split('~')[2]), 'SIGKILL');
    expect(await ended).toBe(0);
    expect(await said).toContain('vf-train ended with 137; continuing');
    const [metrics] = globSync('train/*/metrics.jsonl', { cwd: runs });
    expect(readFileSync(join(runs, metrics!), 'utf8')).toContain('"step":3');
  }, 600_000);
});
