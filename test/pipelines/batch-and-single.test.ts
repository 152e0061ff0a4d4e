/** Loops and branches over toy tools: a run over all items gives each what a run of that item alone gives. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { TOYS } from '../parity/toy-pipeline-servers.ts';
import { NO_JOURNAL } from '../../src/pipelines/call-journal.ts';
import { parseYaml } from '../../src/pipelines/parse-yaml.ts';
import { parsePipeline } from '../../src/pipelines/pipeline.ts';
import { planPipeline } from '../../src/pipelines/pipeline-plan.ts';
import { runPipeline } from '../../src/pipelines/run-pipeline.ts';

interface Case {
  readonly id: string;
  readonly input: {
    readonly yaml: string;
    readonly parameters: { readonly t: { readonly items: readonly string[] }; readonly r: Readonly<Record<string, unknown>> };
  };
  readonly output: { readonly final?: Readonly<Record<string, unknown>> };
}
const { cases } = JSON.parse(readFileSync(join(import.meta.dirname, '../golden/search-o1/ultrarag_pipelines.json'), 'utf8')) as {
  cases: readonly Case[];
};
/** `t.short` drops an item, so that its lists belong to no item. */
const itemwise = cases.filter(
  ({ input, output }) => output.final !== undefined && input.parameters.t.items.length > 1 && !input.yaml.includes('t.short'),
);

async function run({ yaml, parameters }: Case['input'], items: readonly string[]) {
  const plan = planPipeline(parsePipeline(parseYaml(yaml, 'p'), 'p'), { servers: new Map(Object.entries(TOYS)), named: new Map(), where: 'p' });
  const { signal } = new AbortController();
  const given = new Map<string, Readonly<Record<string, unknown>>>(Object.entries({ ...parameters, t: { ...parameters.t, items } }));
  return (await runPipeline(plan, { parameters: given, journal: NO_JOURNAL, resolve: (path) => path, signal })).variables;
}

describe('runPipeline', () => {
  it('has vectors to compare', () => expect(itemwise.length).toBeGreaterThan(20));

  it.each(itemwise.map((each) => [each.id, each.input] as const))('gives each item of %s what it gives the item alone', async (_, input) => {
    const { items } = input.parameters.t;
    // `n` counts the values that a variable has had in the whole run.
    const { n: __, ...batch } = await run(input, items);
    const alone = await Promise.all(items.map((item) => run(input, [item])));
    expect(Object.keys(batch).length).toBeGreaterThan(0);
    for (const [name, list] of Object.entries(batch))
      expect([name, list]).toEqual([name, alone.map((each) => (each[name] as string[] | undefined)?.[0] ?? null)]);
  });
});
