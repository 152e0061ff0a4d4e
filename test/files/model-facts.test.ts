import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { adapterConfig, modelFacts } from '../../src/files/model-facts.ts';

const NOTHING = { config: null, contextLength: null, layers: null, vocabularySize: null, seesImages: false };

describe('modelFacts', () => {
  const folder = mkdtempSync(join(tmpdir(), 'vf-facts-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  const model = (given: string, config: string) => {
    const name = given.replaceAll(/[^\w. -]/g, '');
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, 'config.json'), config);
    return join(folder, name);
  };

  it('reads the language model, also where it has a table of its own', () => {
    const config = { max_position_embeddings: 4096, vocab_size: 512 };
    expect(modelFacts(model('text', JSON.stringify(config)))).toEqual({
      config,
      contextLength: 4096,
      layers: null,
      vocabularySize: 512,
      seesImages: false,
    });
    const nested = { text_config: config, vision_config: { depth: 2 } };
    expect(modelFacts(model('vision', JSON.stringify(nested)))).toEqual({
      config: nested,
      contextLength: 4096,
      layers: null,
      vocabularySize: 512,
      seesImages: true,
    });
  });

  it.each([
    [{ rope_scaling: { rope_type: 'yarn', factor: 4, original_max_position_embeddings: 1024 } }, 4096],
    [{ rope_scaling: { type: 'yarn', factor: 8, original_max_position_embeddings: 1024 } }, 8192],
    [{ rope_parameters: { rope_type: 'linear', factor: 2 } }, 8192],
    [{ rope_scaling: { rope_type: 'llama3', factor: 32, original_max_position_embeddings: 1024 } }, 4096],
    [{ rope_parameters: { rope_type: 'default', rope_theta: 1e6 } }, 4096],
    [{ text_config: { max_position_embeddings: 4096, rope_scaling: { type: 'dynamic', factor: 2 } } }, 8192],
  ])('scales the window as vLLM does: %j', (changes, length) => {
    const path = model(JSON.stringify(changes), JSON.stringify({ max_position_embeddings: 4096, ...changes }));
    expect(modelFacts(path).contextLength).toBe(length);
  });

  it('knows nothing of a hub id, of a broken file, and of sizes that are none', () => {
    for (const path of ['org/name', model('broken', '{"vocab_size": 5'), model('list', '[1]')]) expect(modelFacts(path)).toEqual(NOTHING);
    for (const size of [0, -1, 2.5, '"512"', null])
      expect(modelFacts(model(`size ${size}`, `{"vocab_size": ${size}}`))).toMatchObject({ vocabularySize: null });
    expect(adapterConfig('org/name')).toBeNull();
  });
});
