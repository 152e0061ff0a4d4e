import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';

const SCRIPT = join(import.meta.dirname, '../../scripts/bench/gateway-soak.ts');

interface Soak {
  readonly turns: number;
  readonly repeats: number;
  readonly lost: number;
  readonly strangers: number;
  readonly mixed: number;
  readonly failed: number;
  readonly memory_mb: readonly { readonly heap: number }[];
}

describe('the gateway with 64 agents at once', () => {
  it('gives every agent its own answers and rollouts, and holds no more at the end than after a fifth of the time', { tags: 'long' }, async () => {
    const args = ['--conditions=vf-search-source', SCRIPT, '--agents', '64', '--seconds', '40', '--think-ms', '200'];
    const { stdout } = await promisify(execFile)(process.execPath, args);
    const { mixed, failed, turns, repeats, lost, strangers, memory_mb: memory } = JSON.parse(stdout) as Soak;
    expect({ mixed, failed }).toEqual({ mixed: 0, failed: 0 });
    for (const count of [turns, repeats, lost, strangers]) expect(count).toBeGreaterThan(10);
    expect(memory).toHaveLength(5);
    expect(memory.at(-1)!.heap).toBeLessThan(memory[0]!.heap + 64);
  });
});
