/** Pipelines of strangers: what they name must not run where only a check was asked for, and a run of one must end. */
import { existsSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { NO_JOURNAL } from '../../src/pipelines/call-journal.ts';
import type { PipelinePlan } from '../../src/pipelines/pipeline-plan.ts';
import { runPipeline } from '../../src/pipelines/run-pipeline.ts';
import { pipeline } from '../cli/pipeline/pipeline-process.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';

const MODULE = `import { writeFileSync } from 'node:fs';
writeFileSync('IMPORTED', '');
export const tools = { x: { io: 'q_ls->ans_ls', run: () => ({ ans_ls: [] }) } };`;

describe('vf-pipeline check and build', () => {
  it.each(['check', 'build'])('%s starts no command, imports no module and asks no URL, and says what it left alone', async (command) => {
    using folder = new TemporaryFolder();
    let asked = 0;
    const listener = createServer((_, response) => {
      asked++;
      response.end();
    });
    await new Promise<void>((done) => listener.listen(0, '127.0.0.1', done));
    const { port } = listener.address() as AddressInfo;
    writeFileSync(join(folder.path, 'm.ts'), MODULE);
    writeFileSync(
      join(folder.path, 'p.yaml'),
      `servers:
  benchmark:
  other: {command: sh, args: [-c, "touch STARTED; exec cat", --token=sk-of-a-stranger, --api-key, hunter2]}
  mine: m.ts
  remote: {url: "http://127.0.0.1:${port}/mcp"}
pipeline:
- benchmark.get_data
- mine.x: {input: {a: q_ls, b: $unknown}, output: {c: named_ls}}
- other.y: {input: {a: anything_ls}}
- remote.z
`,
    );
    const set = command === 'check' ? ['--set', 'benchmark.benchmark={path: rows.jsonl, key_map: {q_ls: question}}'] : [];
    writeFileSync(join(folder.path, 'rows.jsonl'), '{"question":"q"}\n');
    const { status, stderr } = await pipeline([command, 'p.yaml', ...set], folder.path);
    listener.close();
    expect({ status, stderr }).toMatchObject({ status: 0 });
    expect({ asked, started: existsSync(join(folder.path, 'STARTED')), imported: existsSync(join(folder.path, 'IMPORTED')) }).toEqual({
      asked: 0,
      started: false,
      imported: false,
    });
    for (const left of ['other (sh -c touch STARTED; exec cat --token=*** --api-key ***)', 'mine (m.ts)', `remote (http://127.0.0.1:${port}/mcp)`])
      expect(stderr).toContain(`not checked: the server ${left} and what its steps take and give; if you trust it, --start-servers opens it`);
  });

  it('still finds faults around the steps that it leaves unchecked, and checks these with --start-servers', async () => {
    using folder = new TemporaryFolder();
    writeFileSync(join(folder.path, 'm.ts'), MODULE);
    writeFileSync(join(folder.path, 'rows.jsonl'), '{"question":"q"}\n');
    const check = (steps: string, ...flags: string[]) => {
      writeFileSync(join(folder.path, 'p.yaml'), `servers: {benchmark: , mine: m.ts}\npipeline: [${steps}]\n`);
      return pipeline(['check', 'p.yaml', '--set', 'benchmark.benchmark={path: rows.jsonl, key_map: {q_ls: question}}', ...flags], folder.path);
    };
    expect(await check('benchmark.get_dta, mine.x')).toMatchObject({ status: 2, stderr: expect.stringContaining('did you mean get_data?') });
    expect(await check('benchmark.get_data, mine.y')).toMatchObject({
      status: 0,
      stderr: expect.stringContaining('has no fault in what was checked'),
    });
    expect(await check('benchmark.get_data, mine.y', '--start-servers')).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('mine.y (step 2) is not a tool'),
    });
    expect(existsSync(join(folder.path, 'IMPORTED'))).toBe(true);
  });
});

describe('vf-pipeline run', () => {
  it('heeds a stop between the steps of loops that only compute', async () => {
    const times = 10_000;
    const tool = {
      kind: 'tool',
      place: '1',
      name: 'own.x',
      server: 'own',
      tool: { io: '->', run: async () => ({}) },
      inputs: [],
      outputs: [],
    } as const;
    const inner = { kind: 'loop', place: '1', times, steps: [tool] } as const;
    const plan: PipelinePlan = { steps: [{ kind: 'loop', place: '1', times, steps: [inner] }], histories: new Set(), used: new Map() };
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 50);
    const run = (signal: AbortSignal) => runPipeline(plan, { parameters: new Map(), journal: NO_JOURNAL, resolve: (path) => path, signal });
    await expect(run(stop.signal)).rejects.toThrow(/was stopped/);
    await expect(run(new AbortController().signal)).rejects.toThrow(/has made 200,000 calls and is not at its end/);
  });
});
