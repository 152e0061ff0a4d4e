/** vf-train --push: the adapter of a run with its card on a hub, from where vf-eval downloads it again. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse as parseYaml } from 'yaml';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TrainFolder } from '../../vllm/train-process.ts';
import { hasLivingWriter } from '../../../src/files/run-lock.ts';
import { READER, type WritableHub, writableHub, WRITER } from '../../data/writable-hub.ts';
import { until } from '../../transport/loopback.ts';
import { EvalFolder } from '../vf-eval-process.ts';

const WORDS = ['search-r1', '--preset', 'laptop', '-n', '2', '-r', '2', '--steps', '1', '-o', '.', '--plain'];
const SMALL = [...WORDS, '--set', 'evaluation.examples=4', '--set', 'policy.embedded.threads=1'];

let hub: WritableHub;
let folder: TrainFolder;
beforeEach(async () => {
  hub = await writableHub();
  folder = new TrainFolder();
});
afterEach(async () => {
  folder[Symbol.dispose]();
  await hub[Symbol.asyncDispose]();
});

const vfTrain = (words: readonly string[], token = WRITER) =>
  folder.runInProcess(words, { VF_BASE_URL: '', HF_ENDPOINT: hub.url, HF_TOKEN: token }).ended;

describe('vf-train --push', { timeout: 120_000 }, () => {
  it('pushes the adapter with its card, with the run locked until the end, also after a hub that was down; vf-eval plays with it by its id', async () => {
    hub.availableFor = 1;
    const locked: boolean[] = [];
    hub.onRequest = async () => {
      const begun = folder.run();
      if (begun !== null) locked.push(await hasLivingWriter(begun.path));
    };
    const first = await vfTrain([...SMALL, '--push', 'me/searcher']);
    const run = folder.run()!;
    expect(locked.length).toBeGreaterThan(0);
    expect(locked).not.toContain(false);
    expect(await hasLivingWriter(run.path)).toBe(false);
    hub.onRequest = async () => {};
    expect({ code: first.code, stderr: first.stderr }).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/this pushes it again: node .*vf-train\.js -R \S+ --push me\/searcher\n/),
    });
    expect(hub.repositories.size).toBe(0);
    const later = await vfTrain(['-R', run.path, '--push', 'me/searcher']);
    expect({ code: later.code, stderr: later.stderr }).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/this pushes it again: node .*vf-train\.js -R \S+ --push me\/searcher\n$/),
    });
    hub.availableFor = Infinity;
    const second = await vfTrain(['-R', run.path, '--push', 'me/searcher']);
    expect({ code: second.code, stderr: second.stderr }).toMatchObject({
      code: 0,
      stderr: expect.stringContaining(`pushed to ${hub.url}/me/searcher (new and private`),
    });
    const { files, titles } = hub.repositories.get('models/me/searcher')!;
    expect([...files.keys()].toSorted()).toEqual([
      '.gitattributes',
      'README.md',
      'adapter_config.json',
      'adapter_model.safetensors',
      'config.toml',
      'reward.png',
    ]);
    expect(titles).toEqual([expect.stringMatching(/^Add the adapter of search-r1\S* \(vf-search /)]);
    const adapter = join(run.path, 'checkpoints/step-000001/adapter');
    const pushed = [...files].filter(([name]) => name !== '.gitattributes');
    for (const [name, bytes] of pushed) expect(bytes.equals(readFileSync(join(adapter, name)))).toBe(true);
    const [, front] = /^---\n([^]*?)\n---\n/.exec(files.get('README.md')!.toString('utf8'))!;
    const [index] = (parseYaml(front!) as { 'model-index': { results: { metrics: unknown[] }[] }[] })['model-index'];
    expect(index!.results[0]!.metrics).toEqual([{ type: 'reward', name: 'held-out reward', value: expect.any(Number) }]);
    for (const text of [first.stderr, second.stderr, readFileSync(join(run.path, 'config.toml'), 'utf8')]) expect(text).not.toContain(WRITER);

    using evaluation = new EvalFolder();
    const variables = { HF_ENDPOINT: hub.url, HF_TOKEN: WRITER };
    const played = await evaluation.run(['search-r1', '-n', '2', '-p', 'embedded', '-m', 'me/searcher', '-A', '--plain'], variables);
    expect({ code: played.code, stderr: played.stderr }).toMatchObject({ code: 0 });
    expect(played.stdout).toMatch(/^policy +searcher on nano-base in this process/m);
  });

  it('refuses a token that can only read before it trains', async () => {
    const { code, stderr } = await vfTrain([...SMALL, '--push', 'me/searcher'], READER);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(/^vf-train: The token for \S+ can only read\..*\n$/) });
    expect(folder.run()).toBeNull();
  });

  it('keeps a run whose hub closes its port meanwhile, and says how to push it', { tags: 'long' }, async () => {
    const asked = until(() => hub.requests.length > 0).then(() => hub[Symbol.asyncDispose]());
    const { code, stderr } = await vfTrain([...SMALL, '--push', 'me/searcher']);
    await asked;
    expect({ code, stderr }).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /Could not push to me\/searcher at \S+: [^]*the run is finished and kept; this pushes it again: node .*vf-train\.js -R \S+ --push me\/searcher\n/,
      ),
    });
    await using other = await writableHub();
    const variables = { VF_BASE_URL: '', HF_ENDPOINT: other.url, HF_TOKEN: WRITER };
    expect((await folder.runInProcess(['-R', folder.run()!.path, '--push', 'me/searcher'], variables).ended).code).toBe(0);
    expect([...other.repositories.keys()]).toEqual(['models/me/searcher']);
  });

  it('refuses a hub whose port is closed in one line before it trains', async () => {
    await hub[Symbol.asyncDispose]();
    const { code, stderr } = await vfTrain([...SMALL, '--push', 'me/searcher']);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(/^vf-train: Could not push to me\/searcher at .*\n$/) });
    expect(folder.run()).toBeNull();
  });
});
