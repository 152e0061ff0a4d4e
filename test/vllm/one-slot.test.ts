/**
 * Trainings at a real vLLM that has a place for a single adapter: two at once, and one through a restart of the server; and at one that does not see the folder of adapters.
 * @module-tag long
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { serveNano, type ServedModel } from './serve.ts';
import { finished, TrainFolder, type TrainProcess } from './train-process.ts';

const FLAGS = ['--enable-lora', '--max-lora-rank', '16', '--max-loras', '1', '--max-cpu-loras', '1'];

/** Of each test, because the tag has a shorter one. */
const LIMIT = { timeout: 1_800_000 };

describe('vf-train with a vLLM of one slot', () => {
  let server: ServedModel;
  let folders: TrainFolder[];
  let started: TrainProcess[];
  beforeAll(async () => {
    server = await serveNano({ VF_VLLM_READY_SECONDS: '1200' }, FLAGS);
  }, 1_200_000);
  afterAll(() => server[Symbol.asyncDispose]());
  beforeEach(() => {
    [folders, started] = [[], []];
  });
  afterEach(async () => {
    await Promise.all(started.map(({ kill }) => kill()));
    for (const folder of folders) folder[Symbol.dispose]();
  });

  function begin(args: readonly string[]): { readonly folder: TrainFolder; readonly run: TrainProcess } {
    const folder = new TrainFolder();
    const run = folder.begin(['-b', server.url, ...args]);
    folders.push(folder);
    started.push(run);
    return { folder, run };
  }

  async function models(): Promise<string[]> {
    const { data } = (await (await fetch(`${server.url}/models`)).json()) as { data: { id: string }[] };
    return data.map(({ id }) => id);
  }

  it('two trainings at once finish, with the server’s log-probs equal to the trainers’, and leave nothing there', LIMIT, async () => {
    const both = [begin(['--steps', '3']), begin(['--steps', '3'])];
    for (const { run } of both) expect(await finished(run)).toMatchObject({ reason: 'finished', version: 3 });
    for (const { folder } of both) {
      const rows = folder.run()!.rows('step');
      expect(rows.map(({ step, rollouts_failed: failed }) => [step, failed])).toEqual([1, 2, 3].map((step) => [step, 0]));
      expect(Math.max(...rows.map((row) => row['log_prob_difference_mean']!))).toBeLessThanOrEqual(1e-4);
    }
    expect(await models()).toEqual(['nano-base']);
  });

  it('a server that is restarted at its port in the middle of a step gets the version again, and the run finishes', LIMIT, async () => {
    const { folder, run } = begin(['--steps', '4']);
    await folder.reach(run, (is) => is.rollouts(2).length > 3);
    await server[Symbol.asyncDispose]();
    server = await serveNano({ VF_VLLM_READY_SECONDS: '1200' }, FLAGS, new URL(server.url).port);
    expect(await finished(run)).toMatchObject({ reason: 'finished', version: 4 });
    const events = folder.run()!.events();
    expect(events.map(({ kind }) => kind)).toEqual(expect.arrayContaining(['policy_lost', 'policy_recovered']));
    expect(events.find(({ kind }) => kind === 'replica_recovered')!.message).toMatch(/version 1 was loaded there again as \S+-v000001 and compared/);
    expect(
      folder
        .run()!
        .rows('step')
        .map((row) => row['rollouts_failed']),
    ).toEqual([0, 0, 0, 0]);
    expect(await models()).toEqual(['nano-base']);
  });

  it('a folder of adapters that the server does not see is found before anything is sampled, in one line', LIMIT, async () => {
    const { folder, run } = begin(['--steps', '3', '--set', 'publish.server_adapter_dir=/nonexistent/adapters']);
    const { code, stdout, stderr } = await run.ended;
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(
      /^vf-train: The policy server cannot serve this run.*does not find \/nonexistent\/adapters\/.*set publish\.server_adapter_dir\n$/,
    );
    expect(folder.run()).toBeNull();
  });
});
