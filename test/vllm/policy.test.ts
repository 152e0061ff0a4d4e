import { describe, expect, inject, it } from 'vitest';
import { probePolicy } from '../../src/clients/vllm-probe.ts';
import { TokenBuffer } from '../../src/core/token-buffer.ts';
import { policyClientContract } from '../contracts/policy-client.ts';
import { NANO_MODEL, NANO_TRAITS, openVllm } from '../loopback/vllm-client.ts';
import { largestLogProbError } from './prompt-logprobs.ts';

const url = inject('vllmUrl');
/** Its window has room for a generation that takes far longer than a request, on a busy machine too. */
const roomyUrl = inject('vllmTemplateUrl');
const LONG = 15_000;
const signal = new AbortController().signal;

policyClientContract('real vLLM', () => openVllm(url), NANO_TRAITS);

describe('a real vLLM', () => {
  it('is probed as a token policy', async () => {
    expect(await probePolicy({ baseUrl: url, model: null, signal })).toMatchObject({
      kind: 'tokens',
      model: NANO_MODEL,
      logProbsMode: 'raw',
      hasChatTemplate: false,
      chatTemplate: 'chatml',
      toolCalls: 'hermes',
      beginsWithBos: false,
      closingTokenId: 1539,
    });
  });

  it('gives the log-probs of a conversation again when it is asked to judge it, within 1e-4', async () => {
    await using opened = await openVllm(url);
    const buffers = await Promise.all(
      Array.from({ length: 8 }, async () => {
        await using lease = await opened.client.lease(signal);
        const buffer = new TokenBuffer();
        buffer.appendGiven('prompt', (await lease.render(NANO_TRAITS.messages, { format: 'continuation' })).ids);
        for (let turn = 0; turn < 4; turn++) {
          const request = { prompt: buffer.ids, sampling: { temperature: 1, topP: 1 }, maxNewTokens: 60, stop: ['</search>'], signal };
          const sample = await lease.generate(request);
          buffer.commit(sample, sample.text.length, 0);
          buffer.appendGiven('observation', await lease.encode('\n\n<information>Doc 1(Title: "Kinzer") 苏黎世 🙂 <|im_end|></information>\n\n'));
        }
        return buffer;
      }),
    );
    const errors = [];
    for (const buffer of buffers) errors.push(await largestLogProbError(url, NANO_MODEL, buffer));
    expect(errors.map(({ tokens }) => tokens > 0)).not.toContain(false);
    expect(Math.max(...errors.map(({ error }) => error))).toBeLessThan(1e-4);
  });

  it('aborts the generation of a client that leaves, so that the next one is served at once', async () => {
    await using opened = await openVllm(roomyUrl);
    await using lease = await opened.client.lease(signal);
    const prompt = (await lease.render(NANO_TRAITS.messages, { format: 'continuation' })).ids;
    const sampling = { temperature: 1, topP: 1, extra: { ignore_eos: true } };
    const before = await metric('generation_tokens_total');
    const leaving = new AbortController();
    const left = lease.generate({ prompt, sampling, maxNewTokens: LONG, stop: [], signal: leaving.signal });
    // A round trip on another connection: the generation has reached the server by then.
    await lease.encode('meanwhile');
    leaving.abort();
    await expect(left).rejects.toMatchObject({ name: 'CancelledError' });
    while ((await metric('num_requests_running')) > 0) await new Promise((resolve) => setTimeout(resolve, 50));
    expect((await metric('generation_tokens_total')) - before).toBeLessThan(LONG);
  });
});

/** One of the server's own figures, as it last reported it. */
async function metric(name: string): Promise<number> {
  // A connection of its own: the server closes idle ones after five seconds, also under a request that is on its way.
  const metrics = await (await fetch(`${roomyUrl.replace(/\/v1\/?$/, '')}/metrics`, { headers: { connection: 'close' } })).text();
  return Number(new RegExp(`^vllm:${name}\\{.*\\} ([\\d.e+]+)$`, 'm').exec(metrics)?.[1]);
}
