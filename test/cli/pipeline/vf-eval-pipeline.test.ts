/** `vf-eval pipeline`, and the commands that refuse a program. */
import { dirname } from 'node:path';
import { describe, expect, it } from 'vitest';
import { until } from '../../transport/loopback.ts';
import { EvalFolder } from '../vf-eval-process.ts';
import { TemporaryFolder } from '../eval/temporary-folder.ts';
import { runInProcess } from '../in-process.ts';
import { searchO1Servers, settingsFor } from './search-o1-servers.ts';

const SEARCH_O1 = 'examples/search_o1.yaml';

const argumentsFor = (url: string) => JSON.stringify({ file: SEARCH_O1, metric: 'acc', set: settingsFor(url) });

describe('vf-eval pipeline', () => {
  it("plays the package's own example with nothing but Node", async () => {
    using folder = new EvalFolder();
    const { code, stdout, stderr } = await folder.run(['pipeline', '--plain']);
    expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^models +none$/m);
    expect(stdout).toMatch(/^reward +1\.000 /m);
    expect(stdout).not.toMatch(/^(policy|sampling|tokens) /m);
  });

  it("plays the document's file in an empty folder: questions as rows, metrics by question, and what each model read and wrote", async () => {
    using folder = new EvalFolder();
    await using server = await searchO1Servers();
    const { code, stdout } = await folder.run(['pipeline', '-a', argumentsFor(server.url), '-n', '-1', '--plain', '-v']);
    expect(code).toBe(0);
    expect(stdout).toContain(`generation asks openbmb/MiniCPM4-8B at ${server.url}/v1`);
    expect(stdout).toMatch(/^ {2}observation +You are a reasoning assistant/m);
    expect(stdout).toMatch(/^ {2}model +\\boxed\{Bram Stoker\}/m);
    const results = folder.results();
    expect(results).toHaveLength(5);
    expect(results.filter(({ reward }) => reward === 1)).toHaveLength(1);
    for (const line of results)
      expect(line).toMatchObject({ num_turns: 3, model: 'openbmb/MiniCPM4-8B', error: null, acc: line['reward'], 'rouge-l': expect.any(Number) });
    expect([...folder.files().keys()].filter((name) => name.includes('output/') || name.includes('tokens'))).toEqual([]);
  });

  it('goes on with -R after a kill, and asks no finished question again', async () => {
    using folder = new EvalFolder();
    let isHolding = true;
    await using server = await searchO1Servers({
      hold: async (prompt) => {
        if (isHolding && !prompt.includes('Dracula')) await new Promise(() => {});
      },
    });
    const { asked } = server;
    const command = ['pipeline', '-a', argumentsFor(server.url), '-n', '-1', '--plain'];
    const first = folder.start(command);
    await until(() => folder.results().length === 1);
    first.child.kill('SIGKILL');
    await first.ended;
    isHolding = false;
    const before = asked.length;
    const second = await folder.run([...command, '-R']);
    expect(second.code).toBe(0);
    expect(folder.results()).toHaveLength(5);
    expect(asked.length - before).toBe(4 * 3);
  });

  it('refuses -R where a file of the run has changed, and warns of what a template prints', async () => {
    using folder = new EvalFolder();
    folder.write(
      'p.yaml',
      'servers: {benchmark: , prompt: , evaluation: }\npipeline: [benchmark.get_data, prompt.qa_boxed, {evaluation.evaluate: {input: {pred_ls: prompt_ls}}}]\n',
    );
    folder.write('rows.jsonl', '{"question": "q", "golden": ["q"]}\n');
    folder.write('t.jinja', '{{ question }}');
    // The file of metrics is not written, so it may be anywhere.
    const set = [
      'benchmark.benchmark={path: rows.jsonl, key_map: {q_ls: question, gt_ls: golden}}',
      'prompt.template=t.jinja',
      'evaluation.save_path=p.yaml/x.json',
    ];
    const command = ['pipeline', '-a', JSON.stringify({ file: 'p.yaml', set }), '-n', '1', '-o', 'outputs', '--plain'];
    expect((await folder.run(command)).code).toBe(0);
    const [results] = [...folder.files().keys()].filter((name) => name.endsWith('results.jsonl'));
    folder.write('t.jinja', '{{ question }}{{ hint }}');
    const again = await folder.run([...command, '-R', dirname(results!)]);
    expect(again).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/must have the inputs that it began with, .*: t\.jinja changed\. Restore the files/),
    });
    const { code, stdout, stderr } = await folder.run(command);
    expect(code).toBe(0);
    expect((stdout + stderr).replaceAll(/\s+/g, ' ')).toContain(
      'The template t.jinja prints {{ hint }}, which is empty: its tool gives it question.',
    );
  });

  it('shows no key of its settings', async () => {
    using folder = new EvalFolder();
    const set = [
      'generation.backend_configs.openai={model_name: m, base_url: "http://127.0.0.1:1/v1", retries: 0, access_token: inline-secret-789}',
      'generation.backend_configs.openai.api_key=secret-key-456',
    ];
    folder.file(
      'p.yaml',
      'servers: {benchmark: , generation: , prompt: , evaluation: }\npipeline: [benchmark.get_data, generation.generation_init, prompt.qa_boxed, generation.generate, {evaluation.evaluate: {input: {pred_ls: ans_ls}}}]\n',
    );
    folder.file('t.jinja', '{{question}}');
    folder.file('rows.jsonl', '{"question": "q", "golden_answers": ["a"]}\n');
    const own = ['benchmark.benchmark={path: rows.jsonl, key_map: {q_ls: question, gt_ls: golden_answers}}', 'prompt.template=t.jinja'];
    const { code, stdout, stderr } = await folder.run(['pipeline', '-a', JSON.stringify({ file: 'p.yaml', set: [...set, ...own] }), '--plain', '-v']);
    expect(code).toBe(1);
    expect(stderr).toContain('The question failed in generation.generate');
    for (const text of [stdout, stderr, ...folder.files().values()]) expect(text).not.toMatch(/secret-key-456|inline-secret-789/);
    expect(folder.results()).toMatchObject([{ reward: null, stop_condition: 'has_error' }]);
  });

  it.each([
    ['-p', ['-p', 'baseline']],
    ['-m', ['-m', 'gpt-4.1-mini']],
    ['-T', ['-T', '0.5']],
    ['-t', ['-t', '20']],
    ['-b', ['-b', 'http://127.0.0.1:1/v1']],
    ['-b', ['-b', 'not a URL']],
    ['-k', ['-k', 'NO_SUCH_KEY']],
    ['--header', ['--header', 'a: b']],
    ['--api-client-type', ['--api-client-type', 'chat']],
    ['-S', ['-S', '{"top_k": 5}']],
    ['-p', ['-p', 'nobody']],
  ])('says that %s has no effect, and how the models are chosen', async (flag, given) => {
    using folder = new EvalFolder();
    const { code, stdout, stderr } = await folder.run(['pipeline', '-a', JSON.stringify({ file: SEARCH_O1 }), ...given], { OPENAI_API_KEY: 'k' });
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(
      new RegExp(
        `^vf-eval: ${flag} has no effect: pipeline asks models of its own .*choose the models with -a '\\{"set": \\["generation\\.model_name=NAME", [^\\n]*\\n$`,
      ),
    );
  });

  it.each([
    [['-m', 'served-nowhere'], '-m has'],
    [['-p', 'embedded', '-m', 'no/such/folder'], '-m and -p have'],
  ])('refuses %j before it looks for the model', async (given, flags) => {
    using folder = new EvalFolder();
    const { code, stdout, stderr } = await folder.run(['pipeline', ...given]);
    const them = given.length === 2 ? 'it' : 'them';
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toBe(`vf-eval: ${flags} no effect: pipeline asks no model. Leave ${them} out.\n`);
  });

  it('still says what is wrong with a policy whose environment does not load', async () => {
    using folder = new EvalFolder();
    const { code, stderr } = await folder.run(['pipeline', '-a', '{"file": "none.yaml"}', '-m', 'served-nowhere']);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('The model "served-nowhere" (-m) has no server') });
  });

  it('gives no policy in --json where no model is asked', async () => {
    using folder = new EvalFolder();
    const { stdout } = await folder.run(['pipeline', '--json', '-n', '1']);
    expect(JSON.parse(stdout)).toMatchObject({ policy: null, base_url: null });
  });

  it('needs no policy where VF_MODEL names one without a server, and shows a dry run', async () => {
    using folder = new EvalFolder();
    const { code, stdout } = await folder.run(['pipeline', '--dry-run'], { VF_MODEL: 'nobody-serves-this' });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^environment +pipeline, an agent$/m);
    expect(stdout).toMatch(/^First question \(row 0\)\nuser:\nWho is the mayor of Trafam\?/m);
    const capitals = await folder.run(['capitals', '--dry-run'], { VF_MODEL: 'nobody-serves-this' });
    expect(capitals).toMatchObject({ code: 2, stderr: expect.stringContaining('The model "nobody-serves-this" (VF_MODEL) has no server') });
  });
});

describe('the pipeline', () => {
  it.each([
    [
      'vf-train',
      ['pipeline', '--preset', 'laptop'],
      /cannot be trained\. Train it with -a '\{"file": "examples\/search-loop\.yaml", "train_path": "QUESTIONS\.jsonl"\}': it then asks the policy\./,
    ],
    [
      'vf-train',
      ['pipeline'],
      /^vf-train: pipeline asks models of its own .* cannot be trained\. Train it with -a '\{"file": "examples\/search-loop\.yaml", "train_path": "QUESTIONS\.jsonl"\}': it then asks the policy\./,
    ],
    [
      'vf-train',
      ['pipeline', '-m', 'nano-base'],
      /^vf-train: pipeline asks models of its own .* cannot be trained\. Train it with -a '\{"file": "examples\/search-loop\.yaml", "train_path": "QUESTIONS\.jsonl"\}': it then asks the policy\./,
    ],
    [
      'vf-train',
      ['pipeline', '--dry-run'],
      /^vf-train: pipeline asks models of its own .* cannot be trained\. Train it with -a '\{"file": "examples\/search-loop\.yaml", "train_path": "QUESTIONS\.jsonl"\}': it then asks the policy\./,
    ],
    [
      'vf-train',
      ['pipeline', '--preset', 'laptop', '--dry-run'],
      /cannot be trained\. Train it with -a '\{"file": "examples\/search-loop\.yaml", "train_path": "QUESTIONS\.jsonl"\}': it then asks the policy\./,
    ],
    ['vf-serve', ['environment', 'pipeline'], /so it has no episodes that a caller could play\. Evaluate it with vf-eval/],
    ['vf-serve', ['verifiers', 'pipeline'], /so it has no episodes that a caller could play\. Evaluate it with vf-eval/],
  ])('is refused by %s %j in one line', async (name, args, message) => {
    using folder = new TemporaryFolder();
    const { code, stdout, stderr } = await runInProcess(name, args, { cwd: folder.path, env: {} });
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(message);
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
  });

  it('plays no role of its policy', async () => {
    using folder = new EvalFolder();
    folder.file(
      'environments/own/environment.mjs',
      `import { AgentEnv, Dataset, reward, Rubric } from 'vf-search';
       class Own extends AgentEnv {
         async play() { return { segments: [], state: {}, stop: 'completed' }; }
       }
       export const loadEnvironment = () => new Own({
         id: 'own',
         eval: new Dataset('rows', [{ exampleId: 0, prompt: [{ role: 'user', content: 'q' }] }]),
         rubric: new Rubric({ funcs: [reward(() => 1, { name: 'one' })] }),
         roles: { judge: { about: 'judges', default: 'policy' } },
         asksPolicy: false,
       });`,
    );
    const chosen = await folder.run(['own', '-m', 'served-nowhere']);
    expect(chosen).toMatchObject({
      code: 2,
      stderr: 'vf-eval: -m has no effect: own asks models of its own. Leave it out, and choose the models with --role judge=MODEL@URL.\n',
    });
    const { code, stderr } = await folder.run(['own']);
    expect(code).toBe(2);
    expect(stderr).toBe('vf-eval: The environment asks no policy, so role judge cannot be bound to it. Name a server: --role judge=MODEL@URL.\n');
  });
});
