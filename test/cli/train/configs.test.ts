import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseTrainArguments } from '../../../src/cli/train/arguments.ts';
import { readTrainingConfig } from '../../../src/cli/train/read-training-config.ts';
import { parseArguments } from '../../../environments/search-r1/arguments.ts';

const root = join(import.meta.dirname, '../../..');
const FILES = globSync('configs/train/*.toml', { cwd: root }).toSorted();

async function read(file: string) {
  const parsed = parseTrainArguments([join(root, file)], '1.2.3');
  if (parsed.kind !== 'train') throw new Error(`Expected a run, got ${parsed.kind}`);
  return readTrainingConfig(parsed, { variables: {}, environmentFile: join(root, 'no such file') });
}

describe('configs/train', () => {
  it('holds the nano run and two for GPUs', () => {
    expect(FILES).toEqual(expect.arrayContaining(['nano-fact-world', 'qwen2.5-3b-nq', 'qwen3-4b-nq'].map((name) => `configs/train/${name}.toml`)));
  });

  it.each(FILES)('%s resolves, and Search-R1 knows its arguments', async (file) => {
    const { wire } = await read(file);
    const { args, eval_args: evalArgs } = wire.environment;
    // The environment itself trains on the one split and holds out the other.
    expect(parseArguments({ ...args, ...evalArgs }).dataSplit).toBeNull();
  });

  it.each(FILES.filter((file) => !file.includes('nano')))('%s names server flags that fit its adapter and its staleness', async (file) => {
    const { wire } = await read(file);
    const text = readFileSync(join(root, file), 'utf8');
    const flag = (name: string) => Number(new RegExp(`--${name} (\\d+)`).exec(text)![1]);
    expect(flag('max-lora-rank')).toBe(wire.lora.rank);
    expect(flag('max-loras')).toBe(wire.rollouts.max_staleness + 2);
  });
});
