/** What a page gives the engine, run here: files fetched from the lab's server, and the thread that asks as the only one. */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EmbeddedEngine } from '../../src/engine/embedded-engine.ts';
import type { EngineHost } from '../../src/engine/engine-host.ts';
import type { GenerateRequest, TokenEngine } from '../../src/engine/engine-types.ts';
import { HostedEngine } from '../../src/engine/hosted-engine.ts';
import { nodeHost } from '../../src/engine/node-host.ts';
import { openParts } from '../../src/engine/open-parts.ts';
import { readModelConfig } from '../../src/engine/model/read-model-config.ts';
import type { FromThread } from '../../src/engine/threads/messages.ts';
import { labApp, MODEL } from '../../src/server/lab/lab-app.ts';
import { listen, type RunningServer } from '../../src/server/listen.ts';
import { FetchedFolder } from '../../web/lab/compute/fetched-folder.ts';
import { sameThread } from '../../web/lab/compute/same-thread.ts';

const MODELS = join(import.meta.dirname, '../../models');
const signal = new AbortController().signal;
let server: RunningServer;
let host: EngineHost;

beforeAll(async () => {
  server = await listen(labApp({ page: MODELS, kernels: MODELS, models: MODELS, host: '127.0.0.1' }), { host: '127.0.0.1', port: 0 });
  host = {
    ...nodeHost,
    folder: (path) => new FetchedFolder(path, new URL(`${server.url}/models/${path}/`)),
    startThread: sameThread,
  };
});
afterAll(() => server.close({ graceMs: 0 }));

const request = (engine: TokenEngine, more: Partial<GenerateRequest> = {}): GenerateRequest => ({
  prompt: engine.tokenizer.encode('Question: Who is the mayor of Trafam?', { addSpecialTokens: true }),
  adapter: null,
  maxTokens: 24,
  sampling: { temperature: 1, topP: 1, topK: -1, minP: 0, seed: 5 },
  stop: { strings: [], includeString: false, tokenIds: [], ignoreEnd: true, minTokens: 0 },
  skipSpecialTokens: true,
  logProbs: 0,
  promptLogProbs: null,
  logProbsMode: 'raw',
  allowedTokenIds: null,
  cacheSalt: null,
  signal,
  ...more,
});

const open = async () => new HostedEngine(await openParts(host, { modelPath: MODEL, threads: 1, signal }));

describe('an engine over fetched files, in the thread that asks', () => {
  it('samples the very tokens and log-probs of an engine over files, in a thread of its own', async () => {
    const [ours, theirs] = [await open(), await EmbeddedEngine.open({ modelPath: join(MODELS, MODEL), threads: 1, signal })];
    try {
      const [found, expected] = [await ours.generate(request(ours)), await theirs.generate(request(theirs))];
      expect([found.ids, found.logProbs, found.text]).toEqual([expected.ids, expected.logProbs, expected.text]);
    } finally {
      await Promise.all([ours.close(), theirs.close()]);
    }
  });

  it('ends a generation that is aborted between two of its steps', async () => {
    const engine = await open();
    try {
      const stop = new AbortController();
      let steps = 0;
      const generating = engine.generate(
        request(engine, { maxTokens: 1000, signal: stop.signal, onProgress: () => void (++steps === 3 && stop.abort()) }),
      );
      await expect(generating).rejects.toThrow('cancelled');
      expect(steps).toBe(3);
    } finally {
      await engine.close();
    }
  });

  it('says which file the server lacks', async () => {
    const missing = new FetchedFolder('no-model', new URL(`${server.url}/models/no-model/`));
    await expect(readModelConfig(missing)).rejects.toThrow(/^The file no-model\/config\.json does not exist; a model is/);
  });
});

describe('sameThread', () => {
  it('reports a thread as lost, once, when a message makes no sense', async () => {
    const lost: string[] = [];
    const messages: FromThread[] = [];
    const thread = sameThread(4, { message: (message) => messages.push(message), lost: ({ message }) => lost.push(message) });
    thread.post({ kind: 'abort', id: 1 });
    thread.post({ kind: 'abort', id: 2 });
    await new Promise((done) => setImmediate(done));
    expect([lost, messages]).toEqual([
      [expect.stringMatching(/^Thread 4 of the embedded engine failed: the first message .*; open a new engine$/)],
      [],
    ]);
  });
});
