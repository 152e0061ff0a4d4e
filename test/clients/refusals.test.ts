/** The page of a proxy and an empty account, as every caller of a model's server reads them. */
import { describe, expect, it } from 'vitest';
import { chatError } from '../../src/clients/chat-failure.ts';
import { probePolicy } from '../../src/clients/vllm-probe.ts';
import { ServerHealth } from '../../src/launch/server-health.ts';
import { HttpRetriever } from '../../src/retrieval/http-retriever.ts';
import { askRoleServer } from '../../src/sessions/roles/ask-role-server.ts';
import { loadError, requestError } from '../../src/trainer/publisher/lora-refusals.ts';
import { loopback } from '../transport/loopback.ts';

const { signal } = new AbortController();
type Answer = { readonly status: number; readonly body: string };
const response = ({ status, body }: Answer) => ({ status, headers: {}, body: Buffer.from(body) });
const context = { failure: 'POST /x: 4xx', hide: (text: string) => text, model: 'm', apiKeyVariable: 'KEY', url: 'http://h/v1', hasAnswered: false };
const role = { kind: 'endpoint', model: 'm', apiKey: 'sk-1', keyVariable: 'KEY', headers: {}, alias: null } as const;

const CALLERS: Readonly<Record<string, (url: string, answer: Answer) => Promise<unknown>>> = {
  'a chat API': async (_, answer) => chatError(context, response(answer)),
  'the probe of a policy': (url) => probePolicy({ baseUrl: url, model: null, maxRetries: 0, signal }),
  "the health of a run's server": (url) => new ServerHealth({ baseUrl: url }).wait({ signal, deadlineMs: 10_000, maxRetries: 0 }),
  'the server of a role': (url) => askRoleServer('judge', { ...role, baseUrls: [url] }, signal),
  'the rehearsal of a publish': async (_, answer) => loadError('POST /v1/load_lora_adapter: 4xx', '/adapters/1', response(answer)),
  'a request of the publisher': async (_, answer) => requestError('POST /v1/completions: 4xx', response(answer)),
  'a retrieval server': (url) => new HttpRetriever({ url, maxRetries: 0 }).search(['q'], { topk: 1, signal }),
};

describe.each(Object.keys(CALLERS))('%s', (caller) => {
  it.each<[string, Answer, RegExp]>([
    [
      'the page of a proxy',
      { status: 401, body: '<!doctype html><title>Sign in</title>' },
      /a firewall or proxy before the server refuses these requests with a web page/i,
    ],
    [
      'an empty account',
      { status: 402, body: '{"error": {"message": "Payment required"}}' },
      /(credit or quota of the API key is used up|the account has no credit left)/,
    ],
  ])('reads %s as what it is, and not as a wrong key', async (_, answer, words) => {
    await using server = await loopback((__, to) => to.writeHead(answer.status).end(answer.body));
    const error = (await CALLERS[caller]!(server.url, answer).catch((thrown: unknown) => thrown)) as Error;
    expect(error.message).toMatch(words);
    expect(error.message).not.toMatch(/rejected the|healthy/);
  });
});
