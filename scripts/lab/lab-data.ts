/**
 * The data that the lab page needs in addition to code, weights and kernels: the settings of `vf-train search-r1 --preset laptop`, the rows of the fact world and
 * its passages.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { loadQuestions } from 'vf-search/environment-kit';
import { parseArguments } from '../../environments/search-r1/arguments.ts';
import { environmentOptions } from '../../environments/search-r1/load-environment.ts';
import { presetNamed } from '../../src/sessions/environment/presets.ts';
import { presetLayer } from '../../src/trainer/config/preset.ts';
import { resolveTrainingConfig } from '../../src/trainer/config/resolve-config.ts';
import type { LabData } from '../../web/lab/compute/lab-data.ts';

const ROOT = join(import.meta.dirname, '../..');
const ENVIRONMENT = 'search-r1';
/** The held-out questions are asked once, every three steps: a live curve that costs a third of the time. */
const EVALUATION = { every: 3, rollouts_per_example: 1 };

/** @param settings in snake_case; they override those of the preset. */
export async function labData(settings: Readonly<Record<string, unknown>> = { evaluation: EVALUATION }): Promise<LabData> {
  const layers = [presetLayer(presetNamed('laptop', ENVIRONMENT)), { source: 'the lab', table: settings }];
  const { config } = resolveTrainingConfig(layers);
  const { args, evalArgs } = config.environment;
  const data: LabData = {
    // The name of the base in the adapter, as in a run from this package's folder.
    config: { ...config, model: { ...config.model, path: `models/${config.model.path}` } },
    environment: await optionsOf(args, 'training'),
    evaluation: await optionsOf({ ...args, ...evalArgs }, 'evaluation'),
    passages: linesOf('corpus.jsonl').map(({ id, contents }) => ({ id: String(id), contents: String(contents) })),
  };
  const sent: unknown = JSON.parse(JSON.stringify(data));
  if (!isDeepStrictEqual(sent, data)) throw new Error('The settings of the lab hold a value that JSON cannot hold');
  return data;
}

async function optionsOf(args: Readonly<Record<string, unknown>>, purpose: 'training' | 'evaluation'): Promise<LabData['environment']> {
  const parsed = parseArguments(args);
  const { rows, trainRows } = await loadQuestions(parsed, { env: {}, purpose });
  return environmentOptions(parsed, { rows, ...(trainRows === undefined ? {} : { trainRows }) });
}

function linesOf(name: string): readonly Readonly<Record<string, unknown>>[] {
  const text = readFileSync(join(ROOT, 'datasets/fact-world', name), 'utf8');
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}
