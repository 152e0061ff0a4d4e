/** The files that `vf-init --agent` writes: an agent as its framework's users write it, and the environment in which the policy is its model. */
import { HELD_OUT_ROWS, ROWS } from './template-rows.ts';
import { aiSdkAgent, langGraphAgent, mastraAgent, openAIAgent } from './framework-agents.ts';
import type { AgentKind } from './agent-kinds.ts';
import { commandFiles } from './command-template.ts';

interface Framework {
  /** The module `agent.ts`. */
  readonly agent: string;
  /** In the words of a sentence. */
  readonly name: string;
  /** The way its requests reach the policy. */
  readonly asks: string;
  /** Packages of the agent, pinned: these versions were tried. */
  readonly dependencies: Readonly<Record<string, string>>;
}

const ZOD = { zod: '4.6.7' };

const FRAMEWORKS: Readonly<Record<Exclude<AgentKind, 'command'>, Framework>> = {
  'ai-sdk': {
    agent: aiSdkAgent,
    name: "a ToolLoopAgent of Vercel's AI SDK",
    asks: 'in the same process, as a model of the AI SDK',
    dependencies: { ai: '7.0.173', ...ZOD },
  },
  'openai-agents': {
    agent: openAIAgent,
    name: "an agent of OpenAI's Agents SDK",
    asks: "over OpenAI's Responses API",
    dependencies: { '@openai/agents': '0.20.0', ...ZOD },
  },
  langgraph: {
    agent: langGraphAgent,
    name: 'a ReAct agent of LangGraph.js',
    asks: "over OpenAI's Chat Completions API",
    dependencies: { '@langchain/core': '1.4.0', '@langchain/langgraph': '1.7.3', '@langchain/openai': '1.6.0', ...ZOD },
  },
  mastra: {
    agent: mastraAgent,
    name: 'an agent of Mastra',
    asks: "over OpenAI's Chat Completions API",
    dependencies: { '@mastra/core': '1.71.0', ...ZOD },
  },
};

export interface AgentTemplate {
  /** Contents by file name, without package.json and README.md. */
  readonly files: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  /** A sentence's worth of what the agent is, and of how it asks. */
  readonly name: string;
  readonly asks: string;
  /** Rows of the table of files in the README. */
  readonly described: readonly string[];
}

export function agentTemplate(kind: AgentKind, id: string): AgentTemplate {
  if (kind === 'command') return commandFiles(id);
  const { agent, ...about } = FRAMEWORKS[kind];
  return {
    ...about,
    files: {
      'environment.ts': environment(id),
      'agent.ts': agent,
      'notes.ts': NOTES,
      'environment.test.ts': test(id),
      'rows.jsonl': ROWS.map((row, i) => `${JSON.stringify({ id: `${i + 1}`, ...row })}\n`).join(''),
    },
    described: [
      '| `agent.ts` | the agent. Put yours here: nothing in it is special, but that its model is given to it |',
      '| `environment.ts` | the rows, the rewards, and the call of the agent |',
      '| `notes.ts` | what its tool finds |',
      `| \`rows.jsonl\` | the questions, one JSON object per line: \`question\`, \`golden_answers\`, \`title\` and \`note\`; the last ${HELD_OUT_ROWS} are held out for evaluation |`,
    ],
  };
}

function environment(id: string): string {
  return `/** ${id}: the agent of agent.ts gets a question, can look up notes, and must give one of the golden answers. */
import { fileURLToPath } from 'node:url';
import { AgentEnv, Dataset, integerArgument, loadRows, readArguments, reward, Rubric } from 'vf-search';
import type { QuestionRow, RewardContext, Row } from 'vf-search';
import { runAgent } from './agent.ts';

const ROWS = fileURLToPath(new URL('rows.jsonl', import.meta.url));
/** Number of rows at the end that are held out for evaluation; training never sees them. */
const HELD_OUT = ${HELD_OUT_ROWS};

interface NoteRow extends Row {
  readonly info: { readonly question: string; readonly answers: readonly string[] };
}

/** Reads the state that \`run\` returns below. */
function exactMatch({ row, state }: RewardContext<NoteRow>): number {
  const answer = /<answer>(.*?)<\\/answer>/s.exec(String(state['answer']))?.[1]?.trim().toLowerCase();
  return row.info.answers.some((golden) => golden.toLowerCase() === answer) ? 1 : 0;
}

/** 1 for up to 20 words over all turns, falling to 0 at 100: a model that knows no answer yet learns to be brief first. */
function brevity({ modelText }: RewardContext<NoteRow>): number {
  const words = modelText.split(/\\s+/).length;
  return Math.min(1, Math.max(0, (100 - words) / 80));
}

function toRow({ id: exampleId, question, golden_answers: answers }: QuestionRow): NoteRow {
  return { exampleId, prompt: [{ role: 'user', content: question }], info: { question, answers } };
}

/** \`vf-eval ${id} -a '{"limit": 3}'\` calls this with \`{ limit: 3 }\`. */
export async function loadEnvironment(args: { readonly limit?: number } = {}): Promise<AgentEnv<NoteRow>> {
  const { limit } = readArguments('${id}', { limit: integerArgument(1) }, args);
  const { rows } = await loadRows({ dataset: ROWS });
  const split = (name: string, part: readonly QuestionRow[]) => new Dataset(name, part.slice(0, limit).map(toRow));
  return new AgentEnv({
    id: '${id}',
    train: split('${id}-train', rows.slice(0, -HELD_OUT)),
    eval: split('${id}', rows.slice(-HELD_OUT)),
    rubric: new Rubric({ funcs: [reward(exactMatch), reward(brevity, { weight: 0.1 })] }),
    maxTurns: 4,
    limits: { responseTokens: 300, contextTokens: 4096 },
    // One rollout. An error that it throws is a failure without a reward, never a reward of 0.
    run: async ({ row, policy, signal }) => ({ answer: await runAgent(row.info.question, policy, signal) }),
  });
}
`;
}

const NOTES = `/** The notes that the agent can look up: those of rows.jsonl. */
import { readFileSync } from 'node:fs';

const lines = readFileSync(new URL('rows.jsonl', import.meta.url), 'utf8').trim().split('\\n');
const notes = lines.map((line, i) => {
  const { title, note } = JSON.parse(line) as { title: string; note: string };
  return \`Doc \${i + 1}(Title: \${title}) \${note}\`;
});

/** The two notes that share the most words of three letters or more with the query, best first. */
export function findNotes(query: string): string {
  const wordsOf = (text: string) => new Set(text.toLowerCase().match(/\\p{L}{3,}/gu));
  const asked = wordsOf(query);
  const score = (note: string) => [...wordsOf(note)].filter((word) => asked.has(word)).length;
  const found = notes.filter((note) => score(note) > 0).toSorted((a, b) => score(b) - score(a));
  return found.slice(0, 2).join('\\n') || 'No note contains these words.';
}
`;

function test(id: string): string {
  return `import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadEnvironment } from './environment.ts';
import { findNotes } from './notes.ts';

test('${id} has a note for every question, and rewards its answer alone', async () => {
  const { train, eval: held, rubric } = await loadEnvironment();
  const { signal } = new AbortController();
  for (const row of [...train, ...held]) {
    const [answer] = row.info.answers;
    assert.match(findNotes(row.info.question), new RegExp(answer!));
    for (const [text, expected] of [[\`<answer> \${answer} </answer>\`, 1], [\`Not \${answer}\`, 0]] as const) {
      const score = await rubric.score({
        ...{ row, signal, prompt: row.prompt, state: { answer: text }, stop: 'completed', parser: rubric.parser, models: {} },
        ...{ segments: [], scoredText: text, modelText: text },
      });
      assert.equal(score.metrics['exactMatch'], expected);
    }
  }
});
`;
}
