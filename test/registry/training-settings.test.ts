import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { environmentTrainingSettings } from '../../src/registry/training-settings.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-training-settings-'));
afterAll(() => rmSync(folder, { recursive: true }));

let count = 0;
function settingsOf(exported: string, args: Readonly<Record<string, unknown>> = {}) {
  const path = join(folder, `environment-${count++}.ts`);
  writeFileSync(path, `export const loadEnvironment = () => null;\n${exported}`);
  return environmentTrainingSettings(path, args, { env: {}, settingOf: (key) => `${key}?` });
}

describe('environmentTrainingSettings', () => {
  it('returns what the environment makes of its arguments, and nothing for one without the export', async () => {
    const exported = `export const trainingSettings = async ({ n }, { settingOf }) => [{ argument: 'n', key: 'steps', value: n + settingOf('k') }];`;
    expect(await settingsOf(exported, { n: 'x' })).toEqual([{ argument: 'n', key: 'steps', value: 'xk?' }]);
    expect(await settingsOf('')).toEqual([]);
    expect(await environmentTrainingSettings('search-r1', {}, { env: {}, settingOf: () => undefined })).toEqual([]);
  });

  it.each([
    ['[{ argument: "n", key: "steps" }]', 'must return a list of { argument, key, value }'],
    ['({ steps: 1 })', 'must return a list of { argument, key, value }'],
    ['null.x', 'failed: Cannot read properties of null'],
  ])('refuses %s in one line', async (returned, message) => {
    const error = (await settingsOf(`export const trainingSettings = () => (${returned});`).catch((thrown: unknown) => thrown)) as Error;
    expect([error.name, error.message.split('\n').length]).toEqual(['ConfigError', 1]);
    expect(error.message).toContain(message);
  });

  it('refuses an export that is not a function', async () => {
    await expect(settingsOf('export const trainingSettings = 3;')).rejects.toThrow('exports trainingSettings, but it is not a function');
  });
});
