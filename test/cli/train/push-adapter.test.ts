import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { pushAdapter } from '../../../src/cli/train/push-adapter.ts';
import { HubPush } from '../../../src/data/hub-push.ts';
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

  it('uploads nothing in place of a best adapter that is not there', async () => {
    const { code, notes, pushed } = await push('best', { last: adapter('last'), best: null });
    expect([code, pushed]).toEqual([1, null]);
    expect(notes).toEqual(['vf-train: the run has no best adapter, so nothing was pushed; without --push-best, that of the last step is']);
  });
});
