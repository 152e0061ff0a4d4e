import { join } from 'node:path';
import { type Environment, loadEnvironment } from 'vf-search';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { assertTrainable } from '../../../src/sessions/training/assert-trainable.ts';
import { RunImages } from '../../../src/files/run-images.ts';

const ROOT = join(import.meta.dirname, '../../..');
const SQUARES = join(ROOT, 'recipes/vlm/squares');
const RUN = { rollouts: { examplesPerStep: 12 }, steps: 1, rolloutsFile: null, source: null };

describe('assertTrainable', () => {
  let environment: Environment;
  beforeAll(async () => {
    const file = (name: string) => join(SQUARES, name);
    const args = { dataset: file('train.jsonl'), pages: file('pages.jsonl'), images: file('images') };
    environment = await loadEnvironment('visual-rag', args, { images: new RunImages(), purpose: 'training' });
  });
  afterAll(() => environment.close());

  const trains = (path: string) => assertTrainable(environment, { ...RUN, model: { path } } as Parameters<typeof assertTrainable>[1]);

  it('accepts a model with a vision tower where the environment shows images', async () => {
    await expect(trains(join(ROOT, 'recipes/vlm/model'))).resolves.toBeUndefined();
  });

  it('refuses a text model there in one line', async () => {
    await expect(trains(join(ROOT, 'packages/vf-search-models/models/nano-coder'))).rejects.toThrow(
      /^visual-rag shows images, and .*nano-coder cannot see them\. Use a vision-language model/,
    );
  });
});
