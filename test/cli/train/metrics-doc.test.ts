import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { metricsDoc } from '../../../scripts/metrics-doc.ts';
import { EVALUATION_METRICS, STEP_METRICS, VALIDATION_METRICS } from '../../../src/trainer/records/metrics.ts';
import { trainingRows } from './training-rows.ts';

const committed = readFileSync(join(import.meta.dirname, '../../../docs/metrics.md'), 'utf8');
const kinds = [
  ['Training steps', STEP_METRICS],
  ['Evaluations', EVALUATION_METRICS],
  ['Validations', VALIDATION_METRICS],
] as const;

describe('docs/metrics.md', () => {
  it('is what scripts/metrics-doc.ts writes: run it after a change', () => {
    expect(committed).toBe(metricsDoc());
  });

  it.each(kinds)('names and defines every metric of %s once', (kind, metrics) => {
    const section = committed.split(/^## /m).find((text) => `${text.split('\n')[0]}` === kind)!;
    const names = [...section.matchAll(/^\| `([^`]+)` \| [^|]* \| ./gm)].map(([, name]) => name);
    expect(names).toEqual(metrics.map(({ name }) => name));
    expect(new Set(names).size).toBe(names.length);
  });

  it('has no definition that says nothing, and none twice in a table', () => {
    for (const [, metrics] of kinds) {
      const definitions = metrics.map(({ definition }) => definition);
      expect(definitions.filter((text) => text.length < 8 || !text.endsWith('.'))).toEqual([]);
      expect(new Set(definitions).size).toBe(definitions.length);
    }
  });
});

describe('trainingRows', () => {
  it('has no name that metrics.ts does not define, so what the views read is what is written', () => {
    const known = { step: STEP_METRICS, evaluation: EVALUATION_METRICS, validation: VALIDATION_METRICS };
    for (const { kind, values } of trainingRows()) {
      const names = new Set(known[kind].map(({ name }) => name));
      expect(Object.keys(values).filter((name) => !names.has(name))).toEqual([]);
    }
  });
});
