import { join } from 'node:path';
import { type Environment, loadEnvironment } from 'vf-search';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { assertTrainable } from '../../../src/sessions/training/assert-trainable.ts';
import { RunImages } from '../../../src/files/run-images.ts';

const ROOT = join(import.meta.dirname, '../../..');
const SQUARES = join(ROOT, 'recipes/vlm/squares');
const ATTENTION = ['q_proj', 'k_proj', 'v_proj', 'o_proj'];
const RUN = {
  lora: { targets: [...ATTENTION, 'up_proj'] },
  rollouts: { examplesPerStep: 12, maxTokens: null },
  steps: 1,
  rolloutsFile: null,
  source: null,
};

describe('assertTrainable', () => {
  let environment: Environment;
  beforeAll(async () => {
    const file = (name: string) => join(SQUARES, name);
    const args = { dataset: file('train.jsonl'), pages: file('pages.jsonl'), images: file('images') };
    environment = await loadEnvironment('visual-rag', args, { images: new RunImages(), purpose: 'training' });
  });
  afterAll(() => environment.close());

  const trains = (path: string) => assertTrainable(environment, { ...RUN, model: { path } } as unknown as Parameters<typeof assertTrainable>[1]);

  it('accepts a model with a vision tower where the environment shows images', async () => {
    await expect(trains(join(ROOT, 'recipes/vlm/model'))).resolves.toBeUndefined();
  });

  it('refuses an adapter on the experts of a mixture, known by its name or its config.json, and names the layers that it can have', async () => {
    const experts = 'Qwen/Qwen3-30B-A3B';
    await expect(trains(experts)).rejects.toThrow(
      'Qwen3-30B-A3B is a mixture of 128 experts, and the trainer cannot adapt experts (up_proj in lora.targets). Train a dense model, or the attention alone: lora.targets = ["q_proj", "k_proj", "v_proj", "o_proj"].',
    );
    const run = { ...RUN, lora: { targets: ATTENTION }, model: { path: experts } };
    await expect(assertTrainable(environment, run as unknown as Parameters<typeof assertTrainable>[1])).resolves.toBeUndefined();
  });

  it('refuses a limit of new tokens that leaves the window no room for a prompt', async () => {
    const run = { ...RUN, rollouts: { ...RUN.rollouts, maxTokens: 2048 }, model: { path: join(ROOT, 'models/nano-base') } };
    await expect(assertTrainable(environment, run as unknown as Parameters<typeof assertTrainable>[1])).rejects.toThrow(
      /^rollouts.max_tokens is 2,048, but .*nano-base has a window of 2,048 tokens for prompt and generation together/,
    );
  });

  it('refuses a text model there in one line', async () => {
    await expect(trains(join(ROOT, 'packages/vf-search-models/models/nano-coder'))).rejects.toThrow(
      /^visual-rag shows images, and .*nano-coder cannot see them\. Use a vision-language model/,
    );
  });
});
