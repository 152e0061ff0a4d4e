/** The command, each time in a folder of its own, with the document's own files. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loopback, sendJson, until } from '../../transport/loopback.ts';
import { TemporaryFolder } from '../eval/temporary-folder.ts';
import { pipeline, ROOT, serving, start } from './pipeline-process.ts';
import { flagsFor, searchO1Servers } from './search-o1-servers.ts';

const SEARCH_O1 = 'examples/search_o1.yaml';
const PARAMETERS = 'examples/parameter/search_o1.yaml';
const bytes = (path: string) => readFileSync(path, 'utf8');
const filesOf = (folder: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true }).flatMap((entry) => (entry.isFile() ? [join(entry.parentPath, entry.name)] : []));

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

describe('vf-pipeline build', () => {
  it('copies the bundled example into an empty folder, byte for byte', async () => {
    using folder = new TemporaryFolder();
    const { status, stderr } = await pipeline(['build', SEARCH_O1], folder.path);
    expect(status).toBe(0);
    expect(stderr).toContain(`copied ${SEARCH_O1} and the files that it names from the package`);
    const files = filesOf(folder.path).map((path) => path.slice(folder.path.length + 1));
    expect(files.toSorted()).toEqual([
      'examples/data/sample_asqa_5.jsonl',
      PARAMETERS,
      'examples/prompt/search_o1_reasoning.jinja',
      'examples/prompt/search_o1_refinement.jinja',
      SEARCH_O1,
    ]);
    for (const file of files) expect(bytes(join(folder.path, file))).toBe(bytes(join(ROOT, file)));
  });

  it("copies the sample of questions that the document's files name and a folder lacks, once", async () => {
    using folder = new TemporaryFolder();
    await pipeline(['build', SEARCH_O1], folder.path);
    const sample = join(folder.path, 'examples/data/sample_asqa_5.jsonl');
    rmSync(sample);
    expect(await pipeline(['check', SEARCH_O1], folder.path)).toMatchObject({ status: 2, stderr: expect.stringContaining('vf-pipeline build') });
    expect((await pipeline(['build', SEARCH_O1], folder.path)).stderr).toContain('copied examples/data/sample_asqa_5.jsonl from the package');
    expect(bytes(sample)).toBe(bytes(join(ROOT, 'examples/data/sample_asqa_5.jsonl')));
    writeFileSync(sample, '{"question": "mine", "golden_answers": ["x"]}\n');
    expect((await pipeline(['build', SEARCH_O1], folder.path)).stderr).not.toContain('copied');
    expect(bytes(sample)).toContain('mine');
  });

  it('adds what is missing and keeps what is set, comments too', async () => {
    using folder = new TemporaryFolder();
    await pipeline(['build', SEARCH_O1], folder.path);
    const path = join(folder.path, PARAMETERS);
    writeFileSync(path, '# mine\nretriever:\n  top_k: 9 # nine\ngeneration: {model_name: m}\n');
    expect((await pipeline(['build', SEARCH_O1, '--set', 'generation.base_url=http://h/v1'], folder.path)).status).toBe(0);
    const text = bytes(path);
    expect(text).toMatch(/^# mine\nretriever:\n {2}top_k: 9 # nine\n/);
    expect(text).toContain("query_instruction: 'Query: '".replaceAll("'", '"'));
    expect(text).toContain('http://h/v1');
    expect(text).toContain('model_name: m');
    expect(text).not.toContain('concurrency');
    await pipeline(['build', SEARCH_O1], folder.path);
    expect(bytes(path)).toBe(text);
  });

  it("takes the defaults of a server from its folder's parameter.yaml, for build and for run, and names keys that change nothing", async () => {
    using folder = new TemporaryFolder();
    folder.write(
      'q.yaml',
      'servers: {benchmark: servers/benchmark, prompt: servers/prompt, generation: servers/generation}\npipeline: [benchmark.get_data, prompt.qa_boxed]\n',
    );
    folder.write('t.jinja', '{{ question }}!');
    folder.write('rows.jsonl', '{"question": "a"}\n{"question": "b"}\n');
    for (const name of ['prompt', 'benchmark', 'generation']) mkdirSync(join(folder.path, 'servers', name), { recursive: true });
    folder.write('servers/prompt/parameter.yaml', 'template: t.jinja\nkr_template: none.jinja\n');
    folder.write('servers/benchmark/parameter.yaml', 'benchmark: {path: rows.jsonl, key_map: {q_ls: question}}\n');
    // A key that is not used may have any value; UltraRAG's own file has keys of backends that are not built in.
    folder.write('servers/generation/parameter.yaml', 'base_url: 3\ngpu_ids: 0,1\n');
    const ran = await pipeline(['run', 'q.yaml', '--set', 'benchmark.benchmark.limit=1'], folder.path);
    expect(ran).toMatchObject({
      status: 0,
      stderr: expect.stringContaining('servers/generation/parameter.yaml: the built-in server has no parameter gpu_ids'),
    });
    const [result] = filesOf(join(folder.path, 'outputs')).filter((path) => path.endsWith('result.json'));
    expect(JSON.parse(bytes(result!))).toMatchObject({ variables: { prompt_ls: ['a!'] } });
    expect((await pipeline(['build', 'q.yaml'], folder.path)).status).toBe(0);
    expect(bytes(join(folder.path, 'parameter/q.yaml'))).toBe(
      'benchmark:\n  benchmark:\n    key_map:\n      q_ls: question\n    path: rows.jsonl\ngeneration: {}\nprompt:\n  template: t.jinja\n',
    );
    folder.write('servers/prompt/parameter.yaml', '- t.jinja\n');
    expect(await pipeline(['check', 'q.yaml'], folder.path)).toMatchObject({
      status: 2,
      stderr: expect.stringMatching(/^vf-pipeline: servers\/prompt\/parameter\.yaml must have a value for each parameter, got a list.*\n$/),
    });
  });

  it("reads UltraRAG's <name>_parameter.yaml, and writes <name>.yaml next to it", async () => {
    using folder = new TemporaryFolder();
    await pipeline(['build', SEARCH_O1], folder.path);
    rmSync(join(folder.path, PARAMETERS));
    writeFileSync(join(folder.path, 'examples/parameter/search_o1_parameter.yaml'), 'retriever: {top_k: 7}\ncustom: {}\n');
    expect((await pipeline(['build', SEARCH_O1], folder.path)).status).toBe(0);
    expect(bytes(join(folder.path, PARAMETERS))).toMatch(/^ {2}top_k: 7$/m);
    expect(bytes(join(folder.path, PARAMETERS))).toMatch(/^custom: \{\}$/m);
  });
});

describe('a run whose files change', () => {
  const FILES = {
    'p.yaml': 'servers: {benchmark: , prompt: , mine: go.ts, evaluation: }\npipeline: [benchmark.get_data, prompt.qa_boxed, mine.go]\n',
    'parameter/p.yaml': 'benchmark: {benchmark: {path: rows.jsonl, key_map: {q_ls: question}}}\nprompt: {template: p.jinja}\n',
    'rows.jsonl': '{"question": "q"}\n',
    'p.jinja': '{{ question }}',
    'go.ts': `import { existsSync } from 'node:fs';
export const tools = { go: { io: 'prompt_ls->out', run: ({ prompt_ls }) => {
  if (!existsSync('ready')) throw new Error('not ready');
  return { out: prompt_ls };
} } };`,
  };
  const EDITS = [
    ['p.jinja', 'new {{ question }}'],
    ['rows.jsonl', '{"question": "another"}\n'],
    ['go.ts', 'export const tools = { go: { io: "prompt_ls->out", run: () => ({ out: [] }) } };'],
  ] as const;

  it('is not continued with other templates, questions or tools', async () => {
    using folder = new TemporaryFolder();
    mkdirSync(join(folder.path, 'parameter'));
    for (const [name, text] of Object.entries(FILES)) folder.write(name, text);
    expect(await pipeline(['run', 'p.yaml'], folder.path)).toMatchObject({ status: 1, stderr: expect.stringContaining('not ready') });
    const runs = join(folder.path, 'outputs/pipelines/p');
    const again = ['run', 'p.yaml', '-R', join(runs, readdirSync(runs)[0]!)];
    for (const [name, text] of EDITS) {
      folder.write(name, text);
      const changed = await pipeline(again, folder.path);
      expect(changed).toMatchObject({ status: 2, stderr: expect.stringContaining(`${name} has changed since the run in`) });
      expect(await pipeline(['run', 'p.yaml', '-R'], folder.path)).toEqual(changed);
      folder.write(name, FILES[name]);
    }
    folder.write('ready', '');
    expect(await pipeline([...again, '--set', 'evaluation.save_path=other.json'], folder.path)).toMatchObject({
      status: 0,
      stderr: expect.stringContaining('continuing after 2 complete calls'),
    });
  });
});

describe('a server of one’s own', () => {
  it('runs from TypeScript, bundled and copied, together with the built-in servers', async () => {
    using folder = new TemporaryFolder();
    const bundled = await pipeline(['run', 'examples/own-tools.yaml'], folder.path);
    expect(bundled).toMatchObject({ status: 0, stdout: expect.stringMatching(/^em +1\.000\nf1 +1\.000\n4 calls\n/) });
    expect((await pipeline(['build', 'examples/own-tools.yaml'], folder.path)).status).toBe(0);
    const copied = await pipeline(['run', 'examples/own-tools.yaml', '--set', 'mine.missing=none'], folder.path);
    expect(copied.stdout.split('\n').slice(0, 3)).toEqual(bundled.stdout.split('\n').slice(0, 3));
    expect((await pipeline(['check', 'examples/own-tools.yaml', '--start-servers', '--set', 'mine.mising=none'], folder.path)).stderr).toMatch(
      /--set: the server mine has no parameter mising \(did you mean missing\?\)/,
    );
  });

  it.each<[string, string | null, number, RegExp]>([
    [
      'throws',
      'export const tools = { go: { io: "q_ls->q_ls", run: () => { throw new Error("oh no"); } } };',
      1,
      /mine\.go \(step 2\) failed: oh no/,
    ],
    ['is not there', null, 2, /The server mine is mine\.ts, but mine\.ts does not exist/],
    ['has no tools', 'export const tols = {};', 2, /mine\.ts \(the server mine\) must export tools/],
    ['cannot be parsed', 'export const tools = {', 2, /The server mine cannot be imported from .*mine\.ts/],
    ['has a tool without io', 'export const tools = { go: { run: () => ({}) } };', 2, /mine\.go .* must have io/],
    ['gives nothing', 'export const tools = { go: { io: "q_ls->q_ls", run: () => ({}) } };', 1, /mine\.go did not give q_ls; it gave nothing/],
    [
      'gives another thing',
      'export const tools = { go: { io: "q_ls->q_ls", run: () => 3 } };',
      1,
      /mine\.go must give an object with its outputs, got a number/,
    ],
    [
      'gives what JSON cannot hold',
      'export const tools = { go: { io: "q_ls->q_ls", run: () => ({ q_ls: [1, { a: [new Date(0)] }] }) } };',
      1,
      /mine\.go gave a Date at q_ls\[1\]\.a\[0\]\. JSON cannot hold it/,
    ],
    [
      'records what JSON cannot hold',
      'export const tools = { go: { io: "q_ls->q_ls", run: ({ q_ls }, { record }) => { record(0, [1n]); return { q_ls }; } } };',
      1,
      /mine\.go gave a bigint at record\(0\)\[0\]/,
    ],
    [
      'gives undefined within an object',
      'export const tools = { go: { io: "q_ls->q_ls", run: () => ({ q_ls: [{ title: undefined }] }) } };',
      1,
      /mine\.go gave undefined at q_ls\[0\]\.title/,
    ],
    [
      'gives a list of another length',
      'export const tools = { go: { io: "q_ls->q_ls", isPerItem: true, run: () => ({ q_ls: ["a", "b"] }) } };',
      1,
      /mine\.go \(step 2\) gave a list of 2 as q_ls for 1 q_ls/,
    ],
    ['gives NaN', 'export const tools = { go: { io: "q_ls->q_ls", run: () => ({ q_ls: [NaN] }) } };', 1, /mine\.go gave NaN at q_ls\[0\]/],
    [
      'gives a circle',
      'const a = []; a.push(a); export const tools = { go: { io: "q_ls->q_ls", run: () => ({ q_ls: a }) } };',
      1,
      /mine\.go gave an object that contains itself at q_ls\[0\]/,
    ],
    [
      'has a strange io',
      'export const tools = { go: { io: "q_ls->q_ls->x", run: () => ({}) } };',
      2,
      /The inputs and outputs of mine\.go are "q_ls->q_ls->x"; write them as a,b->c/,
    ],
  ])('that %s is reported in one line', async (_, source, code, line) => {
    using folder = new TemporaryFolder();
    if (source !== null) folder.write('mine.ts', source);
    folder.write('rows.jsonl', '{"question": "q", "golden_answers": ["a"]}\n');
    folder.write('p.yaml', 'servers: {benchmark: , mine: mine.ts}\npipeline: [benchmark.get_data, mine.go]\n');
    const { status, stderr } = await pipeline(
      ['run', 'p.yaml', '--set', 'benchmark.benchmark.path=rows.jsonl', '--set', 'benchmark.benchmark.key_map.q_ls=question'],
      folder.path,
    );
    expect(status).toBe(code);
    const [last, before] = stderr.trimEnd().split('\n').toReversed();
    // A tool that failed may work later; one that gives something wrong gives it again.
    const mayPass = code === 1 && line.source.includes('failed');
    expect(mayPass ? before : last).toMatch(line);
    expect(last!.includes('every complete call is kept; to continue: ')).toBe(mayPass);
  });

  it('that changes its arguments changes no variable', async () => {
    using folder = new TemporaryFolder();
    folder.write('mine.ts', 'export const tools = { go: { io: "q_ls->n", run: ({ q_ls }: { q_ls: string[] }) => ({ n: q_ls.splice(0).length }) } };');
    folder.write('rows.jsonl', '{"question": "q"}\n');
    folder.write('p.yaml', 'servers: {benchmark: , mine: mine.ts}\npipeline: [benchmark.get_data, mine.go, mine.go]\n');
    const { stdout } = await pipeline(
      ['run', 'p.yaml', '--json', '--set', 'benchmark.benchmark={path: rows.jsonl, key_map: {q_ls: question}}'],
      folder.path,
    );
    expect(JSON.parse(stdout)).toMatchObject({ variables: { q_ls: ['q'], n: 1 } });
  });
});

describe('vf-pipeline check', () => {
  it('says what a pipeline has, and asks no server', async () => {
    using folder = new TemporaryFolder();
    const { status, stdout, stderr } = await pipeline(['check', SEARCH_O1], folder.path);
    expect({ status, stdout }).toEqual({ status: 0, stdout: '' });
    expect(stderr).toBe(`vf-pipeline: ${SEARCH_O1} is not here; checking the package's, which vf-pipeline build copies here
vf-pipeline: ${SEARCH_O1} can run: 11 tool steps, the tools of UltraRAG 2.0; no tool was called\n`);
    expect(filesOf(folder.path)).toEqual([]);
  });

  it('warns of a name that a template prints and its tool does not give', async () => {
    using folder = new TemporaryFolder();
    folder.write('t.jinja', '{{ question }} {{ questoin | trim }} {% if hint %}{{ hint }}{% endif %}{% set a = 1 %}{{ a }}{{ b | default("") }}');
    folder.write('rows.jsonl', '{"question": "q"}\n');
    folder.write('p.yaml', 'servers: {benchmark: , prompt: }\npipeline: [benchmark.get_data, prompt.qa_boxed, prompt.qa_boxed]\n');
    const set = ['prompt.template=t.jinja', 'benchmark.benchmark={path: rows.jsonl, key_map: {q_ls: question}}'];
    const { status, stderr } = await pipeline(['check', 'p.yaml', ...set.flatMap((each) => ['--set', each])], folder.path);
    expect({ status, lines: stderr.split('\n').slice(0, -1) }).toEqual({
      status: 0,
      lines: [
        'vf-pipeline: The template t.jinja prints {{ questoin }}, which is empty: its tool gives it question.',
        expect.stringContaining('p.yaml can run'),
      ],
    });
  });

  const steps = (text: string) =>
    `servers: {benchmark: servers/benchmark, prompt: servers/prompt, generation: , router: , custom: , evaluation: }\npipeline:\n${text}`;
  const start3 = '- benchmark.get_data\n';
  const ROWS = '{"question": "q", "golden_answers": ["a"]}\n';
  it.each<[string, { yaml?: string; parameters?: string; rows?: string; set?: string; template?: string }, RegExp]>([
    [
      'an unknown tool',
      { yaml: steps('- benchmark.get_dta\n') },
      /benchmark\.get_dta \(step 1\) is not a tool of the server benchmark \(did you mean get_data\?\)/,
    ],
    ['an unknown server', { yaml: steps('- bench.get_data\n') }, /needs the server bench, which the file does not list/],
    [
      'a server that is not built in',
      { yaml: 'servers: {reranker: servers/reranker, benchmark: }\npipeline: [reranker.go]' },
      /The server reranker is "reranker", which is not built in/,
    ],
    ['an unknown variable', { yaml: steps('- prompt.qa_boxed\n') }, /needs the variable q_ls, which no earlier step writes/],
    [
      'an unknown parameter',
      { yaml: steps(`${start3}- prompt.qa_boxed: {input: {template: $temple}}\n`) },
      /needs the parameter temple, which prompt does not have/,
    ],
    ['an unknown key of the file', { yaml: 'server: {}\npipeline: [a.b]' }, /has the unknown key "server"/],
    ['an unknown key of the parameters', { parameters: 'benchmark: {bench: 1}' }, /the server benchmark has no parameter bench/],
    ['an unknown key inside', { parameters: 'benchmark: {benchmark: {pth: x}}' }, /benchmark\.benchmark has no key pth/],
    ['an unknown server of the parameters', { parameters: 'bench: {}' }, /has values for bench, which is not a server of the pipeline/],
    [
      'a loop without times',
      { yaml: steps(`${start3}- loop: {steps: [benchmark.get_data]}\n`) },
      /needs times, a whole number from 1 to 10000, got nothing/,
    ],
    ['a branch without a router', { yaml: steps(`${start3}- branch: {branches: {a: []}}\n`) }, /needs router, a list of at least one tool/],
    [
      'a missing template',
      { yaml: steps(`${start3}- prompt.qa_boxed\n`) },
      /The template prompt\/qa_boxed\.jinja cannot be read: The file .* does not exist/,
    ],
    [
      'a template that is none',
      { yaml: steps(`${start3}- prompt.qa_boxed\n`), set: 'prompt.template=bad.jinja' },
      /bad\.jinja is not a Jinja template: /,
    ],
    [
      'a missing benchmark',
      { set: 'benchmark.benchmark.path=none.jsonl' },
      /The benchmark none\.jsonl does not exist\. Set benchmark\.benchmark\.path\.$/m,
    ],
    [
      "the package's sample that is not here",
      { set: 'benchmark.benchmark.path=data/fact-world-5.jsonl' },
      /does not exist\. Run `vf-pipeline build`, which copies it here, or set benchmark\.benchmark\.path\.$/m,
    ],
    [
      'a path of results that cannot be written',
      { yaml: steps(`${start3}- evaluation.evaluate: {input: {pred_ls: q_ls}}\n`), set: 'evaluation.save_path=rows.jsonl/x/y.json' },
      /evaluation\.save_path rows\.jsonl\/x\/y\.json cannot be written: .*rows\.jsonl is not a folder\. Name another file, or null for none\.$/m,
    ],
    ['brackets in brackets', { yaml: `a: ${'['.repeat(20_000)}${']'.repeat(20_000)}` }, /p\.yaml is nested more than 100 levels deep$/m],
    [
      'a loop of a million rounds',
      { yaml: steps(`${start3}- loop: {times: 1000000, steps: [benchmark.get_data]}\n`) },
      /needs times, a whole number from 1 to 10000, got 1000000/,
    ],
    [
      'golden answers in a list that is written as text',
      { rows: '{"question": "q", "golden_answers": "[\'a\', \'b\']"}\n' },
      /Line 1 of \S*rows\.jsonl: expected answers in "golden_answers", got a list written as text/,
    ],
    ['unequal lists', { rows: `${ROWS}{"question": "r"}\n` }, /The benchmark has 2 q_ls but 1 gt_ls; a row lacks a key of key_map/],
    ['a torn row', { rows: '{"question": "q"\n' }, /Line 1 of \S*rows\.jsonl is not valid JSON/],
    [
      'an alias bomb',
      {
        yaml: `a: &a [x]\n${Array.from({ length: 12 }, (_, i) => `${'bcdefghijklmn'[i]}: &${'bcdefghijklmn'[i]} [${Array(9).fill(`*${'abcdefghijklmn'[i]}`).join()}]`).join('\n')}`,
      },
      /has too many aliases/,
    ],
    ['a tag of Python', { yaml: 'servers: !!python/object:os.system {}\npipeline: []' }, /is not valid YAML: Unresolved tag/],
    [
      'an unknown metric',
      { yaml: steps(`${start3}- evaluation.evaluate: {input: {pred_ls: q_ls}}\n`), set: 'evaluation.metrics=[em, rogue-1]' },
      /evaluation\.metrics has "rogue-1", which is not a metric \(did you mean rouge-1\?\)/,
    ],
    [
      'a parameter of the wrong kind',
      {
        yaml: steps(`${start3}- prompt.qa_boxed\n- generation.generate\n`),
        set: 'generation.sampling_params={temperature: hot}',
        template: 'Q: {{question}}',
      },
      /temperature must be a number from 0 to 100, got a string/,
    ],
    ['a --set without a value', { set: 'benchmark' }, /--set must be server\.key=value, got "benchmark"/],
  ])(
    'finds %s before the first call: one line, exit code 2',
    async (_, { yaml = steps(start3), parameters = '', rows = ROWS, set, template }, line) => {
      using folder = new TemporaryFolder();
      folder.write('p.yaml', yaml);
      folder.write('rows.jsonl', rows);
      folder.write('bad.jinja', '{% if %}');
      if (template !== undefined) {
        mkdirSync(join(folder.path, 'prompt'));
        folder.write('prompt/qa_boxed.jinja', template);
      }
      mkdirSync(join(folder.path, 'parameter'));
      folder.write(
        'parameter/p.yaml',
        parameters === '' ? 'benchmark: {benchmark: {path: rows.jsonl, key_map: {q_ls: question, gt_ls: golden_answers}}}' : parameters,
      );
      // `run` begins with the same check.
      const { status, stdout, stderr } = await pipeline(
        [set === undefined ? 'run' : 'check', 'p.yaml', ...(set === undefined ? [] : ['--set', set])],
        folder.path,
      );
      expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
      expect(stderr).toMatch(line);
      expect(stderr.trimEnd().split('\n')).toHaveLength(1);
      expect(existsSync(join(folder.path, 'outputs'))).toBe(false);
    },
  );
});

describe('vf-pipeline run', () => {
  it("runs the document's files in an empty folder, with a real policy server and a real retrieval server", async () => {
    using folder = new TemporaryFolder();
    folder.write('short.jinja', '{{search_query}}\n{{document}}\n');
    await using policy = await serving(['policy', '--port', '0', '--threads', '1'], folder.path);
    await using search = await serving(['retrieve', '--corpus', 'fact-world', '--port', '0'], folder.path);
    const set = [
      `generation.base_url=${policy.url}`,
      'generation.model_name=nano-base',
      'generation.sampling_params.max_tokens=12',
      `retriever.retriever_url=${new URL(search.url).origin}`,
      'retriever.top_k=1',
      // The bundled model has a window of 2,048 tokens of its own, small tokenizer.
      'prompt.reasoning_indoc_template=short.jinja',
    ];
    const { status, stdout, stderr } = await pipeline(['run', SEARCH_O1, ...set.flatMap((each) => ['--set', each]), '--json'], folder.path);
    expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
    const { questions, failed, variables } = JSON.parse(stdout) as { questions: number; failed: unknown[]; variables: Record<string, unknown> };
    expect({ questions, failed }).toEqual({ questions: 2, failed: [] });
    expect(variables).toMatchObject({ q_ls: [expect.any(String), expect.any(String)], ans_ls: [expect.any(String), expect.any(String)] });
    expect(variables['eval_res']).toMatchObject({
      em: [0, 0],
      avg_em: 0,
      avg_acc: expect.any(Number),
      'rouge-l': [expect.any(Number), expect.any(Number)],
    });
    expect(
      filesOf(folder.path)
        .map((path) => path.slice(folder.path.length + 1).replace(/[0-9a-f]{8}(?=\/)|\d{8}_\d{6}/, '*'))
        .toSorted(),
    ).toEqual(['output/asqa_*.json', 'outputs/pipelines/search_o1/*/calls.jsonl', 'outputs/pipelines/search_o1/*/result.json', 'short.jinja']);
  });

  it('stops at Ctrl-C with 130 and the way to go on, and ends the MCP servers that it started', async () => {
    using folder = new TemporaryFolder();
    const args = [join(ROOT, 'test/pipelines/mcp-test-server.ts'), 'hangs', join(folder.path, 'pid')];
    folder.write(
      'p.yaml',
      `servers: {benchmark: , m: {command: ${JSON.stringify(process.execPath)}, args: ${JSON.stringify(args)}}}\npipeline: [benchmark.get_data, m.shout]\n`,
    );
    folder.write('rows.jsonl', '{"question": "q"}\n');
    const run = start('vf-pipeline', ['run', 'p.yaml', '--set', 'benchmark.benchmark={path: rows.jsonl, key_map: {q_ls: question}}'], folder.path);
    await until(() => run.stderr.includes('call 1: benchmark.get_data (step 1)'));
    run.child.kill('SIGINT');
    await run.ended;
    expect(run.child.exitCode).toBe(130);
    expect(run.stderr).toMatch(/to continue: node .*vf-pipeline\.js run p\.yaml .* -R /);
    const pid = Number(bytes(join(folder.path, 'pid')));
    await until(() => !isAlive(pid));
  });

  it('never shows a key of the parameter file', async () => {
    using folder = new TemporaryFolder();
    folder.write(
      'p.yaml',
      'servers: {benchmark: , generation: , prompt: }\npipeline: [benchmark.get_data, generation.generation_init, prompt.qa_boxed, generation.generate]\n',
    );
    folder.write('t.jinja', '{{question}}');
    folder.write('rows.jsonl', '{"question": "q"}\n');
    const openai = '{model_name: m, base_url: "http://127.0.0.1:1/v1", retries: 0, api_key: secret-key-456}';
    const set = [
      'benchmark.benchmark={path: rows.jsonl, key_map: {q_ls: question}}',
      'prompt.template=t.jinja',
      `generation.backend_configs.openai=${openai}`,
    ];
    const { status, stdout, stderr } = await pipeline(['run', 'p.yaml', '-v', ...set.flatMap((each) => ['--set', each])], folder.path);
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
    expect(stderr).toContain('The question failed in generation.generate');
    expect(stderr).toContain('api_key: ***');
    for (const file of filesOf(join(folder.path, 'outputs'))) expect(bytes(file)).not.toContain('secret-key-456');
    expect(stderr).not.toContain('secret-key-456');
  });

  it.each(['p.yaml', 'parameter/p.yaml', 't.jinja', 'rows.jsonl', 'rows.json', 'rows.parquet'])(
    'refuses a pipe in the place of %s in one line, without waiting',
    async (name) => {
      using folder = new TemporaryFolder();
      mkdirSync(join(folder.path, 'parameter'));
      folder.write('t.jinja', '{{question}}');
      folder.write('p.yaml', 'servers: {benchmark: , prompt: }\npipeline: [benchmark.get_data, prompt.qa_boxed]\n');
      const rows = name.startsWith('rows') ? name : 'rows.jsonl';
      folder.write(rows, '{"question": "q"}\n');
      rmSync(join(folder.path, name), { force: true });
      execFileSync('mkfifo', [join(folder.path, name)]);
      const set = [`benchmark.benchmark={path: ${rows}, key_map: {q_ls: question}}`, 'prompt.template=t.jinja'];
      const { status, stderr } = await pipeline(['run', 'p.yaml', ...set.flatMap((each) => ['--set', each])], folder.path);
      expect(status).toBe(2);
      expect(stderr).toMatch(/^vf-pipeline: [^\n]* is a pipe; name a regular file[^\n]*\n$/);
    },
  );

  it('leaves out and counts a question whose generation failed, never scoring another text in its place', async () => {
    using folder = new TemporaryFolder();
    await using server = await searchO1Servers({ hold: async (prompt) => (prompt.includes('Mona Lisa') ? 400 : undefined) });
    const run = await pipeline(['run', SEARCH_O1, ...flagsFor(server.url)], folder.path);
    expect(run.stdout).toMatch(/^acc +0\.250$/m);
    expect(run.stdout).toMatch(/^5 questions, 12 calls, 1 failed and in no mean: generation\.generate: .*400/m);
    const result = JSON.parse(bytes(filesOf(folder.path).find((path) => path.endsWith('result.json'))!)) as {
      variables: { ans_ls: unknown[]; eval_res: { acc: unknown[]; failed: number } };
    };
    expect(result.variables.ans_ls[3]).toBeNull();
    expect(result.variables.eval_res).toMatchObject({ acc: [1, 0, 0, null, 0], failed: 1 });
  });

  it('ends with 1 and the way to go on where the server refuses everything, and sends the key of LLM_API_KEY', async () => {
    using folder = new TemporaryFolder();
    const keys: unknown[] = [];
    await using server = await loopback((request, response) => {
      keys.push(request.headers.authorization);
      sendJson(response, 401, { error: { message: 'bad key secret-key-123' } });
    });
    folder.write('.env', 'LLM_API_KEY=secret-key-123\n');
    const run = await pipeline(['run', SEARCH_O1, ...flagsFor(server.url)], folder.path);
    expect(run.status).toBe(1);
    expect(keys[0]).toBe('Bearer secret-key-123');
    expect(run.stderr).toContain('The API rejected the key');
    expect(run.stderr).toMatch(/to continue: node .*vf-pipeline\.js run examples\/search_o1\.yaml .*-R /);
    expect(run.stderr + run.stdout).not.toContain('secret-key-123');
  });
});

it.each([
  ['examples/search_o1.yaml', '45b5b601837096ae80ce062fc64484e2ded0c5c98dffb5c15d2d280ce2f868e5'],
  ['examples/parameter/search_o1.yaml', 'da2ea459d65b252bd83247b06ae5c8cf1868e62a89f0f6de7b911478f8e6cbb3'],
  ['examples/prompt/search_o1_reasoning.jinja', 'e564fd72e36db42eb080d892e59494d8b70513e51c47e099130caef8c4bf3470'],
  ['examples/prompt/search_o1_refinement.jinja', '51312ea37f4baa8295bdc5d90223f7e80c7214f82cc90c952a11637f78eea4f4'],
])('%s is the document’s, byte for byte', (file, sha256) => {
  expect(
    createHash('sha256')
      .update(readFileSync(join(ROOT, file)))
      .digest('hex'),
  ).toBe(sha256);
});
