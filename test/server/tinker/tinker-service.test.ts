import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Caller, logProbsOf, type Served, serveNano, taught } from './tinker-caller.ts';

const IDS = [300, 301, 7, 9, 42, 11, 5, 8, 3, 21];
const DATA = [taught(IDS), taught(IDS.slice(0, 5))];

let served: Served;
let caller: Caller;
beforeAll(async () => {
  served = await serveNano();
  caller = new Caller(served.server.url);
});
afterAll(() => served.server.close());

describe('TinkerService', () => {
  it('gives an adapter as files behind links, and lists what a session holds', async () => {
    const model = await caller.model();
    const saved = { model_id: model, seq_id: caller.next(), path: 'home' };
    const { path, size_bytes: bytes } = await caller.resultOf<{ path: string; size_bytes: number }>('save_weights_external', saved);
    expect(path).toBe(`tinker://${model}/external_weights/home`);
    const found = await caller.get(`training_runs/${model}/checkpoints/external_weights/home/external_weights_urls`);
    const { urls, expires } = (await found.json()) as { urls: Record<string, string>; expires: string };
    expect(Object.keys(urls).toSorted()).toEqual(['adapter_config.json', 'adapter_model.safetensors']);
    expect(Date.parse(expires)).toBeGreaterThan(Date.now());
    const files = await Promise.all(Object.values(urls).map(async (url) => (await (await fetch(url)).arrayBuffer()).byteLength));
    expect(files.reduce((sum, size) => sum + size, 0)).toBe(bytes);
    const [link] = Object.values(urls);
    expect((await fetch(new URL('..%2Fcheckpoint.json', link))).status).toBe(404);
    expect(await caller.get(`sessions/${model.split(':')[0]}`).then((answer) => answer.json())).toEqual({
      training_run_ids: [model],
      sampler_ids: [],
    });
  });

  it('samples from the weights that a name has now, and from the latest of those without a name', async () => {
    const model = await caller.model();
    const session = model.split(':')[0];
    const scores = async (sampler: string) => {
      const prompt = { chunks: [{ type: 'encoded_text', tokens: IDS }] };
      return [
        ...(await caller.samples({ sampling_session_id: sampler, prompt, sampling_params: { max_tokens: 1 }, prompt_logprobs: true }))
          .promptLogProbs!,
      ];
    };
    const saved = async (number: number) => {
      const request = { model_id: model, seq_id: caller.next(), path: 'best', overwrite: true };
      const { path } = await caller.resultOf<{ path: string }>('save_weights_for_sampler', request);
      const asked = { session_id: session, sampling_session_seq_id: 1000 + number, model_path: path };
      return (await caller.ask<{ sampling_session_id: string }>('create_sampling_session', asked)).sampling_session_id;
    };
    const first = await saved(0);
    const before = await scores(first);
    await caller.pass(model, DATA);
    await caller.step(model);
    const second = await saved(1);
    const judged = logProbsOf(await caller.pass(model, [taught(IDS)], { isForwardOnly: true }));
    expect((await scores(second)).slice(1)).toEqual(judged);
    expect((await scores(second)).slice(1)).not.toEqual(before.slice(1));

    const nameless: string[] = [];
    for (let number = 0; number < 33; number++) {
      const request = { model_id: model, seq_id: caller.next(), sampling_session_seq_id: number };
      nameless.push((await caller.resultOf<{ sampling_session_id: string }>('save_weights_for_sampler', request)).sampling_session_id);
    }
    expect((await scores(nameless[1]!)).slice(1)).toEqual(judged);
    const gone = { sampling_session_id: nameless[0], prompt: { chunks: [{ type: 'encoded_text', tokens: IDS }] }, sampling_params: {} };
    expect((await caller.post('asample', gone)).status).toBe(404);
  });

  it('does not sample from other weights than a session was opened for, once those have been written over', async () => {
    const small = await serveNano({ maxLoaded: 1 });
    try {
      const asking = new Caller(small.server.url);
      const model = await asking.model();
      const prompt = { chunks: [{ type: 'encoded_text', tokens: IDS }] };
      const sampler = async (number: number) => {
        const request = { model_id: model, seq_id: asking.next(), path: 'best', overwrite: true };
        const { path } = await asking.resultOf<{ path: string }>('save_weights_for_sampler', request);
        const asked = { session_id: model.split(':')[0], sampling_session_seq_id: number, model_path: path };
        return (await asking.ask<{ sampling_session_id: string }>('create_sampling_session', asked)).sampling_session_id;
      };
      const sample = (id: string) =>
        asking.resultOf<{ error?: string; category?: string }>('asample', { sampling_session_id: id, prompt, sampling_params: { max_tokens: 1 } });
      const [first, second] = [await sampler(0), await sampler(1)];
      expect(await sample(second)).not.toHaveProperty('error');
      expect(await sample(first)).toEqual({ error: expect.stringContaining('deleted or written over'), category: 'user' });
      expect(await sample(second)).not.toHaveProperty('error');
    } finally {
      await small.server.close();
    }
  });

  it('makes a model once for a request that is sent again, and refuses another one of its number', async () => {
    const { session_id: session } = await caller.ask<{ session_id: string }>('create_session', {});
    const request = { session_id: session, model_seq_id: 0, base_model: 'nano-base', lora_config: { rank: 2 } };
    const first = await caller.ask('create_model', request);
    expect(await caller.ask('create_model', request)).toEqual(first);
    const other = await caller.post('create_model', { ...request, lora_config: { rank: 3 } });
    expect([other.status, await other.text()]).toEqual([400, expect.stringContaining('Another request made the model')]);
  });

  it('changes how long a checkpoint is kept, and publishes none', async () => {
    const model = await caller.model();
    await caller.resultOf('save_weights', { model_id: model, seq_id: caller.next(), path: 'short' });
    const place = `training_runs/${model}/checkpoints/weights/short`;
    const expiries = async () => {
      const answer = await caller.get(`training_runs/${model}/checkpoints`);
      return ((await answer.json()) as { checkpoints: { expires_at: string | null }[] }).checkpoints.map(({ expires_at: at }) => at);
    };
    const setTtl = (seconds: number | null) =>
      fetch(`${caller.url}/api/v1/${place}/ttl`, {
        method: 'PUT',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ ttl_seconds: seconds }),
      });
    expect(await expiries()).toEqual([null]);
    expect((await setTtl(3600)).status).toBe(200);
    expect(Date.parse((await expiries())[0]!)).toBeGreaterThan(Date.now() + 3_000_000);
    expect((await setTtl(1e15)).status).toBe(400);
    expect((await setTtl(null)).status).toBe(200);
    expect(await expiries()).toEqual([null]);
    expect((await setTtl(1)).status).toBe(200);
    await expect.poll(expiries, { timeout: 10_000 }).toEqual([]);
    const published = await caller.post(`${place}/publish`, {});
    expect([published.status, await published.text()]).toEqual([400, expect.stringContaining('Nothing can be published')]);
  });
});
