import { describe, expect, it } from 'vitest';
import { scheduledValue } from '../../../src/trainer/config/training-schedule.ts';

const schedule = { peak: 1, floor: 0.1, warmupSteps: 4, steps: 14 };
const steps = (shape: 'constant' | 'linear' | 'cosine') => Array.from({ length: 16 }, (_, step) => scheduledValue({ ...schedule, shape }, step));

describe('scheduledValue', () => {
  it('rises linearly to the peak, never from 0, then stays', () => {
    expect(steps('constant')).toEqual([0.25, 0.5, 0.75, 1, ...Array.from({ length: 12 }, () => 1)]);
  });

  it('falls linearly to the floor and stays there', () => {
    const values = steps('linear');
    expect(values.slice(4, 6)).toEqual([1, expect.closeTo(0.91, 12)]);
    expect(values[9]).toBeCloseTo(0.55, 12);
    expect(values.slice(14)).toEqual([0.1, 0.1]);
  });

  it('falls along half a cosine: slow, fast, slow', () => {
    const values = steps('cosine');
    expect(values[9]).toBeCloseTo(0.55, 12);
    expect(values[4]! - values[5]!).toBeLessThan(values[8]! - values[9]!);
    expect(values[14]).toBeCloseTo(0.1, 12);
  });

  it('works without a warm-up, and with nothing but a warm-up', () => {
    expect(scheduledValue({ ...schedule, shape: 'linear', warmupSteps: 0 }, 0)).toBe(1);
    expect(scheduledValue({ ...schedule, shape: 'cosine', warmupSteps: 3, steps: 3 }, 3)).toBe(1);
  });
});
