/** How a trajectory with pictures meets the faults of its servers: forgetting, restarts, replicas that go, prompts that no server takes. */
import { describe, expect, it } from 'vitest';
import type { GenerateRequest, TokenLease } from '../../src/clients/policy-client.ts';
import { PolicyError, PrefixBreakError, PromptTooLongError } from '../../src/core/errors.ts';
import type { ImageRef, Message } from '../../src/core/message.ts';
import { TokenBuffer } from '../../src/core/token-buffer.ts';
import { openVlm, rulesOf, vlmPictures } from '../images/vlm-client.ts';
import { type ImageServer, imageServer } from '../loopback/image-server.ts';
import { loopback, readText, sendJson } from '../transport/loopback.ts';

const FORM = 'qwen3_vl';
const { unit } = rulesOf(FORM);
const { store, images } = await vlmPictures(FORM);
const [first, second, third] = images as readonly [ImageRef, ImageRef, ImageRef];
const { signal } = new AbortController();

const showing = (...shown: readonly ImageRef[]): Message => ({ role: 'user', content: shown.map((image) => ({ type: 'image', image })) });
const uploads = (bodies: readonly string[]) => bodies.map((body) => body.split('data:image/png').length - 1);
const generations = ({ generations: bodies }: ImageServer) => uploads(bodies);

async function open(urls: string | readonly string[], more = {}) {
  const { client } = await openVlm(urls, FORM, { store }, { maxRetries: 0, ...more });
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() });
}

/** Grows one trajectory by a turn with each call. */
class Trajectory {
  readonly buffer = new TokenBuffer();
  #history: readonly Message[] = [];
  readonly #lease: TokenLease;
  constructor(lease: TokenLease) {
    this.#lease = lease;
  }

  async turn(...shown: readonly ImageRef[]): Promise<void> {
    const { buffer } = this;
    const next = showing(...shown);
    const { ids, images: placed } = buffer.length === 0 ? await this.#lease.render([next]) : await this.#lease.renderNext(this.#history, [next]);
    buffer.appendGiven(buffer.length === 0 ? 'prompt' : 'observation', ids, placed);
    const request = { prompt: buffer.ids, images: buffer.images, sampling: { temperature: 1, topP: 1 }, maxNewTokens: 3, stop: [], signal };
    const sample = await this.#lease.generate(request);
    buffer.commit(sample, sample.text.length, 0, { keepsEnd: true });
    this.#history = [...this.#history, next, { role: 'assistant', content: sample.text }];
  }
}

async function ask(lease: TokenLease, message: Message, more: Partial<GenerateRequest<Int32Array>> = {}) {
  const { ids, images: placed } = await lease.render([message]);
  return lease.generate({ prompt: ids, images: placed, sampling: { temperature: 1, topP: 1 }, maxNewTokens: 3, stop: [], signal, ...more });
}

describe('VllmLease with pictures', () => {
  it('sends each picture once over all turns and all trajectories', async () => {
    await using server = await imageServer({ form: FORM });
    await using client = await open(server.url);
    for (let i = 0; i < 2; i++) {
      await using lease = await client.lease(signal);
      const trajectory = new Trajectory(lease);
      await trajectory.turn(first);
      await trajectory.turn(second, first);
      await trajectory.turn(third);
    }
    expect(generations(server)).toEqual([1, 1, 1, 0, 0, 0]);
  });

  it('sends all pictures of the prompt again to a server that was restarted between two turns, and goes on', async () => {
    await using server = await imageServer({ form: FORM });
    await using client = await open(server.url);
    await using lease = await client.lease(signal);
    const trajectory = new Trajectory(lease);
    await trajectory.turn(first);
    await trajectory.turn(second);
    server.forget();
    await trajectory.turn(third);
    await trajectory.turn(first);
    // The third turn is refused for the first picture, then sent with all three.
    expect(generations(server)).toEqual([1, 1, 1, 3, 0]);
    expect(trajectory.buffer.images).toHaveLength(4);
  });

  it('shows a picture twice in one prompt, also to a server that has none of it', async () => {
    await using server = await imageServer({ form: FORM });
    await using client = await open(server.url);
    await using lease = await client.lease(signal);
    const trajectory = new Trajectory(lease);
    await trajectory.turn(first, first);
    await trajectory.turn(second);
    server.forget();
    await trajectory.turn(first);
    expect(generations(server)).toEqual([2, 1, 0, 4]);
  });

  it('fails after one more attempt where the server misses a picture that was sent', async () => {
    const message = 'Cache miss for image at index 0 but data is not provided.';
    const seen: string[] = [];
    await using working = await imageServer({ form: FORM });
    await using server = await loopback(async (request, response) => {
      const text = await readText(request);
      if (request.url === '/inference/v1/generate') {
        seen.push(text);
        sendJson(response, 400, { error: { message } });
        return;
      }
      const answer = await fetch(`${working.url}${request.url}`, { method: 'POST', body: text });
      response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
    });
    await using client = await open(server.url);
    await using lease = await client.lease(signal);
    await expect(ask(lease, showing(first))).rejects.toThrow(message);
    expect(uploads(seen)).toEqual([1, 1]);
  });

  it('goes on at another replica when its own is gone, and sends that one every picture', async () => {
    const one = await imageServer({ form: FORM });
    await using other = await imageServer({ form: FORM });
    await using client = await open([one.url, other.url]);
    await using lease = await client.lease(signal);
    const trajectory = new Trajectory(lease);
    await trajectory.turn(first);
    await trajectory.turn(second);
    await one[Symbol.asyncDispose]();
    await trajectory.turn(third);
    await trajectory.turn(first);
    expect([generations(one), generations(other)]).toEqual([
      [1, 1],
      [3, 0],
    ]);
  });

  it('sends text without pictures over the route of completions', async () => {
    await using server = await imageServer({ form: FORM });
    await using client = await open(server.url);
    await using lease = await client.lease(signal);
    await ask(lease, { role: 'user', content: 'Hello' });
    expect(server.generations).toEqual([]);
    expect(server.requests).toContain('POST /v1/completions');
  });

  it('throws PrefixBreakError for a picture that has another size than its reference says', async () => {
    await using server = await imageServer({ form: FORM });
    await using client = await open(server.url);
    await using lease = await client.lease(signal);
    const odd = await store.put(await store.get(first), { mediaType: 'image/png', width: 6 * unit, height: 5 * unit });
    await expect(ask(lease, showing(odd))).rejects.toThrow(PrefixBreakError);
  });

  it('throws PrefixBreakError for a server whose bounds of pixels changed after the probe', async () => {
    await using server = await imageServer({ form: FORM, bounds: { minPixels: unit * unit, maxPixels: 6 * unit * unit } });
    await using client = await open(server.url);
    await using lease = await client.lease(signal);
    await expect(ask(lease, showing(first))).rejects.toThrow(/12 tokens.*bounds that it had at the start of the run/);
  });

  it('says that a torn picture cannot be decoded', async () => {
    await using server = await imageServer({ form: FORM });
    await using client = await open(server.url);
    await using lease = await client.lease(signal);
    const torn = await store.put((await store.get(first)).subarray(0, 20), { mediaType: 'image/png', width: unit * 4, height: unit * 3 });
    await expect(ask(lease, showing(torn))).rejects.toThrow(
      /cannot decode an image of the prompt: .*Check that the environment shows whole PNG, JPEG or WebP files\.$/,
    );
    await using again = await client.lease(signal);
    await expect(ask(again, showing(torn))).rejects.toThrow(/cannot decode an image/);
    // It does not count as sent.
    expect(generations(server)).toEqual([1, 1]);
  });

  it('names the limit for more pictures than the server takes, without a request', async () => {
    await using server = await imageServer({ form: FORM });
    await using client = await open(server.url);
    await using lease = await client.lease(signal);
    await expect(ask(lease, showing(...images.slice(0, 17)))).rejects.toThrow(/holds 17 images, but the server takes at most 16/);
    expect(server.generations).toEqual([]);
  });

  it('turns a prompt whose pictures fill the window into PromptTooLongError', async () => {
    await using server = await imageServer({ form: FORM, maxModelLen: 100 });
    await using client = await open(server.url, { capabilities: { ...capabilitiesOf(100) } });
    await using lease = await client.lease(signal);
    await expect(ask(lease, showing(...images.slice(0, 9)))).rejects.toThrow(PromptTooLongError);
  });

  it('says in one line that the route is missing', async () => {
    await using server = await imageServer({ form: FORM, hasRoute: false });
    await using client = await open(server.url);
    await using lease = await client.lease(signal);
    const asked = ask(lease, showing(first));
    await expect(asked).rejects.toThrow(PolicyError);
    await expect(asked).rejects.toThrow(/^[^\n]*inference\/v1\/generate[^\n]*$/);
  });
});

function capabilitiesOf(maxModelLen: number) {
  const traits = { tokenizerHash: null, logProbsMode: 'raw', chatTemplate: 'model', beginsWithBos: false, closingTokenId: 1588 } as const;
  return { maxModelLen, ...traits, images: true, imageTokens: rulesOf(FORM) };
}
