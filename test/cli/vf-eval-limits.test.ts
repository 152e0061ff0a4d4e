/** vf-eval and the limits of a provider: rates, credit, proxies, wrong paths. The servers' answers are those of public reports. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { type Loopback, loopback, readText, refusingUrl, sendJson } from '../transport/loopback.ts';
import { EvalFolder } from './vf-eval-process.ts';

const completion = {
  choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: '<answer> Paris </answer>' } }],
  usage: { prompt_tokens: 10, completion_tokens: 5 },
};

/** A chat API whose completions `answer` gives; it counts them from 1. */
function api(answer: (n: number, response: ServerResponse, request: IncomingMessage) => unknown): Promise<Loopback> {
  let n = 0;
  return loopback((request, response) => {
    if (request.url!.endsWith('/models')) return sendJson(response, 200, { data: [{ id: 'M' }] });
    return request.url!.endsWith('/chat/completions') ? answer(++n, response, request) : sendJson(response, 404, { error: { message: 'not found' } });
  });
}

describe.concurrent('vf-eval and a rate limit', () => {
  /** Grants `most` requests, and again `most` once `windowMs` have passed since it began to refuse; counts refusals. */
  const limited = async (most: number, windowMs: number, headers: Record<string, string>) => {
    let left = most;
    let refillsAtMs = Infinity;
    const seen = { refused: 0 };
    const server = await api((_, response) => {
      const now = performance.now();
      if (now >= refillsAtMs) [left, refillsAtMs] = [most, Infinity];
      if (left === 0) {
        refillsAtMs = Math.min(refillsAtMs, now + windowMs);
        seen.refused += 1;
        return sendJson(response, 429, { error: { message: 'Rate limit exceeded: free-models-per-min', code: 429 } }, headers);
      }
      left -= 1;
      return sendJson(response, 200, completion);
    });
    return Object.assign(server, { seen });
  };

  it.each([
    ['a wait', { 'retry-after-ms': '50' }],
    ['the time of a counter', { 'x-ratelimit-reset-requests': '50ms', 'x-ratelimit-remaining-requests': '0' }],
    ['nothing', {}],
  ])('finishes every rollout with the defaults where the server names %s', async (_, headers) => {
    await using server = await limited(10, 50, headers);
    using folder = new EvalFolder();
    const { code, stdout } = await folder.run(['capitals', '-n', '20', '-r', '2', '-b', `${server.url}/v1`, '-m', 'M', '--plain', '--json']);
    expect(code).toBe(0);
    expect(server.seen.refused).toBeGreaterThan(0);
    const summary = JSON.parse(stdout) as { rollouts: object; waited_seconds: number };
    expect(summary.rollouts).toMatchObject({ finished: 40, errored: 0 });
    expect(summary.waited_seconds).toBeGreaterThan(0);
    const metadata = JSON.parse([...folder.files()].find(([name]) => name.endsWith('metadata.json'))![1]) as {
      sessions: { waited_seconds: number }[];
    };
    expect(metadata.sessions[0]!.waited_seconds).toBeCloseTo(summary.waited_seconds, 1);
  });

  it('says in the summary what it waited', async () => {
    await using server = await limited(1, 600, { 'retry-after-ms': '600' });
    using folder = new EvalFolder();
    const { stdout, stderr } = await folder.run(['capitals', '-n', '2', '-b', `${server.url}/v1`, '-m', 'M', '--plain', '-A']);
    expect(stdout).toMatch(/^time +.*, waited 0\.\d s for rate\s+limits$/m);
    expect(stderr).toMatch(/2\/2 rollouts, .*waited 0\.\d s for rate limits/);
  });

  it('ends the run at once when the server asks for a longer wait than --max-wait, keeps what is finished, and goes on with -R', async () => {
    let isLimited = true;
    await using server = await api((n, response) =>
      n > 3 && isLimited
        ? sendJson(response, 429, { error: { message: 'Rate limit exceeded: free-models-per-day' } }, { 'retry-after': '7200' })
        : sendJson(response, 200, completion),
    );
    using folder = new EvalFolder();
    const words = ['capitals', '-n', '6', '-c', '1', '-b', `${server.url}/v1`, '-m', 'M', '--plain'];
    const ended = await folder.run([...words, '--max-wait', '60']);
    expect(ended.code).toBe(1);
    expect(ended.stderr).toMatch(
      /asks for a wait of 7200 s, and --max-wait allows 60 s\. Lower -c, or raise --max-wait\. The run stopped after 4 of 6 rollouts\./,
    );
    expect(server.requests.filter((request) => request.endsWith('/completions')).length).toBe(4);
    isLimited = false;
    const continued = await folder.run([...words, '-R']);
    expect(continued.stdout).toMatch(/^rollouts +6 finished, 0 failed$/m);
  });
});

describe.concurrent('vf-eval and an account without credit', () => {
  it.each([
    [402, { error: { message: 'Insufficient Balance', type: 'unknown_error', code: 'invalid_request_error' } }],
    [429, { error: { message: 'You exceeded your current quota', type: 'insufficient_quota', code: 'insufficient_quota' } }],
    [200, { error: { message: 'Insufficient credits', code: 402 } }],
  ])('ends at once after a %i, with the finished rollouts on file: %j', async (status, body) => {
    await using server = await api((n, response) => (n > 3 ? sendJson(response, status, body) : sendJson(response, 200, completion)));
    using folder = new EvalFolder();
    const { code, stderr } = await folder.run(['capitals', '-n', '40', '-c', '1', '-b', `${server.url}/v1`, '-m', 'M', '--plain']);
    expect(code).toBe(1);
    expect(stderr).toMatch(/The credit or quota of the API key is used up: .*billing\. The run stopped after 4 of 40 rollouts\. .*-R/);
    expect(folder.results().map(({ reward }) => reward)).toEqual([1, 1, 1, null]);
  });
});

describe.concurrent('vf-eval and a base URL without /v1', () => {
  it.each([
    ['LM Studio', (response: ServerResponse) => sendJson(response, 200, { error: 'Unexpected endpoint or method. (POST /chat/completions)' })],
    ['a page of an app', (response: ServerResponse) => response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><html></html>')],
    ['a 404', (response: ServerResponse) => sendJson(response, 404, { detail: 'Not Found' })],
  ])('is told of the right URL at the first completion: %s', async (_, answer) => {
    await using server = await loopback((_request, response) => answer(response));
    using folder = new EvalFolder();
    const { code, stderr } = await folder.run([
      'capitals',
      '-n',
      '9',
      '-b',
      server.url,
      '-m',
      'M',
      '--api-client-type',
      'chat',
      '-c',
      '1',
      '--plain',
    ]);
    expect(code).toBe(1);
    expect(stderr).toContain(`The base URL has no /v1; try ${server.url}/v1.`);
    expect(server.requests.filter((request) => request.startsWith('POST'))).toHaveLength(1);
  });
});

describe.concurrent('vf-eval and a proxy', () => {
  it('reaches an API through HTTP_PROXY, and servers on loopback without it', async () => {
    await using proxy = await api((_, response) => sendJson(response, 200, completion));
    using folder = new EvalFolder();
    const variables = { HTTP_PROXY: proxy.url.replace('http://', 'http://me:pr0xy-s3cret@') };
    const { code, stdout, stderr } = await folder.run(['capitals', '-n', '2', '-b', 'http://api.test/v1', '-m', 'M', '--plain'], variables);
    expect([code, stderr]).toEqual([0, expect.not.stringContaining('s3cret')]);
    expect(stdout).toMatch(/^rollouts +2 finished, 0 failed$/m);
    expect(proxy.requests).toContain('POST http://api.test/v1/chat/completions');
    for (const text of [stdout, ...folder.files().values()]) expect(text).not.toContain('s3cret');
    const before = proxy.requests.length;
    await using local = await api((_, response) => sendJson(response, 200, completion));
    expect(await folder.run(['capitals', '-n', '1', '-b', `${local.url}/v1`, '-m', 'M', '--plain'], variables)).toMatchObject({ code: 0 });
    expect(proxy.requests).toHaveLength(before);
  });

  it('names a proxy that cannot be reached in one line, without its password', async () => {
    using folder = new EvalFolder();
    const proxy = await refusingUrl();
    const variables = { http_proxy: proxy.replace('http://', 'http://me:pr0xy-s3cret@') };
    const { code, stderr } = await folder.run(['capitals', '-n', '2', '-b', 'http://api.test/v1', '-m', 'M', '--plain'], variables);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^vf-eval: The policy server at http:\/\/api\.test\/v1 \(-b\) cannot be reached: through the proxy .* of http_proxy: .*ECONNREFUSED.*\n$/,
    );
    expect(stderr).toContain(proxy);
    expect(stderr).not.toContain('s3cret');
  });
});

describe.concurrent('vf-eval and an API that answers only streams', () => {
  const streaming = async () => {
    const asked: unknown[] = [];
    const server = await api(async (_, response, request) => {
      const { stream } = JSON.parse(await readText(request)) as { stream?: boolean };
      asked.push(stream);
      if (stream !== true) return sendJson(response, 400, { error: { message: 'This model only support stream mode' } });
      const [{ message, finish_reason }] = completion.choices as [(typeof completion.choices)[0]];
      const chunks = [{ choices: [{ index: 0, delta: message, finish_reason }] }, { choices: [], usage: completion.usage }];
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      return response.end(`${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`);
    });
    return Object.assign(server, { asked });
  };

  it.each([
    ['by itself, which it says once', [], 'plain', [undefined, true, true]],
    ['from the start with --stream true', ['--stream', 'true'], 'plain', [true, true]],
    ['from the start by its alias', [], 'alias', [true, true]],
  ] as const)('asks for streams %s', async (_, flags, named, expected) => {
    await using server = await streaming();
    using folder = new EvalFolder();
    folder.file('endpoints.toml', `[[endpoint]]\nendpoint_id = "a"\nmodel = "M"\nurl = "${server.url}/v1"\nkey = "EMPTY"\nstream = true\n`);
    const policy = named === 'alias' ? ['-m', 'a', '-e', 'endpoints.toml'] : ['-b', `${server.url}/v1`, '-m', 'M'];
    const { code, stdout } = await folder.run(['capitals', '-n', '2', '-c', '1', ...policy, ...flags, '--plain']);
    expect([code, server.asked]).toEqual([0, expected]);
    expect(stdout).toMatch(/^rollouts +2 finished, 0 failed$/m);
    expect(stdout.replaceAll(/\s+/g, ' ').match(/is asked for streams from now on/g) ?? []).toHaveLength(
      flags.length === 0 && named === 'plain' ? 1 : 0,
    );
  });

  it('refuses a value that is none', async () => {
    using folder = new EvalFolder();
    expect((await folder.run(['capitals', '--stream', 'yes'])).stderr).toContain('--stream must be one of auto, true or false');
    folder.file('endpoints.toml', '[[endpoint]]\nendpoint_id = "a"\nmodel = "M"\nurl = "http://127.0.0.1:9/v1"\nstream = "yes"\n');
    const { code, stderr } = await folder.run(['capitals', '-m', 'a', '-e', 'endpoints.toml']);
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining('stream in [[endpoint]] 1 of endpoints.toml must be "auto", true or false, got "yes"'),
    ]);
  });
});
