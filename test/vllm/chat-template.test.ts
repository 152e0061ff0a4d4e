/** A real vLLM and the client's own tokenizer give the same ids, with a template of the model and without one. */
import { join } from 'node:path';
import { describe, expect, inject, it } from 'vitest';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { probePolicy } from '../../src/clients/vllm-probe.ts';
import { VllmServer } from '../../src/clients/vllm-server.ts';
import { VllmTokenizer } from '../../src/clients/vllm-tokenizer.ts';
import { VllmTokensClient } from '../../src/clients/vllm-tokens.ts';
import { Random } from '../../src/core/random.ts';
import { templateVariables } from '../../src/core/sampling.ts';
import { assertReadFields } from '../../src/sessions/policy/assert-read-fields.ts';
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

    it.each([
      [{}, '<think>\n'],
      [{ chat_template_kwargs: { enable_thinking: false } }, '<think>\n\n</think>\n\n'],
      [{ reasoning_effort: 'none' }, '<think>\n\n</think>\n\n'],
    ])('hands it its fields, %j, and says what it writes into every turn', async (extra, opening) => {
      await using opened = tokenizerOf(inject('vllmTemplateUrl'));
      const variables = templateVariables({ extra });
      const first = await opened.tokenizer.render([{ role: 'user', content: 'Who?' }], { variables });
      const next = await opened.tokenizer.renderNext([{ role: 'user', content: 'Who?' }], [{ role: 'user', content: 'When?' }], { variables });
      expect([first.opening, next.opening]).toEqual([opening, opening]);
      for (const { ids } of [first, next]) expect((await opened.tokenizer.decode(ids)).endsWith(`<|im_start|>assistant\n${opening}`)).toBe(true);
    });

    it('lists the fields that its routes read, so that others are refused', async () => {
      const baseUrl = inject('vllmTemplateUrl');
      const { kind, model, ...capabilities } = await probePolicy({ baseUrl, model: 'nano-base', signal });
      const client = new VllmTokensClient({ baseUrls: [baseUrl], versions: new PolicyVersions({ version: 0, model }), capabilities });
      const target = { baseUrls: [baseUrl], apiKey: null, headers: {} };
      const check = (extra: object) =>
        assertReadFields({ sampling: { extra: { ...extra } }, client, target, where: 'vLLM', names: { name: () => '-S' }, signal });
      expect(kind).toBe('tokens');
      expect(await check({ top_k: 5, thinking_token_budget: 9, chat_template_kwargs: { enable_thinking: false } })).toEqual([]);
      await expect(check({ top_a: 0.2 })).rejects.toThrow('top_a in -S has no effect: /v1/completions of vLLM does not read it.');
      expect(await check({ chat_template_kwargs: { enable_thinkin: false } })).toEqual([expect.stringContaining('whatever enable_thinkin (-S) is')]);
      await client.close();
    });

    it('passes on what the template says about a conversation that it refuses', async () => {
      await using opened = tokenizerOf(inject('vllmTemplateUrl'));
      await expect(opened.tokenizer.render([{ role: 'assistant', content: 'Hm.' }])).rejects.toThrow(
        /chat template rejected the conversation.*No user query found/s,
      );
    });

    it('reads a later system message in its place, which the template refuses', async () => {
      await using opened = tokenizerOf(inject('vllmTemplateUrl'));
      const later = [
        { role: 'user', content: 'Who?' },
        { role: 'system', content: 'Be brief.' },
      ] as const;
      const read = [{ role: 'user', content: 'Who?\n\n<system-reminder>\nBe brief.\n</system-reminder>' }] as const;
      expect(await opened.tokenizer.render(later)).toEqual(await opened.tokenizer.render(read));
    });
  });
});
