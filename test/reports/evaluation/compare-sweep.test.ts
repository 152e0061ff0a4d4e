import { describe, expect, it } from 'vitest';
import { noPaint } from '../../../src/reports/text/paint.ts';
import { sweepText } from '../../../src/reports/evaluation/compare-sweep.ts';
import type { Comparison } from '../../../src/schemas/comparison.ts';

const mcnemar = { onlyFirst: 0, onlySecond: 6, p: 0.03, pAdjusted: 0.03 };

/** Only the parts that the text shows. */
function textOf(test: object | null): string {
  const sides = ['A', 'B'].map((name) => ({ name, mean: null, directory: `/runs/${name}`, envId: 'capitals' }));
  const comparison = { sides, rows: 6, pairs: [{ difference: null, mcnemar: test }] } as unknown as Comparison;
  const runs = sides.map(({ name, directory }) => ({ name: `run ${name}`, directory }));
  return sweepText({ runs, comparison }, { columns: 100, paint: noPaint });
}

describe('sweepText', () => {
  it("names McNemar's test where a pair has it, and only there", () => {
    expect(textOf(mcnemar)).toMatch(/ p +run\n[^]*\np: McNemar's test, corrected for 1 comparison; what differs and where:\n/);
    expect(textOf(null)).toMatch(/against A +run\n[^]*\nWhat differs and where:\n/);
  });
});
