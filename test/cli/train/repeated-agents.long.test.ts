/**
 * Short trainings of a pipeline, and of a group with a ToolEnv, an agent over HTTP and a pipeline: the same command gives the same adapter.
 * @module-tag long
 */
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { writeStrangeWorld } from '../../../scripts/proof/strange-world.ts';
import { finished } from '../../vllm/train-process.ts';
import { LaptopRuns, type Printed } from './laptop-runs.ts';

const ROOT = join(import.meta.dirname, '../../..');
const FILE = join(ROOT, 'examples/search-loop.yaml');
const folder = mkdtempSync(join(tmpdir(), 'vf-repeated-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
writeStrangeWorld(folder, { seed: 1, hops: 1 });
const PIPELINE = {
  file: FILE,
  set: [`benchmark.benchmark.path=${join(folder, 'heldout.jsonl')}`, `retriever.corpus_path=${join(folder, 'corpus.jsonl')}`],
  train_path: join(folder, 'train.jsonl'),
};
const MIXED = join(folder, 'mixed');
mkdirSync(MIXED);
writeFileSync(
  join(MIXED, 'environment.mjs'),
  `import { EnvGroup } from 'vf-search';
   import { loadEnvironment as pipeline } from 'vf-search/environments/pipeline';
   import { loadEnvironment as same } from ${JSON.stringify(join(ROOT, 'scripts/proof/agents/same.ts'))};
   const world = ${JSON.stringify(folder)};
   export async function loadEnvironment(_, context) {
     const [tools, agent] = [await same({ world, as: 'tools' }), await same({ world, as: 'agent' })];
     return new EnvGroup({ id: 'mixed', environments: { tools, agent, loop: await pipeline(${JSON.stringify(PIPELINE)}, context) } });
   }`,
);

async function train(args: readonly string[]): Promise<{ readonly adapter: string; readonly tasks: readonly string[] }> {
  await using runs = new LaptopRuns();
  const settings = ['--steps', '2', '-n', '6', '-r', '8', '--set', 'evaluation.every=0', '--set', 'checkpoint.keep_rollouts=true'];
  const printed = await finished<Printed>(runs.start([...args, '--preset', 'laptop-copy', '-o', '.', ...settings]));
  expect(printed.log_prob_difference.max).toBe(0);
  const lines = [1, 2].flatMap((step) => runs.folder.run()!.rollouts(step)) as unknown as readonly { readonly task?: string | null }[];
  return {
    adapter: createHash('sha256')
      .update(readFileSync(join(printed.adapter, 'adapter_model.safetensors')))
      .digest('hex'),
    tasks: [...new Set(lines.flatMap(({ task }) => task ?? []))].toSorted(),
  };
}

describe('vf-train', () => {
  it('gives the same adapter twice from a pipeline whose model it trains, and another one under another seed', async () => {
    const args = ['pipeline', '-a', JSON.stringify(PIPELINE)];
    const { adapter } = await train(args);
    expect((await train(args)).adapter).toBe(adapter);
    expect((await train([...args, '--seed', '5'])).adapter).not.toBe(adapter);
  });

  it('gives the same adapter twice from a group with a ToolEnv, an agent over HTTP and a pipeline', async () => {
    const once = await train([MIXED]);
    expect(once.tasks).toEqual(['agent', 'loop', 'tools']);
    expect(await train([MIXED])).toEqual(once);
  });
});
