/** The contract of publishing for a run with images, over a server of a vision-language model with LoRA routes and `/inference/v1/generate`. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ImageStore, PlacedImage } from '../../src/core/message.ts';
import type { AdapterDescription, AdapterManifest } from '../../src/trainer/gradient-backend.ts';
import type { LogProbProbe, PublishResult } from '../../src/trainer/weight-publisher.ts';
import { type Fault, loraProxy } from '../loopback/lora-proxy.ts';
import { PROBE_TOLERANCE, PublisherRun, type TestedServer } from '../trainer/publisher/publisher-run.ts';
import { sendJson } from '../transport/loopback.ts';

export interface PicturedServer extends TestedServer, AsyncDisposable {
  readonly adapter: AdapterDescription;
  readonly store: ImageStore;
  /** Ids with images among them, and at least 24 tokens behind the last. */
  readonly prompt: { readonly ids: Int32Array; readonly images: readonly PlacedImage[] };
  /** Id of an image's tokens. */
  readonly pad: number;
}

const GENERATE = '/inference/v1/generate';
const { signal } = new AbortController();

/** @param traits `ignoresTextNames`: the server takes an adapter under the names of a text model and does not apply it. Qwen2.5-VL applies it */
export function picturedPublisherContract(
  name: string,
  open: () => Promise<PicturedServer>,
  { ignoresTextNames }: { readonly ignoresTextNames: boolean },
): void {
  describe(`${name}: WeightPublisher contract with images`, () => {
    let server: PicturedServer;
    let run: PublisherRun;
    beforeAll(async () => {
      server = await open();
      run = new PublisherRun(server);
    }, 300_000);
    afterAll(async () => {
      run?.[Symbol.dispose]();
      await server?.[Symbol.asyncDispose]();
    });

    const publisher = (options: Parameters<PublisherRun['publisher']>[0] = {}) =>
      run.publisher({ adapter: server.adapter, images: server.store, ...options });
    const adapter = (b: number, seed = 1, of = server.adapter) => run.adapter({ b, seed, adapter: of });
    /** The server's own log-probs of the targets behind the images: all in one request, unlike the publisher's. */
    const picturedProbe = async (model: string): Promise<LogProbProbe> => {
      const { prompt, store, pad } = server;
      const inside = new Set(prompt.images.flatMap(({ offset, length }) => Array.from({ length: length - 1 }, (_, i) => offset + 1 + i)));
      const parts = await Promise.all(
        prompt.images.map(async (image) => {
          const bytes = Buffer.from(await store.get(image)).toString('base64');
          return { type: 'image_url', url: `data:${image.mediaType};base64,${bytes}` };
        }),
      );
      const { text } = await run.post(GENERATE, {
        model,
        token_ids: [...prompt.ids].filter((_, i) => !inside.has(i)),
        content_parts: parts,
        sampling_params: { max_tokens: 1, temperature: 0, prompt_logprobs: 0 },
        return_token_ids: true,
      });
      const { prompt_logprobs: judged } = JSON.parse(text) as { prompt_logprobs: (Record<string, { logprob: number }> | null)[] };
      const last = prompt.images.at(-1)!;
      const targets = Int32Array.from({ length: 24 }, (_, i) => last.offset + last.length + i);
      expect(targets.some((target) => prompt.ids[target] === pad)).toBe(false);
      const logProbs = Float32Array.from(targets, (target) => judged[target]![String(prompt.ids[target])]!.logprob);
      return { ...prompt, targets, logProbs, tolerance: PROBE_TOLERANCE };
    };
    const probesOf = async ({ directory }: AdapterManifest) =>
      run.byHand(directory, async (model) => ({ probe: await run.probe(model), pictured: await picturedProbe(model) }));

    it('compares a sequence of text and one with images, then switches', async () => {
      await using opened = publisher();
      const manifest = adapter(0.05, 2);
      const probes = await probesOf(manifest);
      const base = { probe: await run.probe(server.baseModel), pictured: await picturedProbe(server.baseModel) };
      for (const kind of ['probe', 'pictured'] as const)
        expect(meanDifference(probes[kind].logProbs, base[kind].logProbs)).toBeGreaterThan(100 * PROBE_TOLERANCE);
      const result = await opened.publish({ version: 1, manifest, ...probes }, signal);
      expect(result).toMatchObject({ ok: true, ref: { version: 1 } });
      expect((result as PublishResult & { ok: true }).report.probeMeanDifference).toBeLessThan(PROBE_TOLERANCE);
    });

    it('reads them from a prompt where the server filters the log-probs that it samples with', async () => {
      await using opened = publisher({ logProbsMode: 'processed' });
      const manifest = adapter(0.05, 4);
      expect(await opened.publish({ version: 1, manifest, ...(await probesOf(manifest)) }, signal)).toMatchObject({ ok: true });
    });

    it('keeps the old version where the log-probs differ behind images alone, and says so', async () => {
      await using opened = publisher();
      const manifest = adapter(0.05, 3);
      const { probe, pictured } = await probesOf(manifest);
      const halved = { ...pictured, logProbs: pictured.logProbs.map((value) => value / 2) };
      const result = await opened.publish({ version: 1, manifest, probe, pictured: halved }, signal);
      expect(messageOf(result)).toMatch(/differ from the trainer's by .* at most, over 24 tokens behind images; the adapter is applied/);
      expect(opened.versions.current().version).toBe(0);
      expect(await run.modelsOf(opened.runName)).toEqual([]);
    });

    it.runIf(ignoresTextNames)('refuses an adapter that the server takes and ignores, as Qwen3-VL does under the names of a text model', async () => {
      const renamed = {
        ...server.adapter,
        modules: server.adapter.modules.map((module) => ({ ...module, path: module.path.replace('language_model.', '') })),
      };
      await using opened = publisher({ adapter: renamed });
      const trained = await probesOf(adapter(0.05, 3));
      const result = await opened.publish({ version: 1, manifest: adapter(0.05, 3, renamed), ...trained }, signal);
      expect(messageOf(result)).toMatch(/the server returns the base's log-probs under the new name: the adapter is not applied.*Version 0/);
      const base = { probe: await run.probe(server.baseModel), pictured: await picturedProbe(server.baseModel) };
      // So wide a tolerance that the base passes too.
      const wide = (kind: 'probe' | 'pictured') => ({
        ...trained[kind],
        baseLogProbs: base[kind].logProbs,
        tolerance: 2 * meanDifference(trained[kind].logProbs, base[kind].logProbs),
      });
      const text = { ...base.probe, baseLogProbs: base.probe.logProbs };
      const unseen = await opened.publish({ version: 1, manifest: adapter(0.05, 3, renamed), probe: text, pictured: wide('pictured') }, signal);
      expect(messageOf(unseen)).toMatch(/The adapter is not applied: over 24 tokens behind images .* show 0 % of the adapter's effect/);
    });

    it('names images that the server has, and sends those that it does not have', async () => {
      const sent: string[] = [];
      const record: Fault = ({ path, body }) => {
        if (path === GENERATE) sent.push(body);
        return false;
      };
      const lacks: Fault = ({ path, body }, response) => {
        if (path === GENERATE) sent.push(body);
        if (path !== GENERATE || body.includes('base64,')) return false;
        sendJson(response, 400, {
          error: { message: 'Cache miss for image at index 0 but data is not provided.', type: 'BadRequestError', param: null, code: 400 },
        });
        return true;
      };
      const manifest = adapter(0.05, 5);
      const probes = await probesOf(manifest);
      for (const [fault, carries] of [
        [lacks, true],
        [record, false],
      ] as const) {
        sent.length = 0;
        await using proxy = await loraProxy(server.url, fault);
        await using opened = publisher({ baseUrls: [proxy.url] });
        expect(await opened.publish({ version: 1, manifest, ...probes }, signal)).toMatchObject({ ok: true });
        expect(sent.some((body) => body.includes('base64,'))).toBe(carries);
        expect(sent.every((body) => server.prompt.images.every(({ sha256 }) => body.includes(sha256)))).toBe(true);
      }
    });

    it.each<[string, (answer: Answer) => void, RegExp]>([
      [
        'places fewer images than it was sent',
        (answer) => answer.mm_placeholders!.image.pop(),
        /placed the images of the probe .*, but they were meant to be/,
      ],
      ['gives an image another length', (answer) => void (answer.mm_placeholders!.image[0]!.length += 1), /placed the images of the probe/],
      ['continues another prompt', (answer) => void (answer.prompt_token_ids[0]! += 1), /continued another prompt than it was sent/],
      ['tells no prompt', (answer) => void (answer.prompt_token_ids = []), /continued another prompt/],
    ])('publishes nothing to a server that %s', async (_, spoil, message) => {
      const manifest = adapter(0.05, 6);
      const probes = await probesOf(manifest);
      await using proxy = await loraProxy(server.url, async ({ path, pass }, response) => {
        if (path !== GENERATE) return false;
        const { status, text } = await pass();
        const answer = JSON.parse(text) as Answer;
        if (status === 200) spoil(answer);
        sendJson(response, status, answer);
        return true;
      });
      await using opened = publisher({ baseUrls: [proxy.url] });
      const result = await opened.publish({ version: 1, manifest, ...probes }, signal);
      expect(messageOf(result)).toMatch(/does not see the images that the trainer sees/);
      expect(messageOf(result)).toMatch(message);
    });
  });
}

interface Answer {
  prompt_token_ids: number[];
  mm_placeholders: { image: { offset: number; length: number }[] } | null;
}

function messageOf(result: PublishResult): string {
  return result.ok ? 'published' : result.reason.message;
}

function meanDifference(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, value, i) => sum + Math.abs(value - b[i]!), 0) / a.length;
}
