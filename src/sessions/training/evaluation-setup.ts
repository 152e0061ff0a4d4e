/** What the evaluations of a training are played with, as one number that each records. Rewards under two numbers have different scales. */
import { createHash } from 'node:crypto';
import { canonicalJson } from '../../core/canonical-json.ts';
import { flattenedSettings } from '../../core/setting-differences.ts';
import type { TrainingConfigWire } from '../../schemas/training-config.ts';
import type { NamedInputs } from '../named-inputs.ts';

/** Settings on which the reward of an evaluation depends, and under which the files that they name are recorded. Where a role is served, and how fast, is none. */
const EVALUATED = /^(?:environment\..+|roles\.[^.]+\.(?:use|model)|evaluation\.(?:temperature|examples)|rollouts\.(?:temperature|max_tokens))$/;
/** Small enough for every program that draws curves. */
const HEX_DIGITS = 6;

/** True for a setting on which the reward of an evaluation depends. */
export function isEvaluated(key: string): boolean {
  return EVALUATED.test(key);
}

/** @param inputs digests of the files that the settings name */
export function evaluationSetup(wire: TrainingConfigWire, inputs: NamedInputs): number {
  const isDecided = wire.evaluation.temperature !== null;
  const settings = flattenedSettings(wire).filter(([key]) => isEvaluated(key) && !(isDecided && key === 'rollouts.temperature'));
  const files = Object.entries(inputs).filter(([key]) => isEvaluated(key));
  const text = canonicalJson({ settings: Object.fromEntries(settings), files: Object.fromEntries(files) });
  return parseInt(createHash('sha256').update(text).digest('hex').slice(0, HEX_DIGITS), 16);
}
