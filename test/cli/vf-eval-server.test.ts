/** vf-eval against servers on loopback: what it finds out, what it sends, and what it keeps to itself. */
import { describe, expect, it } from 'vitest';
import { type Loopback, loopback, readText, sendJson } from '../transport/loopback.ts';
import { EvalFolder } from './vf-eval-process.ts';

interface ChatServer extends Loopback {
  readonly bodies: readonly Record<string, unknown>[];
  readonly headers: readonly Record<string, unknown>[];
}

/** An API that lists its models and knows chat completions, nothing else. `answer` may change the reply. */
async function chatServer(
  answer: (body: Record<string, unknown>, n: number) => { status?: number; text: string },
  models = ['M'],
): Promise<ChatServer> {
  const bodies: Record<string, unknown>[] = [];
  const headers: Record<string, unknown>[] = [];
  const server = await loopback(async (request, response) => {
    headers.push(request.headers);
    if (request.url?.startsWith('/v1/models'))
      return sendJson(response, 200, { object: 'list', data: models.map((id) => ({ id, object: 'model' })) });
    if (!request.url?.startsWith('/v1/chat/completions')) return sendJson(response, 404, { error: { message: 'no such route' } });
    const body = JSON.parse(await readText(request)) as Record<string, unknown>;
    bodies.push(body);
    const { status = 200, text } = answer(body, bodies.length);
    if (status !== 200) return sendJson(response, status, { error: { message: text } });
    const message = { role: 'assistant', content: text };
    const choices = [{ index: 0, message, finish_reason: 'stop', logprobs: null }];
    return sendJson(response, 200, {
      id: 'x',
      object: 'chat.completion',
      created: 0,
      model: body['model'],
      choices,
      usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
    });
  });
  return Object.assign(server, { bodies, headers });
}

const answerParis = () => ({ text: 'I know. <answer> Paris </answer>' });

describe.concurrent('vf-eval and a server', () => {
  it('finds out that an API has no token access, and plays it as a chat that it calls an approximation', async () => {
    await using server = await chatServer(answerParis);
    using folder = new EvalFolder();
    const { code, stdout, stderr } = await folder.run(['capitals', '-n', '2', '-b', `${server.url}/v1`, '-t', '64', '-S', '{"top_k": 5}']);
    expect(stderr).toContain('Chat mode is an approximation here');
    expect(stdout).toMatch(/^policy +M at http:\/\/127\.0\.0\.1:\d+\/v1 \(chat messages, an/m);
    expect(stdout).toMatch(/^reward +1\.000 /m);
    expect(code).toBe(0);
    expect(server.bodies).toHaveLength(2);
    expect(server.bodies[0]).toMatchObject({ model: 'M', top_k: 5 });
    for (const field of ['temperature', 'top_p']) expect(server.bodies[0]).not.toHaveProperty(field);
    expect(server.bodies[0]).not.toHaveProperty('seed');
  });

  it('plays a conversation as messages where a server has no token access, which is not an approximation', async () => {
    await using server = await chatServer(answerParis);
    using folder = new EvalFolder();
    const { code, stderr } = await folder.run(['capitals', '-n', '1', '-b', `${server.url}/v1`, '-m', 'M', '-a', '{"format": "chat"}']);
    expect(code).toBe(0);
    expect(stderr).not.toContain('approximation');
    expect(new Set(server.requests)).toContain('POST /v1/chat/completions');
  });

  it('keeps every secret out of its output and its files, also when the server repeats them', async () => {
    const secrets = ['sk-test-51cr3t', 'p4ssw0rd-in-url', 'h3ader-s3cret', 'hf_s3rvice_token'];
    await using server = await chatServer((_body, n) => ({
      status: n % 2 === 0 ? 400 : 200,
      text: `You sent ${secrets.join(' ')} <answer> Paris </answer>`,
    }));
    using folder = new EvalFolder();
    const url = server.url.replace('http://', `http://user:${secrets[1]}@`);
    const args = [
      'capitals',
      '-n',
      '4',
      '-b',
      `${url}/v1`,
      '-m',
      'M',
      '-k',
      'MY_KEY',
      '--header',
      `X-Api-Key: ${secrets[2]}`,
      '-a',
      `{"service_token": "${secrets[3]}"}`,
      '-v',
      '--max-retries',
      '0',
    ];
    const ended = await folder.run(args, { MY_KEY: secrets[0]! });
    expect(server.headers.some((h) => h['x-api-key'] === secrets[2])).toBe(true);
    const { stdout, stderr } = ended;
    expect(stderr).toContain('failed: PolicyError');
    expect(folder.results()).toHaveLength(4);
    const everything = [stdout, stderr, ...folder.files().values()].join('\n');
    expect(everything).toContain('You sent *** ');
    // A notice of the environment.
    expect(stderr).toContain('It sends ***\n');
    for (const secret of secrets) expect(everything).not.toContain(secret);
    const json = await folder.run([...args, '--json', '--dry-run'], { MY_KEY: secrets[0]! });
    for (const secret of secrets) expect(json.stdout + json.stderr).not.toContain(secret);
  });

  it('counts failures as data: they have no reward and do not change the exit code, unless nothing else was recorded', async () => {
    await using flaky = await chatServer((_body, n) => (n === 1 ? { status: 400, text: 'no' } : answerParis()));
    using folder = new EvalFolder();
    const args = ['capitals', '-n', '3', '-c', '1', '-m', 'M', '--max-retries', '0', '--json'];
    const some = await folder.run([...args, '-b', `${flaky.url}/v1`]);
    expect(some.code).toBe(0);
    expect(JSON.parse(some.stdout)).toMatchObject({ rollouts: { finished: 2, errored: 1 }, reward: { value: 1, n: 2 }, errors: { PolicyError: 1 } });
    await using broken = await chatServer(() => ({ status: 400, text: 'never' }));
    const none = await folder.run([...args, '-b', `${broken.url}/v1`]);
    expect(none.code).toBe(1);
    expect(none.stderr).toMatch(/vf-eval: every rollout failed: PolicyError: .*never/);
    expect(JSON.parse(none.stdout)).toMatchObject({ rollouts: { finished: 0, errored: 3 }, reward: null });
  });

  describe('that is offered native tools as a chat API', () => {
    const NOTES = `
import { Dataset, defineTool, reward, Rubric, ToolEnv } from 'vf-search';
const tools = [defineTool({ name: 'find', description: 'Finds.', parameters: { type: 'object', properties: {} }, execute: () => 1 })];
const rows = [0, 1, 2].map((i) => ({ exampleId: i, prompt: [{ role: 'user', content: 'Q' }] }));
const rubric = new Rubric({ funcs: [reward(() => 1, { name: 'right' })] });
export const loadEnvironment = () => new ToolEnv({ id: 'notes', eval: new Dataset('notes', rows), rubric, tools, calls: 'native', limits: { responseTokens: 60 } });`;
    const refusing = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set';
    const args = (url: string) => ['notes', '-b', `${url}/v1`, '-m', 'M'];
    const open = (answer: Parameters<typeof chatServer>[0]) => {
      const folder = new EvalFolder();
      folder.file('environments/notes/environment.mjs', NOTES);
      return chatServer(answer).then((server) => ({ server, folder }));
    };

    it.each([[[]], [['--dry-run']]])('is refused before the first rollout where it accepts none %j', async (flags) => {
      const { server, folder } = await open(({ tools }) => (tools === undefined ? answerParis() : { status: 400, text: refusing }));
      await using _ = server;
      using play = folder;
      const { code, stderr } = await play.run([...args(server.url), ...flags]);
      expect(code).toBe(2);
      expect(stderr).toContain('tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set');
      expect(stderr).toMatch(/notes calls tools natively, .* Start vLLM with --enable-auto-tool-choice --tool-call-parser hermes/);
      expect(server.bodies).toHaveLength(1);
      expect(server.bodies[0]).toMatchObject({ max_tokens: 1, tools: [{ type: 'function' }] });
    });

    it('is refused with remedies for any API where the server may not be vLLM', async () => {
      const { server, folder } = await open(({ tools }) => (tools === undefined ? answerParis() : { status: 400, text: 'tools are not supported' }));
      await using _ = server;
      using play = folder;
      expect((await play.run(args(server.url))).stderr).toContain('Choose a model and an API that support tools, or use calls "text"');
    });

    it('is played where it accepts them, and where it only refuses one token', async () => {
      const { server, folder } = await open((_body, n) => (n === 1 ? { status: 400, text: 'max_tokens is too small' } : answerParis()));
      await using _ = server;
      using play = folder;
      const { code, stdout } = await play.run(args(server.url));
      expect(code).toBe(0);
      expect(stdout).toMatch(/^reward +1\.000 /m);
      expect(server.bodies).toHaveLength(4);
    });
  });

  it('asks for a name where a server has several models', async () => {
    await using server = await chatServer(answerParis, ['A', 'B']);
    using folder = new EvalFolder();
    const { code, stderr } = await folder.run(['capitals', '-b', `${server.url}/v1`]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/serves A, B\. Name one as the model \(-m/);
  });

  it('gives up on a server that never answers, in seconds', async () => {
    await using silent = await loopback(() => {});
    using folder = new EvalFolder();
    // In a process of its own it waits next to the other tests.
    const { code, stderr } = await folder.start(['capitals', '-b', `${silent.url}/v1`, '-m', 'M']).ended;
    expect(code).toBe(1);
    expect(stderr).toMatch(/did not answer within 5 s/);
    expect(folder.files().size).toBe(0);
  });
});
