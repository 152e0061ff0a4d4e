/** vf-train with a model that has no chat template and no tokens of ChatML, as base models do. */
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { NANO_PATH, nanoServer } from '../../server/policy/nano-server.ts';
import { TrainFolder } from '../../vllm/train-process.ts';

/** Its rewards nearly always differ, and a server samples with other random numbers each time: a step whose rewards are equal leaves a run without a result. */
const TOY = join(import.meta.dirname, 'toy-with-faults.ts');

/** The nano model with other names for the tokens of ChatML. */
function baseModel(folder: TrainFolder): string {
  const model = join(folder.path, 'model');
  cpSync(NANO_PATH, model, { recursive: true });
  for (const name of ['tokenizer.json', 'tokenizer_config.json']) {
    const path = join(model, name);
    writeFileSync(path, readFileSync(path, 'utf8').replaceAll('<|im_start|>', '<|from|>').replaceAll('<|im_end|>', '<|to|>'));
  }
  return model;
}

it('an environment in continuation format is trained on a model without a chat template', async () => {
  using folder = new TrainFolder();
  const model = baseModel(folder);
  await using server = await nanoServer({ engine: { modelPath: model } });
  const settings = ['evaluation.every=0', 'rollouts.max_tokens=16', 'backend.threads=1'].flatMap((each) => ['--set', each]);
  const args = [TOY, '-a', '{"turnFormat":"continuation"}', '--preset', 'laptop', '-b', server.url, '-m', model, '-n', '2', '-r', '4'];
  expect(await folder.runInProcess([...args, '--steps', '1', '-o', '.', ...settings]).ended).toMatchObject({ code: 0 });
}, 180_000);

it('transcripts are learned by such a model without a server', async () => {
  using folder = new TrainFolder();
  const segments = [
    { kind: 'model', text: '<search> the mayor of Aberdeen </search>' },
    { kind: 'environment', text: '\n\n<information>none</information>\n\n' },
    { kind: 'model', text: '<answer> none </answer>' },
  ];
  const rows = join(folder.path, 'rows.jsonl');
  writeFileSync(rows, `${JSON.stringify({ prompt: [{ role: 'user', content: 'Who is the mayor of Aberdeen?' }], segments })}\n`);
  const args = ['search-r1', '-m', baseModel(folder), '--sft', rows, '--steps', '0', '-o', '.'];
  const settings = ['sft.batch_size=1', 'sft.steps=1', 'backend.kind=embedded', 'backend.threads=1', 'environment.args.dataset=fact-world'].flatMap(
    (each) => ['--set', each],
  );
  expect(await folder.runInProcess([...args, ...settings]).ended).toMatchObject({ code: 0 });
}, 180_000);
