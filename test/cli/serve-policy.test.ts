import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { writeAdapter } from '../trainer/publisher/adapter-files.ts';
import { until } from '../transport/loopback.ts';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';
import { runInProcess } from './in-process.ts';

const root = join(import.meta.dirname, '../..');
const NANO = join(root, 'test/models/nano-base');
const JSON_TYPE = { 'content-type': 'application/json' };
const folder = mkdtempSync(join(tmpdir(), 'vf-serve-policy-'));
writeFileSync(join(folder, 'broken.jinja'), '{% if %}');
afterAll(() => rmSync(folder, { recursive: true }));
const started = new Set<ChildProcessWithoutNullStreams>();
afterEach(() => {
  for (const child of started) child.kill('SIGKILL');
  started.clear();
});

interface Run {
  readonly child: ChildProcessWithoutNullStreams;
  stdout: string;
  stderr: string;
  /** Resolves to `[exit code, signal]`. */
  readonly ended: Promise<unknown[]>;
}

function vfServe(args: readonly string[], { env = {}, cwd = root }: { env?: Record<string, string>; cwd?: string } = {}): Run {
  const child = spawn(process.execPath, [join(root, 'src/cli/vf-serve.ts'), 'policy', ...args], { cwd, env: { ...BARE_ENVIRONMENT, ...env } });
  started.add(child);
  const result: Run = { child, stdout: '', stderr: '', ended: once(child, 'close') };
  child.stdout.on('data', (chunk) => (result.stdout += String(chunk)));
  child.stderr.on('data', (chunk) => (result.stderr += String(chunk)));
  return result;
}

/** For what ends by itself: in the process of the test. */
const ended = (...args: readonly string[]) => runInProcess('vf-serve', ['policy', ...args], { cwd: folder, env: {} });

async function serving(args: readonly string[], options = {}): Promise<Run & { readonly url: string }> {
  const result = vfServe(['--port', '0', '--threads', '1', ...args], options);
  await Promise.race([until(() => result.stdout.includes('\n')), result.ended]);
  expect(result).toMatchObject({ stdout: expect.stringMatching(/^http:\/\/[^\n]+\/v1\n$/) as string });
  return Object.assign(result, { url: result.stdout.trim() });
}

async function complete(url: string, body: object, headers: Record<string, string> = {}) {
  const response = await fetch(`${url}/completions`, { method: 'POST', headers: { ...JSON_TYPE, ...headers }, body: JSON.stringify(body) });
  return { status: response.status, body: (await response.json()) as { model: string; choices: { text: string }[] } };
}

describe('vf-serve policy', () => {
  it('serves the bundled model where none is named, says which one, and stops when interrupted (130)', async () => {
    const server = await serving([], { cwd: folder });
    expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/v1$/);
    const { status, body } = await complete(server.url, { prompt: 'Question: who?\n', max_tokens: 4 });
    expect([status, body.model, body.choices.length]).toEqual([200, 'nano-base', 1]);
    server.child.kill('SIGINT');
    expect(await server.ended).toEqual([130, null]);
    expect(server.stderr).toMatch(
      /^vf-serve: serving the bundled model .* as nano-base, 2,048 tokens; embedded engine, .*1 thread, .*; Ctrl-C stops\n/,
    );
    expect(server.stdout.trim()).toBe(server.url);
  });

  it('serves a model directory under a name, with adapters and a key', async () => {
    for (const name of ['one', 'two']) writeAdapter(join(folder, name), { b: 0.05, seed: name.length });
    const adapters = ['--adapter', `one=${join(folder, 'one')}`, '--adapter', 'two=two'];
    const options = { cwd: folder, env: { POLICY_KEY: 'sk-hidden-1234567' } };
    const server = await serving(
      ['--model', NANO, '--served-model-name', 'mine', ...adapters, '--api-key-var', 'POLICY_KEY', '--max-model-len', '256'],
      options,
    );
    expect((await complete(server.url, { prompt: [300] })).status).toBe(401);
    const authorization = 'Bearer sk-hidden-1234567';
    const cards = (await (await fetch(`${server.url}/models`, { headers: { authorization } })).json()) as {
      data: { id: string; max_model_len: number | null }[];
    };
    expect(cards.data.map(({ id, max_model_len: window }) => [id, window])).toEqual([
      ['mine', 256],
      ['one', null],
      ['two', null],
    ]);
    expect(await complete(server.url, { model: 'two', prompt: [300], max_tokens: 1 }, { authorization })).toMatchObject({
      status: 200,
      body: { model: 'two' },
    });
    server.child.kill('SIGINT');
    await server.ended;
    expect(server.stderr).toContain('as mine, 2 adapters, 256 tokens');
    expect(server.stderr).not.toContain('sk-hidden');
  });

  it('finishes the requests under way when it is asked to stop (143), and cuts them when asked twice', async () => {
    for (const twice of [false, true]) {
      const server = await serving(['--model', NANO]);
      const body = { prompt: [300], max_tokens: twice ? 2000 : 800, ignore_eos: true, n: twice ? 40 : 2 };
      const answer = complete(server.url, body).then(
        ({ status }) => status,
        () => 'cut',
      );
      const metrics = `${server.url.replace('/v1', '')}/metrics`;
      await until(async () => /num_requests_running\{.*\} [1-9]/.test(await (await fetch(metrics)).text()));
      server.child.kill('SIGTERM');
      await until(() => server.stderr.includes('finishing pending requests'));
      if (twice) server.child.kill('SIGTERM');
      expect(await server.ended).toEqual([143, null]);
      expect(await answer).toBe(twice ? 'cut' : 200);
    }
  }, 60_000);

  it('says that a loaded adapter names another base, in the answer and in the log, and takes as many adapters as --max-adapters', async () => {
    const [own, other] = [join(folder, 'own'), join(folder, 'other')];
    writeAdapter(own, { config: { base_model_name_or_path: NANO } });
    writeAdapter(other, { config: { base_model_name_or_path: 'org/another-\u001b[2Jmodel' } });
    const server = await serving(['--model', NANO, '--max-adapters', '2']);
    const load = async (name: string, path: string) => {
      const body = JSON.stringify({ lora_name: name, lora_path: path });
      const response = await fetch(`${server.url}/load_lora_adapter`, { method: 'POST', headers: JSON_TYPE, body });
      return [response.status, await response.text()];
    };
    expect(await load('own', own)).toEqual([200, "Success: LoRA adapter 'own' added successfully."]);
    expect(await load('other', other)).toEqual([
      200,
      expect.stringMatching(
        /^Success: LoRA adapter 'other' added successfully\. Warning: the adapter .*other was trained on another base: .*names org\/another/,
      ),
    ]);
    expect(await load('third', own)).toEqual([
      400,
      expect.stringContaining('2 adapters are loaded, which is the limit (--max-adapters); unload one first'),
    ]);
    await until(() => server.stderr.includes('names org/another-\\x1b[2Jmodel'));
    expect(server.stderr.match(/was trained on another base/g)).toHaveLength(1);
  });

  it('takes the bundled model by its name, as vf-train and vf-eval do, and says of a folder for adapters that it is not there yet', async () => {
    const server = await serving(['--model', 'nano-base', '--allow-adapters-under', 'later'], { cwd: folder });
    await until(() => server.stderr.includes('Ctrl-C stops'));
    expect(server.stderr).toMatch(/as nano-base, 2,048 tokens/);
    expect(server.stderr).toContain('--allow-adapters-under later does not exist yet; adapters can be loaded from it once it does\n');
  });

  it('renders with the chat template of a file, and warns when others can reach it', async () => {
    const server = await serving(['--model', NANO, '--chat-template', join(root, 'test/vllm/chatml.jinja'), '--host', '0.0.0.0']);
    const tokenize = async (body: object) => {
      const response = await fetch(server.url.replace('/v1', '/tokenize'), { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(body) });
      return (await response.json()) as { tokens: number[] };
    };
    const { tokens } = await tokenize({ messages: [{ role: 'user', content: 'a' }] });
    expect(tokens).toEqual((await tokenize({ prompt: '<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n' })).tokens);
    await until(() => server.stderr.includes('--allow-adapters-under'));
    expect(server.stderr).toContain('listening on 0.0.0.0: other machines can send requests; no API key is required (--api-key-var)');
  });

  it.each([
    [['--model', '/nowhere/at/all'], /^vf-serve: There is no model directory \/nowhere\/at\/all/],
    [
      ['--chat-template', '/nowhere.jinja'],
      /^vf-serve: Cannot read the file of --chat-template \/nowhere\.jinja: no such file or directory \(ENOENT\)/,
    ],
    [['--chat-template', join(folder, 'broken.jinja')], /^vf-serve: The chat template cannot be parsed: .*\. Correct the template/],
    [['--adapter', 'v1'], /^vf-serve: --adapter must be NAME=DIRECTORY, got v1/],
    [['--adapter', 'v1=/nowhere'], /^vf-serve: .*\/nowhere/],
    [['--adapter', 'nano-base=/nowhere'], /^vf-serve: --adapter cannot have the model's own name/],
    [['--api-key-var', 'NOT_SET'], /^vf-serve: The environment variable NOT_SET \(--api-key-var\) holds no API key/],
    [['--port', '80a'], /^vf-serve: --port must be an integer from 0 to 65535, got "80a"/],
    [['--logprobs-mode', 'raw'], /^vf-serve: .*--logprobs-mode must be raw_logprobs or processed_logprobs, got "raw"/],
    [['--max-model-len', '100000'], /^vf-serve: .*100000/],
    [['--cache-tokens', '900000000'], /^vf-serve: --cache-tokens must be at most \d+, .*; got 900000000\n$/],
    [['--modle', 'x'], /^vf-serve: Unknown flag --modle \(did you mean --model\?\)/],
    [['nano-base'], /^vf-serve: vf-serve policy takes no argument, got 1: nano-base/],
  ])('answers %j with one line and exit code 2', async (args, message) => {
    const { code, stdout, stderr } = await ended(...args, '--threads', '1', ...(args[0] === '--port' ? [] : ['--port', '0']));
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(message);
    expect(stderr.trimEnd()).not.toContain('\n');
  });

  it('teaches with --help', async () => {
    const help = await ended('--help');
    expect(help.code).toBe(0);
    for (const word of [
      '--model',
      '--adapter',
      '--chat-template',
      '--api-key-var',
      '--threads',
      '--logprobs-mode',
      '--allow-adapters-under',
      'curl',
      'load_lora_adapter',
      'vf-eval',
    ])
      expect(help.stdout).toContain(word);
  });
});
