import { describe, expect, it } from 'vitest';
import { readModelShape } from '../../src/launch/model-shape.ts';
import { stepTime, type StepLoad } from '../../src/launch/step-estimate.ts';

const LOAD: StepLoad = {
  shape: readModelShape('Qwen3-4B')!,
  rollouts: 512,
  contextTokens: 4596,
  passes: 1,
  workers: 1,
  samplers: 1,
  isSequential: true,
};

describe('stepTime', () => {
  it('is the arithmetic of docs/gpu-training.md, section 8', () => {
    const time = stepTime(LOAD);
    expect([Math.round(time.train), Math.round(time.sample!), Math.round(time.step)]).toEqual([123, 21, 145]);
    expect([time.rolloutTokens, time.sampledTokens]).toEqual([1500, 400]);
  });

  it('is divided by workers and samplers, is the longer of both if they overlap, and counts training alone if others sample', () => {
    const { train, sample } = stepTime(LOAD);
    const four = stepTime({ ...LOAD, workers: 4, samplers: 4, isSequential: false });
    expect(four.train).toBeCloseTo(train / 4);
    expect(four.sample).toBeCloseTo(sample! / 4);
    expect(four.step).toBe(four.train);
    expect(stepTime({ ...LOAD, passes: 2 }).train).toBeCloseTo(2 * train);
    expect(stepTime({ ...LOAD, samplers: 0 })).toMatchObject({ sample: null, step: train });
  });
});
