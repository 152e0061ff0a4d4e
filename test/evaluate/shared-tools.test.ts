import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Row } from '../../src/core/dataset.ts';
import { recordEvaluation } from '../../src/evaluate/record-evaluation.ts';
import { SharedTools } from '../../src/evaluate/shared-tools.ts';
import { MetadataSchema, parseWire } from '../../src/schemas/results.ts';
import { sumsClient, sumsEnvironment, sumsOptions } from './sums-world.ts';

const ADD = { name: 'add', description: 'Adds.', parameters: { type: 'object', properties: { token: { type: 'string' } } } };
const FIND = { ...ADD, name: 'find' };

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-tools-'));
});
afterEach(() => rm(directory, { recursive: true }));

/** `metadata.json` after the first `rows` rows were played with these tools. */
async function toolsAfter(rows: number, toolsOf: (row: Row) => readonly object[], resume = false): Promise<unknown> {
  const environment = sumsEnvironment();
  const start = environment.start.bind(environment);
  environment.start = async (row, context) => Object.assign(await start(row, context), { tools: toolsOf(row) });
  const client = sumsClient({ kind: 'chat' });
  await recordEvaluation(
    sumsOptions(directory, { environment, client, numExamples: rows, resume, run: { ...sumsOptions('').run, policyKind: 'chat' } }),
  );
  const parsed = parseWire(MetadataSchema, await readFile(join(directory, 'metadata.json'), 'utf8'));
  if ('problem' in parsed) throw new Error(parsed.problem);
  return parsed.value.tools;
}

describe('SharedTools', () => {
  it('puts the tools that all rollouts share into the metadata, also after a resume', async () => {
    expect(await toolsAfter(2, () => [ADD, FIND])).toEqual([ADD, FIND]);
    expect(await toolsAfter(3, () => [ADD, FIND], true)).toEqual([ADD, FIND]);
  });

  it('leaves the metadata without tools when a resumed run offers other tools than the rollouts on file had', async () => {
    expect(await toolsAfter(2, () => [ADD])).toEqual([ADD]);
    expect(await toolsAfter(3, () => [FIND], true)).toBeNull();
  });

  it.each<[string, (row: Row) => readonly object[]]>([
    ['one row has others', ({ exampleId }) => (exampleId === 1 ? [FIND] : [ADD])],
    ['one row has none', ({ exampleId }) => (exampleId === 0 ? [] : [ADD])],
    ['no row has any', () => []],
  ])('is null where %s', async (_, toolsOf) => {
    expect(await toolsAfter(3, toolsOf)).toBeNull();
  });

  it('ignores a rollout that failed before its tools were known', () => {
    const tools = new SharedTools();
    const failed = { error: { error: 'E', message: '', error_chain_repr: '', error_chain_str: '', phase: 'setup', retryable: false } } as const;
    tools.add(failed);
    tools.add({ error: null, tools: [ADD] });
    expect(tools.value).toEqual([ADD]);
  });
});
