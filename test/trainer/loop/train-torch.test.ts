/** The loop over the real worker: killed or not, a run reaches the same adapter from the same rollouts, bit for bit. */
import { cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Random } from '../../../src/core/random.ts';
import type { TorchBackend } from '../../../src/trainer/gradients/torch/torch-backend.ts';
import { LoraServerPublisher } from '../../../src/trainer/publisher/lora-server.ts';
import { loraServer } from '../../loopback/lora-server.ts';
import { openNano } from '../gradients/torch/nano-backend.ts';
import { skipReason, torchPython } from '../gradients/torch/torch-python.ts';
import { eventsOf, finalAdapter, newRun, rowsOf, type SmallRunOptions, trainSmall } from '../small-run.ts';

const CONFIG = {
  steps: 4,
  // The log-probs of the scripted client and of the server are no model's, so their difference means nothing.
  guards: { max_log_prob_difference: null },
  algorithm: { old_log_probs: 'trainer', minibatches: 2, epochs: 2, kl: { coefficient: 0.01 }, correction: { level: 'token' } },
  optimizer: { learning_rate: 0.002 },
  checkpoint: { every: 2, keep: 2, keep_rollouts: true },
};
/** The log-probs of the scripted client are no model's, so their difference means nothing. */
const AHEAD = {
  ...CONFIG,
  guards: { max_log_prob_difference: null },
  rollouts: { examples_per_step: 3, rollouts_per_example: 4, max_concurrent: 4, max_staleness: 1 },
};
const WEIGHTS = 'adapter_model.safetensors';

describe.skipIf(torchPython.path === null)(`train over the torch worker${skipReason}`, { timeout: 300_000 }, () => {
  let root: string;
  let idle: TorchBackend;
  let start: string;
  let whole: { readonly path: string; readonly adapter: string; readonly weights: Buffer; readonly rows: Record<string, unknown>[] };
  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'vf-train-torch-'));
    const path = await newRun(root);
    // It goes on as the first worker of the next run: the start of Python takes seconds.
    idle = await openNano();
    start = join(root, 'start');
    await idle.saveState(start);
    const kept = new Proxy(idle, {
      get: (of, name) => {
        const value: unknown = Reflect.get(of, name, of);
        if (name === 'close') return async () => {};
        return typeof value === 'function' ? value.bind(of) : value;
      },
    });
    const outcome = await trainSmall(path, { backend: async () => kept, config: CONFIG });
    whole = { path, adapter: outcome.adapter!, weights: await finalAdapter(outcome, WEIGHTS), rows: await rowsOf(path) };
  }, 300_000);
  afterAll(async () => {
    await idle?.close();
    await rm(root, { recursive: true });
  });

  async function recorded(name: string): Promise<string> {
    const parent = await mkdtemp(join(root, `${name}-`));
    const path = await newRun(parent);
    for (const folder of ['rollouts', 'evaluations']) await cp(join(whole.path, folder), join(path, folder), { recursive: true });
    return path;
  }

  it('publishes every version to a server with the LoRA routes, under names that a resume does not use again', { tags: 'long' }, async () => {
    await using server = await loraServer();
    const parent = await mkdtemp(join(root, 'server-'));
    const path = await newRun(parent);
    const adaptersDirectory = join(path, 'adapters');
    const session: SmallRunOptions['session'] = (made) => {
      const publisher = new LoraServerPublisher({
        baseUrls: [server.url],
        baseModel: server.baseModel,
        versions: made.versions,
        adapter: made.backend.adapter,
        adaptersDirectory,
        serverAdaptersDirectory: null,
        loadTimeoutMs: 60_000,
        logProbsMode: 'raw',
        random: Random.fromSeed(1),
      });
      return { ...made, publisher };
    };
    // The server's log-probs are a hash: any difference passes.
    const config = { ...CONFIG, publish: { probe_tolerance: 1000 } };
    const backend = () => openNano();
    const first = await trainSmall(path, { backend, session, config: { ...config, steps: 2 } });
    const second = await trainSmall(path, { backend, session, config: { ...config, steps: 3 } });
    expect([first.version, second.version]).toEqual([2, 3]);
    const loads = server.requests.filter((request) => request.endsWith('/v1/load_lora_adapter'));
    // Versions 1 and 2, then 2 again and 3.
    expect(loads).toHaveLength(4);
    const { data } = (await (await fetch(`${server.url}/v1/models`)).json()) as { data: { id: string }[] };
    expect(data.map(({ id }) => id)).toEqual([server.baseModel, second.model]);
    expect(await readdir(adaptersDirectory)).toEqual([second.model]);
    expect(second.model).not.toContain(first.model.split('-v')[0]);
    expect((await rowsOf(path)).flatMap((row) => row['sampled_version'] ?? [])).toEqual([0, 1, 2]);
    expect((await eventsOf(path)).map(({ kind }) => kind)).toEqual(['started', 'finished', 'resumed', 'finished']);
  });

  it('continues by itself when the worker is killed in the middle of a step', async () => {
    const path = await recorded('worker');
    const workers: TorchBackend[] = [];
    const backend = async () => {
      if (workers.length === 0) await idle.loadState(start);
      workers.push(workers.length === 0 ? idle : await openNano());
      return workers.at(-1)!;
    };
    const onPhase = (phase: string, step: number) => {
      if (phase === 'backward' && step === 3 && workers.length === 1) process.kill(workers[0]!.pid, 'SIGKILL');
    };
    const outcome = await trainSmall(path, { backend, config: AHEAD, observer: { onPhase } });
    expect(await finalAdapter(outcome, WEIGHTS)).toEqual(whole.weights);
    expect(await rowsOf(path)).toEqual(whole.rows);
    expect((await eventsOf(path)).map(({ kind }) => kind)).toEqual(['resumed', 'backend_lost', 'resumed', 'finished']);
    expect(workers).toHaveLength(2);
  });
});
