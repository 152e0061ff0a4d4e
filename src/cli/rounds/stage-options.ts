/** Options of several commands of `vf-rounds`. */
import type { Measure } from '../../rounds/curate-stages.ts';
import { file, flag, oneOf, text, texts } from '../options/kinds.ts';
import { MAX_WAIT } from '../options/shared-options.ts';
import { roles } from '../options/table-kinds.ts';

export const TRACE = { trace: texts("a run's trace.jsonl", { placeholder: 'FILE', required: true, completion: 'files' }) };

export function rowsOption(rows: string) {
  return text(`${rows}: JSONL, Parquet, or a data set of the package (its split train)`, {
    placeholder: 'FILE',
    required: true,
    completion: 'files',
  });
}

export function outputOption(description: string) {
  return file(description, { letter: 'o', required: true });
}

const MEASURES = ['ndcg', 'judge', 'reward'] as const satisfies readonly Measure[];

export function measureOption(preset: Measure) {
  return oneOf(MEASURES, 'the score whose mean decides', { default: preset });
}

export const EXCLUDE = 'a list of rows to leave out';

export function leaveOutOption(description: string) {
  return flag(`${description}, instead of refusing them`);
}

/** The options that name the model of a stage. */
export function modelOptions(role: 'vetter' | 'rewriter') {
  return {
    role: roles(`the model: ${role}=ALIAS, ${role}=URL or ${role}=MODEL@URL; or a key of [roles.${role}]: ${role}.max_tokens=4096`),
    ...MAX_WAIT,
    config: file(`a TOML file with a table [roles.${role}]: limits, key, cache`),
  };
}
