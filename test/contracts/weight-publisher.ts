/** The contract of publishing into a server with LoRA routes, whatever the server. Run over vLLM (real and its loopback stand-in). */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CancelledError, PublishError } from '../../src/core/errors.ts';
import type { AdapterManifest } from '../../src/trainer/gradient-backend.ts';
import type { PublishResult } from '../../src/trainer/weight-publisher.ts';
import { type Fault, loraProxy } from '../loopback/lora-proxy.ts';
import { NANO_ADAPTER, tensor } from '../trainer/publisher/adapter-files.ts';
import { PROBE_IDS, PROBE_TARGETS, PROBE_TOLERANCE, PublisherRun, type TestedServer } from '../trainer/publisher/publisher-run.ts';
import { sendJson, until } from '../transport/loopback.ts';

const signal = new AbortController().signal;
/** `open` gives a server of test/models/nano-base, or of a stand-in, that allows ranks up to 16 and has vLLM's development routes. */
export function weightPublisherContract(name: string, open: () => Promise<TestedServer & AsyncDisposable>): void {
  describe(`${name}: WeightPublisher contract`, () => {
    let server: TestedServer & AsyncDisposable;
    let run: PublisherRun;
    beforeAll(async () => {
      server = await open();
      run = new PublisherRun(server);
    });
    afterAll(async () => {
      run[Symbol.dispose]();
      await server[Symbol.asyncDispose]();
    });

    it('loads, compares and switches: the new name answers, and new leases use it', async () => {
      await using opened = run.publisher();
      const manifest = run.adapter({ b: 0 });
      const result = await opened.publish({ version: 1, manifest, probe: await run.probe(server.baseModel) }, signal);
      expect(result).toMatchObject({ ok: true, ref: { version: 1, model: `${opened.runName}-v000001`, cacheSalt: `${opened.runName}-v000001` } });
      expect(opened.versions.acquire().ref).toEqual(result.ok && result.ref);
      expect(await run.completionStatus(`${opened.runName}-v000001`)).toBe(200);
      const { report } = result as PublishResult & { ok: true };
      expect(Object.values(report).every((value) => value >= 0 && Number.isFinite(value))).toBe(true);
      expect(report.probeMeanDifference).toBeLessThan(PROBE_TOLERANCE);
    });

    it('rehearses a publish of two versions at once and leaves nothing, while the base serves on', async () => {
      await using opened = run.publisher();
      const check = `${opened.runName}-check`;
      const request = { version: 0, name: check, manifest: run.adapter({ b: 0 }), probe: await run.probe(server.baseModel) };
      expect(await opened.publisher.rehearse(request, [`${check}-2`], signal)).toEqual({ reason: null, refused: [] });
      expect(await run.modelsOf(opened.runName)).toEqual([]);
      expect(opened.versions.current()).toEqual({ version: 0, model: server.baseModel });
    });

    it('unloads at the end of a run all that it published, and nothing of another run', async () => {
      await using opened = run.publisher();
      const manifest = run.adapter({ b: 0 });
      await opened.publish({ version: 1, manifest, probe: await run.probe(server.baseModel) }, signal);
      await run.byHand(run.adapter({ b: 0 }).directory, async (other) => {
        await opened.publisher.withdraw({ keeps: false });
        expect(await run.modelsOf(opened.runName)).toEqual([]);
        expect(existsSync(manifest.directory)).toBe(false);
        expect(await run.completionStatus(other)).toBe(200);
      });
    });

    it('verifies an adapter that changes the model', async () => {
      await using opened = run.publisher();
      const manifest = run.adapter({ b: 0.05, seed: 2 });
      const probe = await run.probeOf(manifest);
      const base = await run.probe(server.baseModel);
      expect(meanDifference(probe.logProbs, base.logProbs)).toBeGreaterThan(100 * PROBE_TOLERANCE);
      expect(await opened.publish({ version: 3, manifest, probe }, signal)).toMatchObject({ ok: true, ref: { version: 3 } });
    });

    it('keeps the old version and unloads the new one where the log-probs differ, and says whose adapter is not applied', async () => {
      await using opened = run.publisher();
      const [still, moved] = [run.adapter({ b: 0 }), run.adapter({ b: 0.05, seed: 3 })];
      const [base, trained] = [await run.probe(server.baseModel), await run.probeOf(moved)];
      const unapplied = await opened.publish({ version: 1, manifest: still, probe: trained }, signal);
      expect(reasonOf(unapplied).message).toMatch(
        /on average \(tolerance .*\) and by .* at most, over 24 tokens; the server returns the base's log-probs/,
      );
      const untrained = await opened.publish({ version: 1, manifest: moved, probe: base }, signal);
      expect(reasonOf(untrained).message).toMatch(/the trainer's log-probs equal the base's.*Version 0 \(.*\) continues to serve/);
      const halved = { ...trained, logProbs: trained.logProbs.map((value) => value / 2) };
      const other = await opened.publish({ version: 1, manifest: moved, probe: halved }, signal);
      expect(reasonOf(other).message).toMatch(/the adapter is applied .* a temperature other than 1/);
      expect(opened.versions.current().version).toBe(0);
      expect(await run.modelsOf(opened.runName)).toEqual([]);
    });

    it('ends the run where the server has another base model, and names both', async () => {
      await using opened = run.publisher();
      const base = await run.probe(server.baseModel);
      const logProbs = base.logProbs.map((value) => value - 1);
      const result = await opened.publish(
        { version: 1, manifest: run.adapter({ b: 0 }), probe: { ...base, logProbs, baseLogProbs: logProbs } },
        signal,
      );
      expect(reasonOf(result)).toMatchObject({ endsRun: true, retryable: false });
      const names = `serves ${server.baseModel} \\(.*, and the trainer holds ${NANO_ADAPTER.baseModel}\\. `;
      expect(reasonOf(result).message).toMatch(
        new RegExp(`base model is not the trainer's: .* ${names}.* 1\\.00 nats .*Version 0 \\(.*continues to serve`),
      );
    });

    it('refuses an adapter that is not applied though the base is within the tolerance, and takes one that moves as little', async () => {
      await using opened = run.publisher();
      const [still, moved] = [run.adapter({ b: 0 }), run.adapter({ b: 0.05, seed: 3 })];
      const [base, trained] = [await run.probe(server.baseModel), await run.probeOf(moved)];
      const probe = { ...trained, baseLogProbs: base.logProbs, tolerance: 2 * meanDifference(trained.logProbs, base.logProbs) };
      const unapplied = await opened.publish({ version: 1, manifest: still, probe }, signal);
      expect(reasonOf(unapplied).message).toMatch(/The adapter is not applied: over 24 tokens .* show 0 % of the adapter's effect of .*Version 0/);
      expect(await opened.publish({ version: 1, manifest: moved, probe }, signal)).toMatchObject({ ok: true, ref: { version: 1 } });
    });

    const A = 'base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight';
    const filled = (value: number) => tensor([4, 128], new Float32Array(512).fill(0.1).fill(value, 77, 78));
    const bad: Record<string, [() => AdapterManifest, RegExp]> = {
      'a NaN': [
        () => run.adapter({ edit: (t) => t.set(A, filled(NaN)) }),
        /NaN or an infinity in .*layers\.2\.self_attn\.q_proj\.lora_A\.weight at index 77/,
      ],
      'an infinity': [() => run.adapter({ edit: (t) => t.set(A, filled(-Infinity)) }), /NaN or an infinity in .* at index 77/],
      'a wrong shape': [
        () => run.adapter({ edit: (t) => t.set(A, tensor([4, 64], new Float32Array(256))) }),
        /has shape \[4, 64\] instead of \[4, 128\]/,
      ],
      'a missing tensor': [() => run.adapter({ edit: (t) => t.delete(A) }), /lacks 1 of 56 tensors: .*layers\.2/],
      'a tensor too many': [() => run.adapter({ edit: (t) => t.set('lm_head', filled(1)) }), /has unknown tensors .*: lm_head/],
      'another rank': [() => run.adapter({ adapter: { ...NANO_ADAPTER, rank: 8 } }), /has rank 8 .* but the run has rank 4 and alpha 8/],
      'a rank that only the files have': [
        () => ({ ...run.adapter({ adapter: { ...NANO_ADAPTER, rank: 8 } }), rank: 4 }),
        /r in .*adapter_config\.json must be 4, got 8/,
      ],
      'ranks by layer': [() => run.adapter({ config: { rank_pattern: { q_proj: 8 } } }), /rank_pattern .* must be \{\} or absent/],
      'modules that PEFT saves whole': [() => run.adapter({ config: { modules_to_save: ['lm_head'] } }), /modules_to_save/],
      'a changed file': [() => changed(run.adapter({ seed: 4 }), run.adapter({ seed: 5 })), /changed after it was saved: it had sha256/],
      'a deleted directory': [() => deleted(run.adapter({})), /Check that nothing deleted the directory/],
    };
    for (const [what, [make, message]] of Object.entries(bad)) {
      it(`sends nothing for ${what}`, async () => {
        await using proxy = await loraProxy(server.url);
        await using opened = run.publisher({ baseUrls: [proxy.url] });
        const probe = {
          ids: PROBE_IDS,
          targets: PROBE_TARGETS,
          logProbs: new Float32Array(PROBE_TARGETS.length).fill(-1),
          tolerance: PROBE_TOLERANCE,
        };
        const result = await opened.publish({ version: 1, manifest: make(), probe }, signal);
        expect(reasonOf(result).message).toMatch(message);
        expect(result).toMatchObject({ kept: opened.versions.current() });
        expect(proxy.requests).toEqual([]);
      });
    }

    describe('with two replicas', () => {
      const refuse: Fault = ({ path }, response) => {
        if (path !== '/v1/load_lora_adapter') return false;
        sendJson(response, 500, {
          error: { message: 'Call to add_lora method failed: no space', type: 'InternalServerError', param: null, code: 500 },
        });
        return true;
      };

      it('unloads from every replica when one refuses and both are needed', async () => {
        await using refusing = await loraProxy(server.url, refuse);
        await using opened = run.publisher({ baseUrls: [server.url, refusing.url], quorum: 2 });
        const result = await opened.publish({ version: 1, manifest: run.adapter({}), probe: await run.probe(server.baseModel) }, signal);
        expect(reasonOf(result).message).toContain(`at ${refusing.url} (1 of 2 replicas; the others have unloaded it)`);
        expect(reasonOf(result).retryable).toBe(false);
        expect(opened.versions.current().version).toBe(0);
        expect(await run.modelsOf(opened.runName)).toEqual([]);
      });

      it('publishes to the one that takes it, rests the other, and gives it the same version under the same name once it is back', async () => {
        let isRefusing = true;
        await using proxy = await loraProxy(server.url, (request, response) => isRefusing && refuse(request, response));
        await using opened = run.publisher({ baseUrls: [server.url, proxy.url] });
        const rested: string[] = [];
        const { replicas } = opened.versions;
        using _ = replicas.supervise((replica, why) => rested.push(`${replica}: ${why}`));
        const moved = run.adapter({ b: 0.05, seed: 11 });
        const result = await opened.publish({ version: 1, manifest: moved, probe: await run.probeOf(moved) }, signal);
        expect(result).toMatchObject({ ok: true });
        const { model } = opened.versions.current();
        expect(rested).toEqual([expect.stringMatching(`^${proxy.url}: it did not take version 1: .*no space`) as string]);
        expect([server.url.replace('/v1', ''), proxy.url].map((url) => replicas.serves(url, model))).toEqual([true, false]);
        expect(await opened.publisher.catchUp(proxy.url, signal)).toMatchObject({ ok: false, reason: { name: 'PublishError' } });
        expect(replicas.serves(proxy.url, model)).toBe(false);
        isRefusing = false;
        const before = proxy.requests.length;
        expect(await opened.publisher.catchUp(proxy.url, signal)).toMatchObject({ ok: true });
        expect(replicas.serves(proxy.url, model)).toBe(true);
        // The probe: nothing serves before its log-probs are the trainer's.
        expect(proxy.requests.slice(before)).toContain('POST /v1/completions');
      });
    });

    it('gives a version that is published again, and one that failed, a new name each time', async () => {
      await using opened = run.publisher();
      const manifest = run.adapter({});
      const probe = await run.probe(server.baseModel);
      const wrong = { ...probe, logProbs: probe.logProbs.map((value) => value - 1) };
      const names = [];
      for (const asked of [probe, wrong, probe]) {
        const result = await opened.publish({ version: 12, manifest, probe: asked }, signal);
        names.push(result.ok ? result.ref.model : null);
      }
      expect(names).toEqual([`${opened.runName}-v000012`, null, `${opened.runName}-v000012-3`]);
      expect(opened.versions.current().model).toBe(`${opened.runName}-v000012-3`);
    });

    it('lets leases drain before it unloads, then deletes what is its own', async () => {
      await using opened = run.publisher();
      const [first, second] = [run.adapter({}), run.adapter({})];
      const probe = await run.probe(server.baseModel);
      await opened.publish({ version: 1, manifest: first, probe }, signal);
      const lease = opened.versions.acquire();
      await opened.publish({ version: 2, manifest: second, probe }, signal);
      const retired = opened.publisher.retire(2, signal);
      expect(await run.completionStatus(lease.ref.model)).toBe(200);
      expect(await run.modelsOf(opened.runName)).toHaveLength(2);
      expect(existsSync(first.directory)).toBe(true);
      lease.release();
      await retired;
      expect(await run.completionStatus(lease.ref.model)).toBe(404);
      expect([existsSync(first.directory), existsSync(second.directory)]).toEqual([false, true]);
      expect(opened.publisher.cleanUpFailures).toBe(0);
    });

    it('unloads a version only after the server has ended the requests that were abandoned', async () => {
      const inUse: (readonly string[])[] = [];
      const look: Fault = async ({ path }) => {
        if (path === '/v1/unload_lora_adapter') inUse.push(await run.adaptersInUse());
        return false;
      };
      await using proxy = await loraProxy(server.url, look);
      await using opened = run.publisher({ baseUrls: [proxy.url] });
      const probe = await run.probe(server.baseModel);
      const first = run.adapter({});
      await opened.publish({ version: 1, manifest: first, probe }, signal);
      const lease = opened.versions.acquire();
      const { model } = lease.ref;
      const leaving = new AbortController();
      const left = run.generateForever(model, leaving.signal);
      await until(async () => (await run.adaptersInUse()).includes(model));
      await opened.publish({ version: 2, manifest: run.adapter({}), probe }, signal);
      // As the client does when its caller leaves.
      opened.versions.replicas.abandon(proxy.url, model);
      leaving.abort();
      await left;
      lease.release();
      await opened.publisher.retire(2, signal);
      expect(inUse.map((models) => models.includes(model))).toEqual([false]);
      expect([existsSync(first.directory), opened.publisher.cleanUpFailures]).toEqual([false, 0]);
    });

    it('clears what an earlier session left, on the server and on the disk, and nothing else', async () => {
      await using earlier = run.publisher();
      const manifest = run.adapter({ b: 0 });
      expect(await earlier.publish({ version: 1, manifest, probe: await run.probe(server.baseModel) }, signal)).toMatchObject({ ok: true });
      await using later = run.publisher();
      await later.publisher.clear(signal);
      expect(await run.modelsOf(earlier.runName)).toEqual([]);
      expect(existsSync(manifest.directory)).toBe(false);
      expect(await run.completionStatus(server.baseModel)).toBe(200);
    });

    it('never retires what serves, nor deletes a checkpoint', async () => {
      await using opened = run.publisher({ adaptersDirectory: join(run.folder, 'elsewhere') });
      const checkpoint = run.adapter({});
      const probe = await run.probe(server.baseModel);
      for (const version of [1, 2]) await opened.publish({ version, manifest: checkpoint, probe }, signal);
      await opened.publisher.retire(99, signal);
      expect(await run.modelsOf(opened.runName)).toEqual([`${opened.runName}-v000002`]);
      expect(existsSync(checkpoint.directory)).toBe(true);
    });

    it('stops at once when cancelled, and leaves nothing behind', async () => {
      const stopping = new AbortController();
      const stop: Fault = ({ path }) => {
        if (path === '/v1/completions') stopping.abort();
        return false;
      };
      await using proxy = await loraProxy(server.url, stop);
      await using opened = run.publisher({ baseUrls: [proxy.url] });
      const published = opened.publish({ version: 1, manifest: run.adapter({}), probe: await run.probe(server.baseModel) }, stopping.signal);
      await expect(published).rejects.toThrow(CancelledError);
      expect(opened.versions.current().version).toBe(0);
      expect(await run.modelsOf(opened.runName)).toEqual([]);
    });

    it('detects a server that was restarted between load and probe', async () => {
      const forget: Fault = async ({ path, body, pass }, response) => {
        if (path !== '/v1/load_lora_adapter') return false;
        const { status, text } = await pass();
        await run.post('/v1/unload_lora_adapter', { lora_name: (JSON.parse(body) as { lora_name: string }).lora_name });
        response.writeHead(status).end(text);
        return true;
      };
      await using proxy = await loraProxy(server.url, forget);
      await using opened = run.publisher({ baseUrls: [proxy.url] });
      const result = await opened.publish({ version: 1, manifest: run.adapter({}), probe: await run.probe(server.baseModel) }, signal);
      expect(reasonOf(result).message).toMatch(/lost .* just after loading it and was probably restarted/);
      expect(reasonOf(result)).toMatchObject({ retryable: true, status: 404 });
    });

    it('treats a name that is already loaded as its own when an answer got lost', async () => {
      let losses = 1;
      const lose: Fault = async ({ path, pass }, response) => {
        if (path !== '/v1/load_lora_adapter' || losses-- < 1) return false;
        await pass();
        response.socket?.destroy();
        return true;
      };
      await using proxy = await loraProxy(server.url, lose);
      await using opened = run.publisher({ baseUrls: [proxy.url] });
      const result = await opened.publish({ version: 1, manifest: run.adapter({}), probe: await run.probe(server.baseModel) }, signal);
      expect(result).toMatchObject({ ok: true });
      expect(proxy.requests.filter((request) => request === 'POST /v1/load_lora_adapter')).toHaveLength(2);
    });

    it('refuses a name that stands for another directory', async () => {
      await using opened = run.publisher();
      await run.post('/v1/load_lora_adapter', { lora_name: `${opened.runName}-v000001`, lora_path: run.adapter({}).directory });
      const result = await opened.publish({ version: 1, manifest: run.adapter({}), probe: await run.probe(server.baseModel) }, signal);
      expect(reasonOf(result).message).toMatch(/has already loaded .*-v000001 from .* Give the run another name/);
    });

    it('reports a rank beyond the limit of the server, and how to raise that', async () => {
      const adapter = { ...NANO_ADAPTER, rank: 32 };
      const manifest = run.adapter({ adapter });
      const probe = await run.probe(server.baseModel);
      for (const hidden of [false, true]) {
        const hide: Fault = ({ path }, response) => {
          if (!hidden || !path.startsWith('/server_info')) return false;
          sendJson(response, 404, { detail: 'Not Found' });
          return true;
        };
        await using proxy = await loraProxy(server.url, hide);
        await using opened = run.publisher({ adapter, baseUrls: [proxy.url] });
        const result = await opened.publish({ version: 1, manifest, probe }, signal);
        expect(reasonOf(result).message).toMatch(/Rank 32 exceeds the server's limit of 16[.:] .*--max-lora-rank 32 or more, or lower \[lora\] rank/);
        expect(proxy.requests.includes('POST /v1/load_lora_adapter')).toBe(hidden);
      }
    });

    it('heals a server that computes NaN through finite weights', async () => {
      await using opened = run.publisher();
      const manifest = run.adapter({ b: 1.5e38, seed: 6 });
      const probe = await run.probe(server.baseModel);
      const result = await opened.publish({ version: 1, manifest, probe }, signal);
      expect(reasonOf(result).message).toMatch(/log-prob that is not finite: .*; its prefix cache was reset, and the base model works again/);
      expect(await run.completionStatus(server.baseModel)).toBe(200);
      expect(await run.modelsOf(opened.runName)).toEqual([]);
    });

    it('asks for whole prompts where log-probs come after the filters', async () => {
      await using proxy = await loraProxy(server.url);
      await using opened = run.publisher({ baseUrls: [proxy.url], logProbsMode: 'processed' });
      const manifest = run.adapter({ b: 0.05, seed: 8 });
      const result = await opened.publish({ version: 1, manifest, probe: await run.probeOf(manifest) }, signal);
      expect(result).toMatchObject({ ok: true });
      expect(proxy.requests.filter((request) => request === 'POST /v1/completions')).toHaveLength(1);
    });

    it('publishes while rollouts run through the version before', async () => {
      await using opened = run.publisher();
      const probe = await run.probe(server.baseModel);
      await opened.publish({ version: 1, manifest: run.adapter({}), probe }, signal);
      const moved = run.adapter({ b: 0.05, seed: 7 });
      const movedProbe = await run.probeOf(moved);
      const published = new AbortController();
      const statuses: number[] = [];
      const rollouts = Array.from({ length: 6 }, async (_, i) => {
        const prompt = [...PROBE_IDS.subarray(i, i + 20)];
        do
          statuses.push((await run.post('/v1/completions', { model: `${opened.runName}-v000001`, prompt, max_tokens: 40, ignore_eos: true })).status);
        while (!published.signal.aborted);
      });
      const result = await opened.publish({ version: 2, manifest: moved, probe: movedProbe }, signal);
      published.abort();
      await Promise.all(rollouts);
      expect(result).toMatchObject({ ok: true });
      expect(new Set(statuses)).toEqual(new Set([200]));
    });
  });
}

function reasonOf(result: PublishResult): PublishError {
  expect(result.ok).toBe(false);
  const { reason } = result as PublishResult & { ok: false };
  expect(reason).toBeInstanceOf(PublishError);
  return reason;
}

function changed(manifest: AdapterManifest, other: AdapterManifest): AdapterManifest {
  return { ...manifest, directory: other.directory };
}

function deleted(manifest: AdapterManifest): AdapterManifest {
  rmSync(manifest.directory, { recursive: true });
  return manifest;
}

function meanDifference(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, value, i) => sum + Math.abs(value - b[i]!), 0) / a.length;
}
