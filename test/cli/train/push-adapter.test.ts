import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { pushAdapter } from '../../../src/cli/train/push-adapter.ts';
import { HubPush } from '../../../src/data/hub-push.ts';
import { writtenAdapter } from '../../../src/files/written-files.ts';
import { bestRecord } from '../../../src/trainer/records/best-version.ts';
import { someConfig } from '../../trainer/some-config.ts';
import { type WritableHub, writableHub, WRITER } from '../../data/writable-hub.ts';
import { TemporaryFolder } from '../eval/temporary-folder.ts';

let hub: WritableHub;
let folder: TemporaryFolder;
beforeEach(async () => {
  hub = await writableHub();
  folder = new TemporaryFolder();
});
afterEach(async () => {
  folder[Symbol.dispose]();
  await hub[Symbol.asyncDispose]();
});

function adapter(name: string): string {
  mkdirSync(join(folder.path, name));
  folder.write(join(name, 'adapter_config.json'), JSON.stringify({ which: name }));
  return join(folder.path, name);
}

async function push(which: 'last' | 'best', adapters: { readonly last: string | null; readonly best: string | null }) {
  const notes: string[] = [];
  const note = (line: string) => void notes.push(line);
  const { signal } = new AbortController();
  const target = new HubPush({ type: 'model', name: 'me/searcher' }, { env: { HF_ENDPOINT: hub.url, HF_TOKEN: WRITER }, signal });
  const unused = { secrets: new Set<string>(), verbose: false, redact: String, variables: {}, warn: note, onInterrupt: null };
  const context = { ...unused, signal, note, report: (error: unknown) => note(String(error)) };
  const code = await pushAdapter({ hub: target, which }, { config: someConfig({}, {}), directory: folder.path, ...adapters, context });
  const pushed = hub.repositories.get('models/me/searcher')?.files.get('adapter_config.json')?.toString('utf8');
  return { code, notes, pushed: pushed === undefined ? null : (JSON.parse(pushed) as { which: string }).which };
}

describe('pushAdapter', () => {
  it('uploads what the last step left, also where supervised steps before it have a best adapter, and the best one when asked', async () => {
    const adapters = { last: adapter('last'), best: adapter('best') };
    expect(await push('last', adapters)).toMatchObject({ code: 0, pushed: 'last' });
    expect(await push('best', adapters)).toMatchObject({ code: 0, pushed: 'best' });
  });

  it('uploads nothing if the adapter changed after it was written', async () => {
    const best = adapter('best');
    folder.write('evaluation.json', bestRecord({ metric: 'reward_mean', step: 1, version: 1, value: 1 }, await writtenAdapter(best)).text);
    expect(await push('best', { last: null, best })).toMatchObject({ code: 0, pushed: 'best' });
    hub.repositories.clear();
    folder.write('best/adapter_config.json', JSON.stringify({ which: 'else' }));
    expect(await push('best', { last: null, best })).toMatchObject({
      code: 1,
      pushed: null,
      notes: [
        expect.stringMatching(
          /^vf-train: nothing was pushed\. The adapter in .* is damaged: best\/adapter_config\.json changed after it was written/,
        ),
      ],
    });
  });

  it('uploads nothing in place of a best adapter that is not there', async () => {
    const { code, notes, pushed } = await push('best', { last: adapter('last'), best: null });
    expect([code, pushed]).toEqual([1, null]);
    expect(notes).toEqual(['vf-train: the run has no best adapter, so nothing was pushed; without --push-best, that of the last step is']);
  });
});
