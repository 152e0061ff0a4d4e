import { expect, it } from 'vitest';
import type { StepResult } from '../../src/core/environment.ts';
import { checkedStep } from '../../src/rollouts/checked-step.ts';

const STEP: StepResult = { observation: null, stop: null };

it.each<[object, string]>([
  [{ rewards: 1 }, '"rewards" (did you mean reward?)'],
  [{ turn_reward: 1 }, '"turn_reward"'],
])('checkedStep names a key that would be lost: %j', (more, named) => {
  expect(() => checkedStep({ ...STEP, ...more })).toThrow(`step returned the key ${named}. It may return observation, stop, next, reward`);
  expect(checkedStep({ ...STEP, reward: 1 })).toEqual({ ...STEP, reward: 1 });
});
