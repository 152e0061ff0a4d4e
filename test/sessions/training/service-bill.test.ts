/** The cost of training through a service on loopback that computes, from the command line. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { modelPath } from '../../../src/data/bundled-models.ts';
import type { ServiceTokens } from '../../../src/tinker/service/token-meter.ts';
import { decodePass } from '../../../src/tinker/wire/protobuf-pass.ts';
import { runInProcess } from '../../cli/in-process.ts';
import { type EngineService, engineService } from '../../tinker/service/engine-service.ts';

interface Summary {
  readonly reason: string;
  readonly step: number;
  readonly cost?: Readonly<Record<string, unknown>> & { readonly usd: number | null; readonly service?: number | null };
}

let folder: string;
let service: EngineService;
beforeAll(async () => {
  service = await engineService({ modelPath: modelPath('nano-base') });
});
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-service-bill-'));
  return () => rmSync(folder, { recursive: true });
});
afterAll(() => service[Symbol.asyncDispose]());

function setPrice(price: string): void {
  mkdirSync(join(folder, 'configs'));
  const table = `[[endpoint]]\nendpoint_id = "tinker-nano"\nmodel = "nano-base"\nurl = "${service.url}/"\nprice = ${price}\n`;
  writeFileSync(join(folder, 'configs/endpoints.toml'), table);
}

const run = (words: readonly string[]) => runInProcess('vf-train', words, { cwd: folder, env: { HOME: folder } });
const training = (...more: string[]) =>
  run([
    'search-r1',
    '--preset',
    'laptop',
    '--tinker',
    'nano-base',
    '-o',
    'runs',
    '--json',
    ...[`backend.base_url=${service.url}`, 'steps=2', 'rollouts.examples_per_step=2', 'evaluation.every=0'].flatMap((each) => ['--set', each]),
    ...more,
  ]);

function linesOf<T>(file: string): T[] {
  const [name] = readdirSync(join(folder, 'runs'), { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith(file));
  return readFileSync(join(folder, 'runs', name!), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as T);
}

const runFolder = () =>
  join(
    folder,
    'runs',
    readdirSync(join(folder, 'runs'), { recursive: true, encoding: 'utf8' })
      .find((path) => path.endsWith('metrics.jsonl'))!
      .replace(/metrics\.jsonl$/, ''),
  );

/** Tokens of the training passes and prompts that the service was asked for, by its own record. */
function asked(from: number): Omit<ServiceTokens, 'sample'> {
  let [prefill, train] = [0, 0];
  for (const { route, json, bytes } of service.asked.slice(from)) {
    if (route === 'asample')
      prefill += (json!['prompt'] as { chunks: { tokens: number[] }[] }).chunks.reduce((sum, { tokens }) => sum + tokens.length, 0);
    if (route !== 'forward_backward' && route !== 'forward') continue;
    const { data, isForwardOnly } = decodePass(new Uint8Array(bytes));
    const tokens = data.reduce((sum, { input: [chunk] }) => sum + (chunk as { tokens: Int32Array }).tokens.length, 0);
    if (isForwardOnly) prefill += tokens;
    else train += tokens;
  }
  return { prefill, train };
}

describe('ServiceBill', () => {
  it('counts every token that the service was asked for, in lines of metrics and in the summary', { timeout: 120_000 }, async () => {
    setPrice('{ input = 1.0, output = 10.0, train = 100.0 }');
    const before = service.asked.length;
    const { code, stdout, stderr } = await training();
    expect({ code, stderr }).toMatchObject({ code: 0 });
    const tokens = linesOf<ServiceTokens>('service-tokens.jsonl').reduce((a, b) => ({
      prefill: a.prefill + b.prefill,
      sample: a.sample + b.sample,
      train: a.train + b.train,
    }));
    expect(tokens).toMatchObject(asked(before));
    const rows = linesOf<Record<string, number>>('metrics.jsonl');
    const sampled = rows.reduce((sum, row) => sum + row['sampled_tokens']!, 0);
    expect(tokens.sample).toBeGreaterThanOrEqual(sampled);
    const { cost } = JSON.parse(stdout) as Summary;
    const usd = (tokens.prefill + 10 * tokens.sample + 100 * tokens.train) / 1e6;
    expect(cost!.usd).toBeCloseTo(usd, 9);
    expect(cost!.service).toBe(cost!.usd);
    const inRows = rows.reduce((sum, row) => sum + row['service_cost']!, 0);
    expect(inRows).toBeGreaterThan(0.9 * usd);
    expect(inRows).toBeLessThanOrEqual(usd + 1e-12);
  });

  it('stops the run at --max-cost with exit code 3, and a resume goes on with the sum', { timeout: 120_000 }, async () => {
    setPrice('{ input = 1.0, output = 1.0, train = 1.0 }');
    const { code, stdout, stderr } = await training('--max-cost', '0.001');
    expect({ code, stderr }).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(/the run has cost \d\.\d{4} US dollars, and the limit is 0\.001/),
    });
    const stopped = JSON.parse(stdout) as Summary;
    expect(stopped).toMatchObject({ reason: 'stopped', step: 1, cost: { limit: 0.001, limit_reached: true } });
    const more = await run(['-R', runFolder(), '--max-cost', '1000', '--json']);
    expect({ code: more.code, stderr: more.stderr }).toMatchObject({ code: 0 });
    const { reason, cost } = JSON.parse(more.stdout) as Summary;
    expect(reason).toBe('finished');
    expect(cost!.usd).toBeGreaterThan(1.5 * stopped.cost!.usd!);
  });

  it('refuses --max-cost without a price before the service is asked for anything', async () => {
    const before = service.asked.length;
    const { code, stderr } = await training('--max-cost', '1');
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(
        /^vf-train: --max-cost needs the price of every model, and nano-base \(the training service\) has none\. Add a table \[\[endpoint\]\] .*\n$/,
      ),
    });
    expect(service.asked.length).toBe(before);
  });

  it('says nothing of the cost of a service on this machine without a price', { timeout: 120_000 }, async () => {
    const { code, stdout } = await training();
    expect(code).toBe(0);
    expect((JSON.parse(stdout) as Summary).cost).toBeUndefined();
    expect(linesOf<Record<string, number>>('metrics.jsonl').every((row) => !('service_cost' in row))).toBe(true);
  });
});

describe('serviceEstimate', () => {
  const dryRun = () =>
    run([
      'search-r1',
      '--preset',
      'laptop',
      '--tinker',
      'nano-base',
      '--dry-run',
      ...[`backend.base_url=${service.url}`, 'steps=3'].flatMap((each) => ['--set', each]),
    ]);

  it('grows with each price by the tokens that it names', async () => {
    setPrice('{ input = 1.0, output = 10.0, train = 100.0 }');
    const { code, stdout, stderr } = await dryRun();
    expect({ code, stderr }).toMatchObject({ code: 0 });
    const line = stdout.split('\n').find((each) => each.startsWith('cost'))!;
    const found = /and \$([\d.]+) for 3 steps.*: ([\d,]+) tokens read, ([\d,]+) sampled, ([\d,]+) trained on; prefill \$1, sample \$10/.exec(line);
    const [usd, read, sampled, trained] = found!.slice(1).map((text) => Number(text.replaceAll(',', ''))) as [number, number, number, number];
    expect(usd).toBeCloseTo((read + 10 * sampled + 100 * trained) / 1e6, 1);
    expect(Math.min(read, sampled, trained)).toBeGreaterThan(0);
  });

  it('says in one line where a price belongs, also next to prices that lack training', async () => {
    setPrice('{ input = 1.0, output = 1.0 }');
    const { stdout } = await dryRun();
    expect(stdout).toMatch(/^cost +not estimated: nano-base has no price\. Add it to tinker-nano in .*endpoints\.toml: price = \{ input = /m);
  });
});
