import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { textDatum } from '../../../src/tinker/wire/training-pass.ts';
import { floatRow, tokenRow } from '../../../src/tinker/wire/wire-tensor.ts';
import { EmbeddedBackend } from '../../../src/trainer/gradients/embedded/embedded-backend.ts';
import { Caller, logProbsOf, type Served, serveNano, taught } from './tinker-caller.ts';

const IDS = [1588, 1587, 33, 44, 55, 66, 77, 88, 99, 100];
const DATA = [taught(IDS), taught(IDS.slice(0, 5))];

let served: Served;
let caller: Caller;
beforeAll(async () => {
  served = await serveNano({ maxModels: 64 });
  caller = new Caller(served.server.url);
});
afterAll(() => served.server.close());

describe('tinkerApp', () => {
  it('trains in JSON and in protobuf to the same bits, and to those of the gradient backend itself', async () => {
    const json = new Caller(served.server.url);
    const model = await json.model();
    const first = await json.pass(model, DATA);
    expect((await json.step(model)).metrics?.['skyrl.ai/grad_norm']).toBeGreaterThan(1);
    const after = logProbsOf(await json.pass(model, DATA, { isForwardOnly: true }));

    const protobuf = new Caller(served.server.url);
    const other = await protobuf.model();
    const output = await protobuf.protobufPass(other, DATA);
    await protobuf.step(other);
    const again = await protobuf.protobufPass(other, DATA, { isForwardOnly: true });
    expect(output.metrics).toEqual(first.metrics);
    expect(again.data.flatMap(({ logprobs }) => [...logprobs!.values])).toEqual(after);

    await using backend = await own(served);
    const packed = {
      ids: Int32Array.of(...IDS, ...IDS.slice(0, 5)),
      offsets: Int32Array.of(0, 10, 15),
      targets: Int32Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14),
      temperature: 1,
    };
    const signal = new AbortController().signal;
    const { batchId, logProbs } = await backend.value.forward(packed, { retain: true, adapter: 'on', signal });
    expect(logProbsOf(first)).toEqual([...logProbs]);
    await backend.value.backward(batchId, { dLogProbs: new Float32Array(13).fill(-1) });
    await backend.value.optimStep({ learningRate: 3e-3, beta1: 0.9, beta2: 0.95, epsilon: 1e-12, weightDecay: 0, maxGradNorm: null });
    expect([...(await backend.value.forward(packed, { retain: false, adapter: 'on', signal })).logProbs]).toEqual(after);
  });

  it('judges any target, as recipes need that pad the prompt', async () => {
    const model = await caller.model();
    const plain = await caller.pass(model, [taught(IDS)], { isForwardOnly: true });
    const targets = Int32Array.from([0, 0, 0, ...IDS.slice(4)]);
    const inputs = { target_tokens: tokenRow(targets), weights: floatRow(Float32Array.of(0, 0, 0, 1, 1, 1, 1, 1, 1)) };
    const padded = await caller.pass(model, [textDatum(Int32Array.from(IDS.slice(0, -1)), inputs)], { isForwardOnly: true });
    expect(logProbsOf(padded).slice(3)).toEqual(logProbsOf(plain).slice(3));
    const alone = await caller.pass(model, [taught([...IDS.slice(0, 2), 0])], { isForwardOnly: true });
    expect(logProbsOf(padded)[1]).toBeCloseTo(logProbsOf(alone)[1]!, 5);
    expect(padded.metrics['loss:sum']).toBeCloseTo(
      -logProbsOf(plain)
        .slice(3)
        .reduce((sum, value) => sum + value, 0),
      3,
    );
  });

  it('gives rollouts of one prompt together what it gives each alone', async () => {
    const padded = (ids: readonly number[]) => {
      const targets = tokenRow(Int32Array.from([0, 0, 0, ...ids.slice(4)]));
      const advantages = floatRow(Float32Array.from(ids.slice(1), (_, t) => (t < 3 ? 0 : 1)));
      const inputs = { target_tokens: targets, advantages, logprobs: floatRow(new Float32Array(ids.length - 1).fill(-7)) };
      return textDatum(Int32Array.from(ids.slice(0, -1)), inputs);
    };
    const rollouts = [padded(IDS), padded([...IDS.slice(0, 4), 5, 6, 7, 8]), padded([...IDS.slice(0, 6), 9])];
    const together = new Caller(served.server.url);
    const model = await together.model();
    const found = await together.pass(model, rollouts, { loss: 'importance_sampling' });
    const norm = (await together.step(model)).metrics?.['skyrl.ai/grad_norm'];
    const alone = new Caller(served.server.url);
    const other = await alone.model();
    const each = [];
    for (const rollout of rollouts) each.push(...logProbsOf(await alone.pass(other, [rollout], { loss: 'importance_sampling' })));
    expect(logProbsOf(found)).toEqual(each);
    expect((await alone.step(other)).metrics?.['skyrl.ai/grad_norm']).toBeCloseTo(norm!, 3);
  });

  it('runs requests in the order of their numbers, and one that is sent twice once', async () => {
    const model = await caller.model();
    const step = { model_id: model, adam_params: { learning_rate: 1e-3 } };
    const pass = (seqId: number) => {
      const input = {
        data: [
          {
            model_input: { chunks: [{ type: 'encoded_text', tokens: [1, 2] }] },
            loss_fn_inputs: { target_tokens: { data: [2, 3], dtype: 'int64' } },
          },
        ],
        loss_fn: 'cross_entropy',
      };
      return caller.ask<{ request_id: string }>('forward_backward', { model_id: model, seq_id: seqId, forward_backward_input: input });
    };
    const late = await caller.ask<{ request_id: string }>('optim_step', { ...step, seq_id: 2 });
    const first = await pass(1);
    expect((await pass(1)).request_id).toBe(first.request_id);
    expect((await caller.result<{ metrics: object }>(late.request_id)).metrics).toHaveProperty('skyrl.ai/grad_norm');
    const other = await caller.post('optim_step', { ...step, adam_params: { learning_rate: 1 }, seq_id: 2 });
    expect([other.status, await other.json()]).toEqual([400, { detail: 'The model has had another request with seq_id 2; count on from 3' }]);
  });

  it('samples what the trained model would, with its log-probs, and the same again for the same seed', async () => {
    const model = await caller.model();
    await caller.pass(model, DATA);
    await caller.step(model);
    const saved = await caller.resultOf<{ sampling_session_id: string }>('save_weights_for_sampler', {
      model_id: model,
      seq_id: caller.next(),
      sampling_session_seq_id: 0,
    });
    const request = {
      sampling_session_id: saved.sampling_session_id,
      num_samples: 3,
      prompt: { chunks: [{ type: 'encoded_text', tokens: IDS }] },
      sampling_params: { max_tokens: 6, seed: 3, temperature: 0.7 },
      prompt_logprobs: true,
      topk_prompt_logprobs: 2,
    };
    const samples = await caller.samples(request);
    expect(samples.sequences.map(({ tokens }) => tokens.length)).toEqual([6, 6, 6]);
    expect(await caller.samples(request)).toEqual(samples);
    const [one] = samples.sequences;
    const judged = logProbsOf(await caller.pass(model, [taught([...IDS, ...one!.tokens])], { isForwardOnly: true }));
    expect([...one!.logProbs]).toEqual(judged.slice(IDS.length - 1));
    expect(Array.from(samples.promptLogProbs!.slice(1))).toEqual(judged.slice(0, IDS.length - 1));
    expect(samples.promptLogProbs![0]).toBeNaN();
    expect(samples.promptLikeliest!.ids).toHaveLength(2 * IDS.length);
  });

  it('keeps what it acknowledged, under a path, and loads it into the same model and a new one to the bit', async () => {
    const model = await caller.model();
    await caller.pass(model, DATA);
    await caller.step(model);
    const { path } = await caller.resultOf<{ path: string }>('save_weights', { model_id: model, seq_id: caller.next(), path: 'kept' });
    expect(path).toBe(`tinker://${model}/weights/kept`);
    await caller.pass(model, DATA);
    await caller.step(model);
    const after = logProbsOf(await caller.pass(model, DATA, { isForwardOnly: true }));
    const taken = await caller.resultOf<{ error: string; category: string }>('save_weights', {
      model_id: model,
      seq_id: caller.next(),
      path: 'kept',
    });
    expect([taken.category, taken.error]).toEqual(['user', `${path} exists already; choose another name`]);

    const { session_id: session } = await caller.ask<{ session_id: string }>('create_session', {});
    const other = new Caller(served.server.url);
    const loaded = await other.resultOf<{ model_id: string }>('load_weights', { session_id: session, model_seq_id: 3, path, optimizer: true });
    expect(loaded.model_id).toBe(`${session}:train:3`);
    await other.pass(loaded.model_id, DATA);
    await other.step(loaded.model_id);
    expect(logProbsOf(await other.pass(loaded.model_id, DATA, { isForwardOnly: true }))).toEqual(after);

    // Without its state, Adam begins anew: the same weights, another step.
    const fresh = new Caller(served.server.url);
    const { model_id: id } = await fresh.resultOf<{ model_id: string }>('load_weights', { session_id: session, model_seq_id: 4, path });
    await fresh.pass(id, DATA);
    await fresh.step(id);
    expect(logProbsOf(await fresh.pass(id, DATA, { isForwardOnly: true }))).not.toEqual(after);

    expect(await caller.ask('weights_info', { tinker_path: path })).toMatchObject({ base_model: 'nano-base', lora_rank: 4, train_unembed: false });
    const link = await caller.get(`training_runs/${model}/checkpoints/weights/kept/archive`);
    expect(link.status).toBe(302);
    const folder = mkdtempSync(join(tmpdir(), 'vf-tinker-archive-'));
    writeFileSync(join(folder, 'adapter.tar.gz'), Buffer.from(await (await fetch(link.headers.get('location')!)).arrayBuffer()));
    execFileSync('tar', ['xzf', 'adapter.tar.gz'], { cwd: folder });
    expect(readdirSync(folder).toSorted()).toEqual(['adapter.tar.gz', 'adapter_config.json', 'adapter_model.safetensors']);
  });

  it('forgets a model that was unloaded without a checkpoint, and keeps one with', async () => {
    const [empty, saved] = [new Caller(served.server.url), new Caller(served.server.url)];
    const models = [await empty.model(), await saved.model()];
    await saved.resultOf('save_weights', { model_id: models[1], seq_id: saved.next(), path: 'kept' });
    for (const model of models) await caller.resultOf('unload_model', { model_id: model });
    const statuses = [];
    for (const model of models) statuses.push((await caller.get(`training_runs/${model}`)).status);
    expect(statuses).toEqual([404, 200]);
  });

  it('takes a sampling session that is opened again for the same, and refuses another of its number', async () => {
    const model = await caller.model();
    const { path } = await caller.resultOf<{ path: string }>('save_weights_for_sampler', { model_id: model, seq_id: caller.next(), path: 'a' });
    const session = { session_id: model.split(':')[0], sampling_session_seq_id: 5 };
    const { sampling_session_id: id } = await caller.ask<{ sampling_session_id: string }>('create_sampling_session', {
      ...session,
      model_path: path,
    });
    expect(await caller.ask('create_sampling_session', { ...session, model_path: path })).toMatchObject({ sampling_session_id: id });
    const other = await caller.post('create_sampling_session', { ...session, base_model: 'nano-base' });
    expect([other.status, await other.json()]).toEqual([
      400,
      { detail: `The sampling session ${id} has other weights; count on with sampling_session_seq_id` },
    ]);
  });

  it('gives up the models of a session that ends or falls silent', async () => {
    const quick = await serveNano({ silentMs: 400 });
    try {
      const silent = new Caller(quick.server.url);
      const model = await silent.model();
      await expect.poll(async () => (await silent.post('get_info', { model_id: model })).status, { timeout: 10_000 }).toBe(404);
      const beat = await silent.post('session_heartbeat', { session_id: model.split(':')[0] });
      expect(beat.status).toBe(410);
    } finally {
      await quick.server.close();
    }
  });

  it.each<[string, Parameters<Caller['pass']>[1], string | undefined, RegExp]>([
    ['a loss that it does not have', DATA, 'dro', /loss_fn must be cross_entropy/],
    ['a token beyond the vocabulary', [taught([1, 2, 99_999])], undefined, /data\[0\] has the token 99999; those of the model are 0 to 1596/],
    [
      'a sequence that is too long',
      [taught(Array.from({ length: 2050 }, () => 5))],
      undefined,
      /data\[0\] has 2049 tokens; this server trains at most 2047/,
    ],
    [
      'targets of another length',
      [textDatum(Int32Array.of(1, 2), { target_tokens: tokenRow(Int32Array.of(2)) })],
      undefined,
      /one value for each of the 2 tokens/,
    ],
    ['no data', [], undefined, /at least one datum/],
    ['a loss without its inputs', DATA, 'ppo', /data\[0\].loss_fn_inputs.logprobs is missing/],
  ])('says what is wrong with %s, and goes on', async (_, data, loss, message) => {
    const asking = new Caller(served.server.url);
    const model = await asking.model();
    const { error, category } = await asking.pass(model, data, loss === undefined ? {} : { loss });
    expect([category, error]).toEqual(['user', expect.stringMatching(message)]);
    await asking.pass(model, DATA);
    expect((await asking.step(model)).metrics).toHaveProperty('skyrl.ai/grad_norm');
  });

  it.each<[string, string, object, number, RegExp]>([
    [
      'another base',
      'create_model',
      { session_id: 'SESSION', model_seq_id: 9, base_model: 'Qwen/other', lora_config: { rank: 4 } },
      200,
      /has the model nano-base, not \\"Qwen\/other\\"/,
    ],
    [
      'a session that never was',
      'create_model',
      { session_id: 'none', model_seq_id: 0, base_model: 'nano-base', lora_config: { rank: 4 } },
      404,
      /no session/,
    ],
    ['a model that never was', 'optim_step', { model_id: 'none', adam_params: {} }, 404, /no model/],
    ['a path that climbs', 'weights_info', { tinker_path: 'tinker://../weights/x' }, 400, /A path must be/],
    ['a name that climbs', 'weights_info', { tinker_path: 'tinker://m/weights/..' }, 400, /The name of a checkpoint/],
    ['a body without its keys', 'create_model', {}, 422, /session_id/],
    ['a future that never was', 'retrieve_future', { request_id: 'future-999999' }, 404, /no request/],
    [
      'a prompt with an image',
      'asample',
      { prompt: { chunks: [{ type: 'image' }] }, sampling_params: {}, base_model: 'nano-base' },
      400,
      /reads encoded_text only/,
    ],
  ])('refuses %s', async (_, route, body, status, message) => {
    const { session_id: session } = await caller.ask<{ session_id: string }>('create_session', {});
    const asked = JSON.parse(JSON.stringify(body).replace('SESSION', session)) as object;
    const response = await caller.post(route, asked);
    const text = await response.text();
    expect(response.status).toBe(status);
    const said = status === 200 ? JSON.stringify(await caller.result((JSON.parse(text) as { request_id: string }).request_id)) : text;
    expect(said).toMatch(message);
  });

  it('had no failure of its own', () => {
    expect(served.failures).toEqual([]);
  });
});

/** A backend of the same adapter as `Caller.model` makes, on the same engine. */
async function own({ engine }: Served) {
  const targets = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'];
  const value = await EmbeddedBackend.on(engine, {
    adapter: { rank: 4, alpha: 32, targets, seed: 7, initial: null },
    signal: new AbortController().signal,
  });
  return { value, [Symbol.asyncDispose]: () => value.close() };
}
