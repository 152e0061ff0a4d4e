import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { trainingConfigDoc } from '../../../scripts/training-config-doc.ts';
import { configKeys, configTable } from '../../../src/schemas/config-keys.ts';
import { roleTableSchema } from '../../../src/schemas/roles-config.ts';
import { lossTableSchema } from '../../../src/schemas/training-algorithm-config.ts';
import { trainingConfigSchema } from '../../../src/schemas/training-config.ts';
import { bundledPresets } from '../../../src/sessions/environment/presets.ts';

const committed = readFileSync(join(import.meta.dirname, '../../../docs/training-config.md'), 'utf8');

describe('docs/training-config.md', () => {
  it('is what scripts/training-config-doc.ts writes: run it after a change', () => {
    expect(committed).toBe(trainingConfigDoc());
  });

  it('has every key and every preset', () => {
    for (const { name } of configKeys(configTable(trainingConfigSchema))) expect(committed).toContain(`| \`${name}\` |`);
    for (const { name } of [lossTableSchema, roleTableSchema].flatMap((table) => configKeys(configTable(table))))
      expect(committed).toContain(`| \`${name}\` |`);
    for (const heading of ['losses', 'roles']) expect(committed).toContain(`### \`[${heading}.<`);
    for (const { name } of bundledPresets()) expect(committed).toContain(`--preset ${name}\``);
  });
});

describe('configTable', () => {
  it('describes every key, and gives a default to all but the two that have none', () => {
    const keys = configKeys(configTable(trainingConfigSchema));
    expect(keys.filter(({ description }) => description.length < 4).map(({ path }) => path)).toEqual([]);
    expect(keys.filter(({ schema }) => schema.default === undefined).map(({ path }) => path)).toEqual(['environment.id', 'model.path']);
  });
});

describe('bundledPresets()', () => {
  it('state differences for keys that are in the schema, and for things that have no key', () => {
    const keys = configKeys(configTable(trainingConfigSchema)).map(({ path }) => path);
    const others = bundledPresets()
      .flatMap(({ differences }) => differences.map(({ key }) => key))
      .filter((key) => !keys.includes(key) && !key.startsWith('environment.args.'));
    expect([...new Set(others)].toSorted()).toEqual([
      'a solution in a wrong format',
      'agreement',
      'algorithm.loss.args.log_ratio_clamp',
      'banned words',
      'box after a crop',
      'creativity',
      'determinism',
      'environment',
      'functions within the function',
      'grading prompt',
      'groups',
      'out of memory',
      'roles.generator',
      'roles.judge',
      'seed programs',
      'steps beyond the last',
      'the longest prompt',
      'the mask',
      'the turn that the environment writes',
      'top_p',
      'trajectory lengths',
      'values',
      'verdicts',
    ]);
  });

  it('state their own values next to those of upstream', () => {
    for (const { table, differences } of bundledPresets()) {
      const rate = (table as { optimizer: { learning_rate: number } }).optimizer.learning_rate;
      const stated = differences.find(({ key }) => key === 'optimizer.learning_rate');
      expect(stated === undefined ? rate : Number(stated.ours)).toBe(rate);
    }
  });
});
