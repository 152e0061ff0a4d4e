import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { type ArgumentsContext, checkEnvironmentArguments } from '../../src/registry/check-arguments.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-check-arguments-'));
afterAll(() => rmSync(folder, { recursive: true }));

let count = 0;
function check(exported: string, args: Readonly<Record<string, unknown>> = {}) {
  const path = join(folder, `environment-${count++}.ts`);
  writeFileSync(path, `export const loadEnvironment = () => null;\n${exported}`);
  return checkEnvironmentArguments(path, args, { env: { KNOWN: 'n' }, purpose: 'training' });
}

describe('checkEnvironmentArguments', () => {
  const OWN = `export const checkArguments = async (args, { env, purpose }) => {
    for (const name of Object.keys(args)) if (name !== env.KNOWN) throw new Error('no ' + name + ' in ' + purpose);
  };`;

  it('passes on what the environment says of its arguments, and takes all of one without the export', async () => {
    await expect(check(OWN, { n: 1 })).resolves.toBeUndefined();
    await expect(check(OWN, { n: 1, m: 2 })).rejects.toThrow(/failed: no m in training$/);
    await expect(check('', { m: 2 })).resolves.toBeUndefined();
  });

  it('refuses a check that fails by itself, and an export that is not a function, in one line', async () => {
    const error = (await check('export const checkArguments = () => null.x;').catch((thrown: unknown) => thrown)) as Error;
    expect([error.name, error.message.split('\n').length]).toEqual(['ConfigError', 1]);
    expect(error.message).toContain('failed: Cannot read properties of null');
    await expect(check('export const checkArguments = 3;')).rejects.toThrow('exports checkArguments, but it is not a function');
  });

  it.each([
    [
      'an argument that visual-rag does not have',
      { max_turnz: 3 },
      'training',
      /^visual-rag has no argument "max_turnz" \(did you mean "?max_turns"?\?\)/,
    ],
    ['a value that it does not take', { max_turns: 1 }, 'evaluation', /^max_turns must be .*, got 1$/],
    ['pictures that cannot be trained on', { observations: 'image', align: 0 }, 'training', /^align 0 shows sizes that the policy server resizes/],
    ['rewards of 0 for a judge that failed', { on_judge_failure: 'zero' }, 'training', /^on_judge_failure "zero" gives episodes 0/],
  ] as const)('refuses %s without its rows', async (_, args, purpose, message) => {
    const context: ArgumentsContext = { env: {}, purpose };
    await expect(checkEnvironmentArguments('visual-rag', { ...args, dataset: 'nowhere.jsonl' }, context)).rejects.toThrow(message);
    await expect(checkEnvironmentArguments('visual-rag', { dataset: 'nowhere.jsonl' }, context)).resolves.toBeUndefined();
  });
});
