import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/data/package-root.ts';
import { limoRows } from '../../src/data/limo-rows.ts';

const lines = readFileSync(join(packageRoot(), 'datasets/worked-problems/train.jsonl'), 'utf8').trimEnd().split('\n');
const read = limoRows(lines.map((line) => JSON.parse(line) as unknown));
const rows = 'rows' in read ? read.rows : [];

/** What each problem asks, computed. */
const ANSWERS: [about: RegExp, answer: () => string][] = [
  [
    /divisible by 3 or by 5, but not by both/,
    () => String(Array.from({ length: 1000 }, (_, i) => i + 1).filter((n) => (n % 3 === 0) !== (n % 5 === 0)).length),
  ],
  [/7 to the power of 2026/, () => String(7n ** 2026n % 100n)],
  [
    /f\('40712'\)/,
    () => {
      const a = `${Array.from('40712').toReversed().slice(1).join('')}9`;
      return `'${a.slice(2)}${a.slice(0, 2)}'`;
    },
  ],
  [/returned 15/, () => String(Array.from({ length: 30 }, (_, n) => n).find((n) => ((n * 3 + 4) % 11) + 8 === 15))],
  [/f\(2026\)/, () => String((2026).toString(2).replaceAll('0', '').length)],
];

describe('worked-problems', () => {
  it('has five rows in the shape of LIMO, all usable', () => {
    expect(read).toMatchObject({ skipped: 0 });
    expect(rows).toHaveLength(5);
  });

  it.each(ANSWERS)('has the right answer to the problem about %s', (about, answer) => {
    const [row, ...others] = rows.filter(({ prompt: [{ content }] }) => about.test(content));
    expect(others).toEqual([]);
    expect(row!.answer).toBe(answer());
  });

  it('has solutions that think for a hundred words and more, and reach the answer', () => {
    for (const { solution, answer } of rows) {
      expect(solution.split(/\s+/).length).toBeGreaterThan(100);
      expect(solution).toContain(answer.replaceAll("'", ''));
    }
  });
});
