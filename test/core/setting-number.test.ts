import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { settingNumber, settingValue } from '../../src/core/setting-number.ts';

describe('settingNumber', () => {
  it.each([
    [1e20, '1e20'],
    [1e-7, '1e-7'],
    [4e-5, '4e-5'],
    [0.001, '0.001'],
    [1e6, '1e6'],
    [1234567, '1234567'],
    [16384, '16384'],
    [-2.5e21, '-2.5e21'],
    [0, '0'],
    [Infinity, 'Infinity'],
  ])('writes %d as %s', (value, text) => {
    expect(settingNumber(value)).toBe(text);
    expect(settingValue(value)).toBe(text);
  });

  it('parses to the same number {Number(settingNumber(x)) = x}', () => {
    const isKept = fc.property(fc.double({ noNaN: true }), (x) => Number(settingNumber(x)) === x);
    expect(fc.check(isKept).failed).toBe(false);
  });
});
