/** vf-train with a model that has no chat template and no tokens of ChatML, as base models do. */
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { NANO_PATH, nanoServer } from '../../server/policy/nano-server.ts';
import { TrainFolder } from '../../vllm/train-process.ts';

it('an environment in continuation format is trained on a model without a chat template', async () => {
  using folder = new TrainFolder();
  const model = join(folder.path, 'model');
  cpSync(NANO_PATH, model, { recursive: true });
  for (const name of ['tokenizer.json', 'tokenizer_config.json']) {
    const path = join(model, name);
    writeFileSync(path, readFileSync(path, 'utf8').replaceAll('<|im_start|>', '<|from|>').replaceAll('<|im_end|>', '<|to|>'));
  }
  await using server = await nanoServer({ engine: { modelPath: model } });
  const settings = ['evaluation.every=0', 'rollouts.examples_per_step=2'].flatMap((each) => ['--set', each]);
  const args = ['search-r1', '--preset', 'laptop', '-b', server.url, '-m', model, '--steps', '1', '-o', '.', ...settings];
  expect(await folder.start(args).ended).toMatchObject({ code: 0 });
}, 180_000);
