import { describe, expect, it } from 'vitest';
import { someConfig } from '../some-config.ts';
import { lowerRateFlags, scheduledValue } from '../../../src/trainer/config/training-schedule.ts';

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

describe('lowerRateFlags', () => {
  const flags = (learningRate: number, sft: object = {}, step = 3) =>
    lowerRateFlags(someConfig({ optimizer: { learning_rate: learningRate }, sft }), step).join(' ');

  it('sets a tenth of the rate, and a usual one in place of one that is far off', () => {
    expect(flags(4e-5)).toBe('--allow-changes --lr 4e-6');
    expect(flags(1e20)).toBe('--allow-changes --lr 0.001');
  });

  it('takes away a weight decay that alone makes the weights grow', () => {
    const config = (decay: number) => someConfig({ optimizer: { learning_rate: 0.001, weight_decay: decay } });
    expect(lowerRateFlags(config(1e30), 3)).toEqual(['--allow-changes', '--set', 'optimizer.weight_decay=0']);
    expect(lowerRateFlags(config(100), 3)).toEqual(['--allow-changes', '--lr', '1e-4']);
  });

  it('sets the rate of the supervised steps where they have their own', () => {
    const sft = { data: 'rows.jsonl', steps: 3 };
    expect(flags(0.01, { ...sft, learning_rate: 0.002 })).toBe('--allow-changes --set sft.learning_rate=2e-4');
    expect(flags(0.01, { ...sft, learning_rate: 0.002 }, 4)).toBe('--allow-changes --lr 0.001');
    expect(flags(0.01, sft)).toBe('--allow-changes --lr 0.001');
  });
});
