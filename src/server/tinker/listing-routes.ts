/** Routes over what is saved: runs, checkpoints, samplers, sessions, and archives of adapters. */
import type { Hono } from 'hono';
import { join } from 'node:path';
import * as service from '../../schemas/tinker/service.ts';
import type { Archives } from './archives.ts';
import { CHECKPOINT_KINDS, type CheckpointPath, checkpointName, isKind, parseCheckpointUri } from './checkpoint-path.ts';
import type { Checkpoint } from './checkpoints.ts';
import { checkpointJson, page, runJson } from './run-listing.ts';
import { API, type PostRoute } from './json-routes.ts';
import { TinkerRefusal } from './tinker-refusal.ts';
import type { TinkerService } from './tinker-service.ts';

export function listingRoutes(app: Hono, tinker: TinkerService, archives: Archives, post: PostRoute): void {
  const { checkpoints } = tinker;
  app.get(`${API}/training_runs`, async (c) => {
    const { some, cursor } = page(await checkpoints.runs(), (name) => c.req.query(name));
    return c.json({ training_runs: await Promise.all(some.map((run) => runJson(run, checkpoints))), cursor });
  });
  app.get(`${API}/training_runs/:id`, async (c) => c.json(await runJson(await runOf(tinker, c.req.param('id')), checkpoints)));
  app.get(`${API}/training_runs/:id/checkpoints`, async (c) => {
    const { model_id: id } = await runOf(tinker, c.req.param('id'));
    return c.json({ checkpoints: (await checkpoints.list(id)).map(checkpointJson) });
  });
  app.get(`${API}/checkpoints`, async (c) => {
    const all: Checkpoint[] = [];
    for (const { model_id: id } of await checkpoints.runs()) all.push(...(await checkpoints.list(id)));
    const { some, cursor } = page(all, (name) => c.req.query(name));
    return c.json({ checkpoints: some.map(checkpointJson), cursor });
  });
  // A checkpoint's id is `weights/NAME`, or the name alone.
  for (const place of ['/:kind/:name', '/:name']) {
    app.delete(`${API}/training_runs/:id/checkpoints${place}`, async (c) => {
      await checkpoints.delete(await pathOf(tinker, c.req.param('id'), c.req.param()));
      return c.body(null, 204);
    });
    post(
      `training_runs/:id/checkpoints${place}/ttl`,
      service.ttlSchema,
      async ({ ttl_seconds: ttl }, { c }) => {
        await checkpoints.setTtl(await pathOf(tinker, c.req.param('id')!, c.req.param()), ttl);
        return {};
      },
      'PUT',
    );
    app.on(['POST', 'DELETE'], `${API}/training_runs/:id/checkpoints${place}/publish`, () => {
      throw new TinkerRefusal(400, 'Nothing can be published at this server, because all who have its key see all of it');
    });
    app.get(`${API}/training_runs/:id/checkpoints${place}/archive`, async (c) => {
      const { folder } = await checkpoints.get(await pathOf(tinker, c.req.param('id'), c.req.param()));
      const { token, expires } = archives.link(join(folder, 'adapter'));
      return c.body(null, 302, { location: new URL(`${API}/archives/${token}`, c.req.url).href, expires: expires.toUTCString() });
    });
  }
  // The SDK's way to an adapter's files since it has no archives.
  app.get(`${API}/training_runs/:id/checkpoints/:kind/:name/external_weights_urls`, async (c) => {
    const { folder } = await checkpoints.get(await pathOf(tinker, c.req.param('id'), c.req.param()));
    const adapter = join(folder, 'adapter');
    const { token, expires } = archives.link(adapter);
    const url = (name: string) => new URL(`${API}/archives/${token}/${name}`, c.req.url).href;
    return c.json({ urls: Object.fromEntries((await archives.files(adapter)).map((name) => [name, url(name)])), expires: expires.toISOString() });
  });
  app.get(`${API}/archives/:token/:file`, async (c) =>
    c.body(await archives.file(c.req.param('token'), c.req.param('file')), 200, { 'content-type': 'application/octet-stream' }),
  );
  app.get(`${API}/archives/:token`, (c) => c.body(archives.open(c.req.param('token')), 200, { 'content-type': 'application/gzip' }));
  post('weights_info', service.weightsInfoSchema, async ({ tinker_path: uri }) => {
    const { modelId } = await checkpoints.get(parseCheckpointUri(uri));
    const { base_model, lora } = await runOf(tinker, modelId);
    const { train_attn, train_mlp, train_unembed } = lora;
    return { base_model, is_lora: true, lora_rank: lora.rank, train_attn, train_mlp, train_unembed };
  });
  app.get(`${API}/samplers/:id`, (c) => {
    const { id, modelPath } = tinker.samplers.get(c.req.param('id'));
    return c.json({ sampler_id: id, base_model: tinker.options.baseNames[0], model_path: modelPath });
  });
  app.get(`${API}/sessions/:id`, (c) => {
    const id = c.req.param('id');
    if (!tinker.sessions.ids.includes(id)) throw new TinkerRefusal(404, `There is no session ${JSON.stringify(id.slice(0, 64))} at this server`);
    return c.json({ training_run_ids: tinker.models.idsOf(id), sampler_ids: tinker.samplers.idsOf(id) });
  });
  app.get(`${API}/sessions`, (c) => c.json({ sessions: tinker.sessions.ids }));
}

async function runOf({ checkpoints }: TinkerService, id: string) {
  const run = await checkpoints.run(id);
  if (run === null) throw new TinkerRefusal(404, `There is no training run ${JSON.stringify(id.slice(0, 64))} at this server`);
  return run;
}

/** A name alone is that of a sampler's weights, or else of a state. */
async function pathOf({ checkpoints }: TinkerService, modelId: string, { kind, name }: Readonly<Record<string, string>>): Promise<CheckpointPath> {
  const checked = checkpointName(name ?? '');
  if (kind !== undefined) {
    if (!isKind(kind)) throw new TinkerRefusal(404, `The id of a checkpoint must be NAME behind ${CHECKPOINT_KINDS.join('/, ')}/`);
    return { modelId, kind, name: checked };
  }
  const saved = await checkpoints.list(modelId);
  const found = saved.filter((each) => each.name === checked).toSorted((a, b) => a.kind.localeCompare(b.kind))[0];
  return found ?? { modelId, kind: 'weights', name: checked };
}
