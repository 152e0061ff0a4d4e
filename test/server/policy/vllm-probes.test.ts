/**
 * Whatever a real vLLM 0.32.0 answered to vllm-probes.ts, this server answers: the same status, the same fields, the same text and log-probs. scripts/vllm-cpu/record.ts
 * sets VF_VLLM_RECORD to the URL of a real server, whose answers are recorded first.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NANO_ADAPTER, tensor, writeAdapter } from '../../trainer/publisher/adapter-files.ts';
import { type JsonAnswer, JSON_TYPE, NANO_PATH, type NanoServer, answerOf, nanoServer } from './nano-server.ts';
import { comparisons } from './compare-answers.ts';
import { ADAPTERS, type Probe, PROBES } from './vllm-probes.ts';

const FILE = join(import.meta.dirname, '../../golden/vllm/probes.json');
const folder = mkdtempSync(join(tmpdir(), 'vf-probes-'));
afterAll(() => rmSync(folder, { recursive: true }));

interface Recorded {
  readonly name: string;
  readonly status: number;
  /** Directories of adapters and models as `<name>`. */
  readonly answer: string;
}

const directoryOf = (name: string) => join(folder, name);
const modelDirectory = join(folder, 'model');

function writeAdapters(): void {
  const A = 'base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight';
  const strange = { ...NANO_ADAPTER, modules: [{ path: 'model.layers.0.self_attn.zz_proj', inFeatures: 128, outFeatures: 128 }] };
  const wishes = {
    good: { b: 0.05, seed: 1 },
    other: { b: 0.05, seed: 2 },
    wide: { adapter: { ...NANO_ADAPTER, rank: 32 } },
    strange: { adapter: strange },
    torn: {},
    misshapen: { edit: (tensors) => tensors.set(A, tensor([4, 64], new Float32Array(256).fill(0.1))) },
    nan: { edit: (tensors) => tensors.set(A, tensor([4, 128], new Float32Array(512).fill(NaN, 77, 78))) },
  } satisfies Record<(typeof ADAPTERS)[number], Parameters<typeof writeAdapter>[1]>;
  for (const [name, wish] of Object.entries(wishes)) writeAdapter(directoryOf(name), wish);
  const weights = join(directoryOf('torn'), 'adapter_model.safetensors');
  writeFileSync(weights, readFileSync(weights).subarray(0, 20_000));
}

async function ask(url: string, { method = 'POST', path, body }: Probe): Promise<JsonAnswer> {
  const text = typeof body === 'string' ? body : body === undefined ? null : JSON.stringify(body);
  const sent = text?.replace(/<(\w+)>/g, (mark, name: string) => ((ADAPTERS as readonly string[]).includes(name) ? directoryOf(name) : mark));
  return answerOf(await fetch(`${url}${path}`, { method, ...(sent === undefined ? {} : { body: sent, headers: JSON_TYPE }) }));
}

function withoutDirectories(text: string): string {
  return ADAPTERS.reduce((rest, name) => rest.replaceAll(directoryOf(name), `<${name}>`), text).replaceAll(modelDirectory, '<model>');
}

async function record(url: string): Promise<void> {
  const { data } = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string; parent: string | null }[] };
  for (const { id, parent } of data) {
    if (parent !== null) await ask(url, { name: '', path: '/v1/unload_lora_adapter', body: { lora_name: id } });
  }
  const answers: Recorded[] = [];
  for (const probe of PROBES) {
    const { status, text } = await ask(url, probe);
    answers.push({ name: probe.name, status, answer: withoutDirectories(text).replaceAll('"root":"test/models/nano-base"', '"root":"<model>"') });
  }
  const stamp = {
    producer: 'scripts/vllm-cpu/record.ts',
    server: `vLLM ${((await (await fetch(`${url}/version`)).json()) as { version: string }).version} (vllm-cpu)`,
    model: 'test/models/nano-base',
    flags: 'those of scripts/vllm-cpu/serve.sh with VF_VLLM_LORA=1, --chat-template test/vllm/chatml.jinja',
  };
  const lines = answers.map((answer) => `    ${JSON.stringify(answer)}`).join(',\n');
  writeFileSync(FILE, `{\n  "stamp": ${JSON.stringify(stamp)},\n  "answers": [\n${lines}\n  ]\n}\n`);
}

describe('policyApp', () => {
  let server: NanoServer;
  let recorded: Map<string, Recorded>;
  const given = new Map<string, JsonAnswer>();
  beforeAll(async () => {
    writeAdapters();
    // oxlint-disable-next-line eslint/no-process-env -- the recorder starts the tests
    const upstream = process.env['VF_VLLM_RECORD'];
    if (upstream !== undefined) await record(upstream.replace(/\/v1\/?$/, ''));
    const { answers } = JSON.parse(readFileSync(FILE, 'utf8')) as { answers: Recorded[] };
    recorded = new Map(answers.map((answer) => [answer.name, answer]));
    cpSync(NANO_PATH, modelDirectory, { recursive: true });
    cpSync(join(import.meta.dirname, '../../vllm/chatml.jinja'), join(modelDirectory, 'chat_template.jinja'));
    server = await nanoServer({ servedName: 'nano-base', maxLoraRank: 16, engine: { modelPath: modelDirectory } });
    for (const probe of PROBES) {
      const answer = await ask(server.url, probe);
      const text = withoutDirectories(answer.text);
      given.set(probe.name, { ...answer, text, body: answer.body === null ? null : (JSON.parse(text) as unknown) });
    }
  }, 120_000);
  afterAll(() => server?.close());

  it('was asked what vLLM was asked', () => {
    expect([...recorded.keys()]).toEqual(PROBES.map(({ name }) => name));
    expect(new Set(recorded.keys()).size).toBe(PROBES.length);
  });

  it.each(PROBES.map((probe) => [probe.name, probe] as const))('answers as vLLM: %s', (name, { differs }) => {
    const theirs = recorded.get(name)!;
    const ours = given.get(name)!;
    expect({ status: ours.status, text: ours.text }).toMatchObject({ status: differs?.status ?? theirs.status });
    for (const [own, wanted] of comparisons(ours, theirs, differs)) expect(own).toEqual(wanted);
  });

  it('reports none of it as its own fault', () => {
    expect(server.failures).toEqual([]);
  });
});
