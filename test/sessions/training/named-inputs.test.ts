import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { TrainingConfigWire } from '../../../src/schemas/training-config.ts';
import { compareInputs, namedInputs } from '../../../src/sessions/training/named-inputs.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-inputs-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function file(name: string, text: string): string {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
}

/** A run that names an adapter, rollouts, a loss with a part of its own, and an environment. */
function written(): TrainingConfigWire {
  const adapter = join(folder, 'adapter');
  mkdirSync(adapter);
  for (const name of ['adapter_config.json', 'adapter_model.safetensors']) file(`adapter/${name}`, name);
  file('part.ts', 'export const beta = 1;');
  const wire = {
    environment: { id: file('environment.ts', "import 'vf-search';"), args: {}, eval_args: {} },
    model: { path: 'nano-base', initial_adapter: adapter },
    rollouts_file: file('rollouts.jsonl', '{"a":1}\n{"b":2}\n'),
    source: null,
    algorithm: { loss: { use: file('loss.ts', "import { beta } from './part.ts';\nexport const createLoss = () => beta;") } },
    losses: {},
  };
  return wire as unknown as TrainingConfigWire;
}

describe('compareInputs', () => {
  it('accepts the inputs that a run began with, rollouts that were added since, and a run of an earlier version', async () => {
    const wire = written();
    const inputs = await namedInputs(wire);
    expect(Object.entries(inputs).map(([key, files]) => [key, Object.keys(files)])).toEqual([
      ['model.initial_adapter', ['adapter_config.json', 'adapter_model.safetensors']],
      ['rollouts_file', ['rollouts.jsonl']],
      ['algorithm.loss.use', ['loss.ts', 'part.ts']],
      ['environment.id', ['environment.ts']],
    ]);
    appendFileSync(wire.rollouts_file!, '{"c":3}\n');
    expect(await compareInputs({ inputs }, { wire, allows: false })).toEqual({ inputs, changes: [] });
    expect((await compareInputs({}, { wire, allows: false })).changes).toEqual([]);
  });

  it.each([
    ['adapter/adapter_model.safetensors', 'model.initial_adapter', 'adapter_model.safetensors'],
    ['rollouts.jsonl', 'rollouts_file', 'rollouts.jsonl'],
    ['loss.ts', 'algorithm.loss.use', 'loss.ts, part.ts'],
    ['part.ts', 'algorithm.loss.use', 'part.ts'],
  ])('refuses another %s by its setting and file, and goes on with it where that is allowed', async (name, key, changed) => {
    const wire = written();
    const inputs = await namedInputs(wire);
    file(name, 'another');
    const text = `${key} names other contents than before: ${changed} changed`;
    const started = `A resumed run must have the inputs that it began with, but ${text}. Restore the files,`;
    await expect(compareInputs({ inputs }, { wire, allows: false })).rejects.toThrow(
      `${started} add --allow-changes to go on with the new ones, or start a new run.`,
    );
    await expect(compareInputs({ inputs }, { wire, allows: null })).rejects.toThrow(`${started} or start a new run.`);
    const allowed = await compareInputs({ inputs }, { wire, allows: true });
    expect(allowed.changes).toEqual([text]);
    expect(await compareInputs({ inputs: allowed.inputs }, { wire, allows: false })).toMatchObject({ changes: [] });
  });

  it("goes on with a changed module of the environment, and says so: it may be a correction, as of the environment's rows", async () => {
    const wire = written();
    const inputs = await namedInputs(wire);
    file('environment.ts', 'export const corrected = true;');
    expect((await compareInputs({ inputs }, { wire, allows: false })).changes).toEqual([
      'environment.id names other contents than before: environment.ts changed',
    ]);
  });

  it('records nothing of what is not there, of the environments of this package, and of standard input', async () => {
    const wire = { ...written(), rollouts_file: '-', model: { initial_adapter: null }, algorithm: {}, environment: { id: 'search-r1' } };
    expect(await namedInputs(wire as unknown as TrainingConfigWire)).toEqual({});
  });
});
