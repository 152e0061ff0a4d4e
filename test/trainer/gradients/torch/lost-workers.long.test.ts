/**
 * Kills of the torch worker and of its trainer, beyond those of torch-backend.test.ts and ranks.long.test.ts.
 * @module-tag long
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import type { TorchBackend } from '../../../../src/trainer/gradients/torch/torch-backend.ts';
import { isRunning } from './is-running.ts';
import { openNano } from './nano-backend.ts';
import { skipReason, torchPython } from './torch-python.ts';

describe.skipIf(torchPython.path === null)(`TorchBackend${skipReason}`, () => {
  let backend: TorchBackend | undefined;
  afterEach(() => backend?.close());

  it('reports a worker that was killed while idle at the next call', async () => {
    backend = await openNano({ options: { python: torchPython.path! } });
    process.kill(backend.pid, 'SIGKILL');
    await backend.exited;
    await expect(backend.zeroGrad()).rejects.toMatchObject({ code: 'lost', message: expect.stringContaining('SIGKILL') as string });
  });

  it('ends when the trainer is killed', async () => {
    const trainer = spawn(process.execPath, ['--conditions=vf-search-source', join(import.meta.dirname, 'start-nano.ts')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(trainer.stdout, 'data')) as [Buffer];
    const pid = Number(line.toString());
    expect(isRunning(pid)).toBe(true);
    trainer.kill('SIGKILL');
    await expect.poll(() => isRunning(pid), { timeout: 20_000 }).toBe(false);
  });
});
