import { expect, it } from 'vitest';
import { withFlags } from '../../../src/cli/train/key-flags.ts';

it.each([
  ['Set backend.python to a Python', 'Set backend.python (--python) to a Python'],
  ['4 rows; lower rollouts.examples_per_step or train on more', '4 rows; lower rollouts.examples_per_step (-n) or train on more'],
  [
    'set policy.base_url, [policy.launch] or [policy.embedded].',
    'set policy.base_url (-b), [policy.launch] (--launch) or [policy.embedded] (--embedded).',
  ],
  ['set rollouts.temperature = 1, or sft.data=FILE', 'set rollouts.temperature = 1, or sft.data=FILE'],
  ['lower it, or set trainer.other to 3', 'lower it, or set trainer.other to 3'],
])('adds the flags of the keys to %j', (sentence, expected) => {
  expect(withFlags(sentence)).toBe(expected);
});
