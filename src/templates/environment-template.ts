/** The files that `vf-init` writes: a small environment with a search, ready to evaluate. */
import { isAbsolute } from 'node:path';
import { IS_PUBLISHED } from '../core/is-published.ts';
import type { AgentKind } from './agent-kinds.ts';
import { type AgentTemplate, agentTemplate } from './agent-template.ts';
import { HELD_OUT_ROWS, ROWS } from './template-rows.ts';
import { toolsEnvironment, toolsTest } from './tools-environment-template.ts';

export interface TemplateOptions {
  /** In kebab-case. */
  readonly id: string;
  /** Folder of the environments, as the user typed it. */
  readonly directory: string;
  /** `tools`: a chat environment whose tool the model calls natively. `tags`: one assistant turn, in which the model writes searches between tags. Else an agent. */
  readonly kind: 'tags' | 'tools' | AgentKind;
  /** False inside the package's own repository, where another package.json would hide the name `vf-search` from the environment. */
  readonly withManifest: boolean;
}

/** Contents by file name. */
export function environmentFiles(options: TemplateOptions): Readonly<Record<string, string>> {
  const { kind, id } = options;
  if (kind !== 'tools' && kind !== 'tags') {
    const template = agentTemplate(kind, id);
    return {
      ...template.files,
      'README.md': agentReadme(options, template),
      ...(options.withManifest && { 'package.json': manifest(options, template) }),
    };
  }
  const isTools = kind === 'tools';
  return {
    'environment.ts': isTools ? toolsEnvironment(options.id) : environment(options.id),
    'environment.test.ts': isTools ? toolsTest(options.id) : test(options.id),
    'rows.jsonl': ROWS.map((row, i) => `${JSON.stringify({ id: `${i + 1}`, ...row })}\n`).join(''),
    'README.md': readme(options),
    ...(options.withManifest && { 'package.json': manifest(options) }),
  };
}

function environment(id: string): string {
  const className = `${id
    .split('-')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('')}Env`;
  return `/** ${id}: the model gets a question, can search for the question's note, and must give one of the golden answers. */
import { fileURLToPath } from 'node:url';
import { Dataset, integerArgument, loadRows, metric, MultiTurnEnv, readArguments, reward, Rubric } from 'vf-search';
import type { EnvResponse, EpisodeState, QuestionRow, RewardContext, Row } from 'vf-search';

const ROWS = fileURLToPath(new URL('rows.jsonl', import.meta.url));
/** Number of rows at the end that are held out for evaluation; training never sees them. */
const HELD_OUT = ${HELD_OUT_ROWS};
const TASK =
  'Answer the question. You may search with <search> words </search>; the results follow between <information> and </information>. ' +
  'End with <answer> your answer </answer>. Question: ';

interface NoteRow extends Row {
  readonly info: { readonly answers: readonly string[]; readonly note: string };
}

interface State extends EpisodeState {
  searches: number;
  readonly note: string;
}

class ${className} extends MultiTurnEnv<NoteRow, State> {
  protected setupState(row: NoteRow): State {
    return { turns: 0, searches: 0, note: row.info.note };
  }

  /** Keeps the text up to the first closing tag: the rest would be the environment's part, which the model must not write. */
  protected override keep(sampled: string): number {
    const end = /<\\/(search|answer)>/.exec(sampled);
    return end === null ? sampled.length : end.index + end[0].length;
  }

  protected envResponse(kept: string, state: State): EnvResponse {
    if (kept.endsWith('</answer>')) return { done: true };
    // A closing tag alone is not a search.
    if (!/<search>[^<]*[^<\\s][^<]*<\\/search>$/.test(kept)) return { observation: '\\nI should search or answer.\\n', kind: 'corrective' };
    state.searches += 1;
    return { observation: \`\\n\\n<information>\${state.note}</information>\\n\\n\` };
  }
}

/** Reads only what the model wrote, because an answer inside a note is not the model's. */
function exactMatch({ row, modelText }: RewardContext<NoteRow>): number {
  const answer = /<answer>(.*?)<\\/answer>/s.exec(modelText)?.[1]?.trim().toLowerCase();
  return row.info.answers.some((golden) => golden.toLowerCase() === answer) ? 1 : 0;
}

/** A small reward for any answer in its tags, so that a model that knows no answer yet learns the format first. */
function answered({ modelText }: RewardContext<NoteRow>): number {
  return /<answer>.*?<\\/answer>/s.test(modelText) ? 1 : 0;
}

function searches({ state }: RewardContext<NoteRow>): number {
  return Number(state['searches']);
}

function toRow(row: QuestionRow): NoteRow {
  const note = \`Doc 1(Title: \${String(row['title'])}) \${String(row['note'])}\`;
  return { exampleId: row.id, prompt: [{ role: 'user', content: TASK + row.question }], info: { answers: row.golden_answers, note } };
}

/** \`vf-eval ${id} -a '{"limit": 3}'\` calls this with \`{ limit: 3 }\`. */
export async function loadEnvironment(args: { readonly limit?: number } = {}): Promise<${className}> {
  const { limit } = readArguments('${id}', { limit: integerArgument(1) }, args);
  const { rows } = await loadRows({ dataset: ROWS });
  const split = (name: string, part: readonly QuestionRow[]) => new Dataset(name, part.slice(0, limit).map(toRow));
  return new ${className}({
    id: '${id}',
    train: split('${id}-train', rows.slice(0, -HELD_OUT)),
    eval: split('${id}', rows.slice(-HELD_OUT)),
    rubric: new Rubric({ funcs: [reward(exactMatch), reward(answered, { weight: 0.1 }), metric(searches)] }),
    turnFormat: 'continuation', // one assistant turn, with the notes as plain text inside it
    stop: ['</search>', '</answer>'],
    maxTurns: 3,
    limits: { responseTokens: 500 },
  });
}
`;
}

function test(id: string): string {
  return `import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from 'vf-search';
import { loadEnvironment } from './environment.ts';

test('${id} shows a note after a search and ends at an answer', async () => {
  const environment = await loadEnvironment();
  const { signal } = new AbortController();
  const turn = { finish: 'stop', stopReason: null, toolCalls: [], signal } as const;
  for (const row of [...environment.train, ...environment.eval]) {
    const episode = await environment.start(row, { random: Random.fromSeed(0), signal });
    const search = '<search> a note </search> and more';
    const kept = search.slice(0, episode.keep(search));
    assert.equal(kept, '<search> a note </search>');
    const bare = await episode.step('</search>', turn);
    assert.equal(bare.observation?.kind, 'corrective');
    const searched = await episode.step(kept, turn);
    assert.match(searched.observation !== null && 'text' in searched.observation ? searched.observation.text : '', /^\\n\\n<information>Doc 1\\(Title: .*<\\/information>\\n\\n$/s);
    const answer = \`<answer> \${row.info.answers[0]} </answer>\`;
    assert.deepEqual(await episode.step(answer, turn), { observation: null, stop: 'completed' });
    const score = await environment.rubric.score({
      ...{ row, signal, prompt: episode.prompt, state: episode.state, stop: 'completed', parser: environment.rubric.parser, models: {} },
      ...{ segments: [], scoredText: answer, modelText: answer },
    });
    assert.deepEqual(score, { reward: 1.1, metrics: { exactMatch: 1, answered: 1, searches: 1 } });
    await episode[Symbol.asyncDispose]();
  }
  await environment.close();
});
`;
}

function manifest({ id }: TemplateOptions, { dependencies = {} }: Partial<AgentTemplate> = {}): string {
  const text = {
    name: id,
    version: '0.1.0',
    private: true,
    type: 'module',
    scripts: { test: 'tsx --test environment.test.ts' },
    // npm installs what it names, from whoever owns the name.
    ...(IS_PUBLISHED ? { peerDependencies: { 'vf-search': '>=0.1.0' } } : {}),
    ...(Object.keys(dependencies).length === 0 ? {} : { dependencies }),
    verifiers: { id, entry: 'environment.ts', eval: { numExamples: HELD_OUT_ROWS, rolloutsPerExample: 1 } },
  };
  return `${JSON.stringify(text, null, 2)}\n`;
}

function readme(options: TemplateOptions): string {
  const { id, directory, kind, withManifest } = options;
  const isTools = kind === 'tools';
  const metrics = isTools
    ? `| \`exactMatch\` | 1 if the answer of the last turn is a golden answer, ignoring case |
| \`brevity\` | 1 for up to 20 words, falling to 0 at 100 words; weight 0.1 |
| \`total_tool_calls\`, \`find_note_calls\` | tool calls per rollout; weight 0 |
| \`bad_tool_calls\` | calls that could not be parsed, or whose arguments do not fit the tool's schema; weight 0 |
| \`tool_errors\` | calls whose tool threw an error; weight 0 |`
    : `| \`exactMatch\` | 1 if the model's answer is a golden answer, ignoring case |
| \`answered\` | 1 if the model wrote any answer between its tags; weight 0.1 |
| \`searches\` | searches per rollout; weight 0 |`;
  return `# ${id}

The model gets a question, can ${isTools ? 'look up notes with a native tool call' : "search for the question's note"}, and must give one of the golden answers.

${commandsText(options)}
${isTools ? "\nThe model's chat template describes the tools in the prompt, and its calls are parsed in the template's own format (Hermes and Qwen, Qwen3-Coder, Llama 3). A chat API does both itself.\n" : ''}
| file | contents |
| --- | --- |
| \`environment.ts\` | the environment and \`loadEnvironment(args)\`, which receives \`-a '{...}'\` |
| \`rows.jsonl\` | the questions, one JSON object per line: \`question\`, \`golden_answers\`, \`title\` and \`note\`; the last ${HELD_OUT_ROWS} are held out for evaluation |
| \`environment.test.ts\` | a test that plays an episode step by step: \`npx tsx --test ${directory}/${id}/environment.test.ts\` |
${withManifest ? '| `package.json` | `"verifiers"`: the id, the entry, and the default size of an evaluation |\n' : ''}
| metric | meaning |
| --- | --- |
${metrics}

| argument | meaning |
| --- | --- |
| \`limit\` | maximum number of rows in each split; default: all |
`;
}

/** The commands that play and train it, and what they need. */
function commandsText({ id, directory }: TemplateOptions): string {
  const flag = directory === 'environments' ? '' : ` --env-dir-path ${directory}`;
  const target = directory === 'environments' ? id : `${isAbsolute(directory) ? '' : './'}${directory}/${id}`;
  return `    npx vf-eval ${id}${flag}                          # the built-in baseline: no model
    npx vf-eval ${id}${flag} -p embedded -m nano-copy # a small model in this process (needs vf-search-models)
    npx vf-eval ${id}${flag} -p vllm -m MODEL         # vLLM on this machine, by token ids
    npx vf-train ${target} --preset laptop-copy    # trains the small model, in this process (needs vf-search-models)
    npx vf-train ${target} --preset search-r1-grpo -n ${ROWS.length - HELD_OUT_ROWS} -m MODEL -b http://127.0.0.1:8001/v1

${IS_PUBLISHED ? 'Where `vf-search` is not installed, write `npx -p vf-search` instead of `npx`. ' : 'They need `vf-search` in this folder or one above, or a clone of it: anywhere else npx would fetch a package of that name from somebody else. '}The small model reads no English. It learns to search with the last
words of a question and to answer with what follows them in a note, so it can learn questions that a note answers in their own words. The server of the last command must accept LoRA adapters; \`vf-doctor -b URL\` reports what it lacks.`;
}

function agentReadme(options: TemplateOptions, { name, asks, dependencies, described }: AgentTemplate): string {
  const { id, directory, withManifest } = options;
  const packages = Object.entries(dependencies).map(([each, version]) => `${each}@${version}`);
  const install =
    packages.length === 0
      ? ''
      : `\n    npm install ${withManifest ? `--prefix ${directory}/${id}` : packages.join(' ')}    # the packages of the agent\n`;
  return `# ${id}

The agent is ${name}. It gets a question, can look up notes, and must give one of the golden answers. It asks the policy ${asks}.
${install}
${commandsText(options)}

| file | contents |
| --- | --- |
${described.join('\n')}
| \`environment.test.ts\` | a test of the rows and rewards: \`npx tsx --test ${directory}/${id}/environment.test.ts\` |
${withManifest ? '| `package.json` | the packages of the agent, and `"verifiers"`: the id, the entry, and the default size of an evaluation |\n' : ''}
A rollout is recorded by token ids, one branch for each conversation of the agent. An agent that restates its conversation as it was needs one branch. \`forks\` in the summary counts the others, and \`vf-view\` shows
where and why they began. An error of the agent is a failure without a reward, never a reward of 0.
`;
}
