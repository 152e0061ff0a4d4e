import { mkdirSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { assertDiskRoom, type DiskRoom } from '../../../src/sessions/training/assert-disk-room.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';

describe('assertDiskRoom', () => {
  it('refuses a run whose adapters and checkpoints are larger than the disk, until enough checkpoints are there', async () => {
    using folder = new TemporaryFolder();
    const { bavail, bsize } = await statfs(folder.path);
    // Two adapters and three checkpoints of three parts are eleven; the disk has room for about eight.
    const module = { path: 'q', inFeatures: Math.floor((bavail * bsize) / 32), outFeatures: 0 };
    const config = { checkpoint: { every: 1, keep: 2 }, rollouts: { maxStaleness: 0 }, sft: { steps: 0 }, steps: 9 };
    const paths = { checkpoints: join(folder.path, 'checkpoints') };
    mkdirSync(paths.checkpoints);
    const room = { adapter: { rank: 1, modules: [module] }, config, paths } as unknown as DiskRoom;
    await expect(assertDiskRoom(room)).rejects.toThrow(/^The disk of .*checkpoints has .* free, and the run needs .* there: 3 checkpoints of/);
    for (const step of ['step-1', 'step-2']) mkdirSync(join(paths.checkpoints, step));
    await expect(assertDiskRoom(room)).resolves.toBeUndefined();
  });
});
