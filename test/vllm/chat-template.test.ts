/** A real vLLM and the client's own tokenizer give the same ids, with a template of the model and without one. */
import { join } from 'node:path';
import { describe, expect, inject, it } from 'vitest';
import { VllmServer } from '../../src/clients/vllm-server.ts';
import { VllmTokenizer } from '../../src/clients/vllm-tokenizer.ts';
import { Random } from '../../src/core/random.ts';
import { openLocalTokenizer } from '../../src/tokenizer/local-tokenizer.ts';
import { answersOf } from '../tokenizer/same-ids.ts';
import { published, templateSource } from '../tokenizer/template-models.ts';

const NANO = join(import.meta.dirname, '../models/nano-base');
const signal = new AbortController().signal;

function tokenizerOf(url: string) {
  const server = new VllmServer({ baseUrl: url, random: Random.fromSeed(0) });
  return { tokenizer: new VllmTokenizer().at({ server, model: 'nano-base', signal }), [Symbol.asyncDispose]: () => server.close() };
}

describe('VllmTokenizer', () => {
  it('gives the ids of the local tokenizer where the model has no template', async () => {
    await using opened = tokenizerOf(inject('vllmUrl'));
    const [ours, theirs] = [await answersOf(await openLocalTokenizer(NANO)), await answersOf(opened.tokenizer)];
    expect(theirs).toEqual(ours);
    expect(ours.whole.neutralised).toBeGreaterThan(3);
    expect(ours.whole.ids.slice(-ours.bridge.ids.length)).toEqual(ours.bridge.ids);
  });

  describe('of a server with the template of Qwen3.5', () => {
    it('gives the ids of the local tokenizer with that template', async () => {
      await using opened = tokenizerOf(inject('vllmTemplateUrl'));
      const template = { chatTemplate: templateSource(published('qwen-3-5')) };
      const [ours, theirs] = [await answersOf(await openLocalTokenizer(NANO, template)), await answersOf(opened.tokenizer)];
      expect(theirs).toEqual(ours);
      expect(ours.whole.neutralised).toBeGreaterThan(3);
      expect(ours.whole.ids.slice(-ours.bridge.ids.length)).toEqual(ours.bridge.ids);
    });

    it('passes on what the template says about a conversation that it refuses', async () => {
      await using opened = tokenizerOf(inject('vllmTemplateUrl'));
      const messages = [
        { role: 'user', content: 'Who?' },
        { role: 'system', content: 'Be brief.' },
      ] as const;
      await expect(opened.tokenizer.render(messages)).rejects.toThrow(
        /chat template rejected the conversation.*System message must be at the beginning/s,
      );
    });
  });
});
