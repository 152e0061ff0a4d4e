/**
 * What the agents of `npm run prove agents` have in common: questions about a world whose names no model has seen, a search over its passages, and rewards. The agents
 * themselves are as their packages' documentation has them.
 */
import { join } from 'node:path';
import { AgentEnv, Dataset, loadRows, openRetriever, reward, Rubric } from 'vf-search';
import type { AgentRun, QuestionRow, RewardContext, Row } from 'vf-search';
import type { AgentOptions } from 'vf-search/environment-kit';

export const TASK = 'Look things up with find_note before you answer. End with <answer> your answer </answer>, in a few words.';
export const SEARCH = {
  name: 'find_note',
  description: 'Finds notes that contain words of a query.',
  parameters: {
    type: 'object' as const,
    properties: { query: { type: 'string' as const, description: 'What to look for' } },
    required: ['query'],
    additionalProperties: false as const,
  },
};
/** Turns of a rollout: the notes of `vf-init --tools` have as many. */
export const MAX_TURNS = 4;
export const LIMITS = { responseTokens: 300, contextTokens: 4096 };
const PASSAGES = 2;

export interface StrangeAgentRow extends Row {
  readonly question: string;
  readonly info: { readonly answers: readonly string[] };
}

export interface Surroundings extends AgentRun<StrangeAgentRow> {
  /** The passages that fit a query best, as text. */
  readonly search: (query: string) => Promise<string>;
}

type Answer = (surroundings: Surroundings) => Promise<string>;

interface StrangeWorldArgs {
  /** A folder that `writeStrangeWorld` wrote. */
  readonly world: string;
}

export async function openStrangeWorld({ world }: StrangeWorldArgs) {
  const rowsOf = async (name: string) => {
    const { rows } = await loadRows({ dataset: join(world, `${name}.jsonl`) });
    return new Dataset(name, rows.map(rowOf));
  };
  const retriever = await openRetriever({ corpus: join(world, 'corpus.jsonl') });
  return {
    train: await rowsOf('train'),
    held: await rowsOf('heldout'),
    rubric: new Rubric<StrangeAgentRow>({ funcs: [reward(exactMatch), reward(brevity, { weight: 0.1 })] }),
    search: async (query: string, signal: AbortSignal) => {
      const [found = []] = await retriever.search([query], { topk: PASSAGES, signal });
      return found.map(({ contents }, i) => passageText(contents, i)).join('\n') || 'No note contains these words.';
    },
  };
}

export async function strangeAgent(
  id: string,
  args: StrangeWorldArgs,
  answer: Answer,
  options: Partial<AgentOptions<StrangeAgentRow>> = {},
): Promise<AgentEnv<StrangeAgentRow>> {
  const { train, held, rubric, search } = await openStrangeWorld(args);
  return new AgentEnv<StrangeAgentRow>({
    id,
    train,
    eval: held,
    rubric,
    maxTurns: MAX_TURNS,
    limits: LIMITS,
    run: async (run) => ({ answer: await answer({ ...run, search: (query) => search(query, run.signal) }) }),
    ...options,
  });
}

/** As search-r1 shows it. */
function passageText(contents: string, index: number): string {
  const [title, ...text] = contents.split('\n');
  return `Doc ${index + 1}(Title: ${title}) ${text.join(' ')}`;
}

function rowOf({ id, question, golden_answers: answers }: QuestionRow): StrangeAgentRow {
  return { exampleId: id, prompt: [{ role: 'user', content: question }], question, info: { answers } };
}

/** Reads only what the agent answered; in an episode, the last turn. */
function exactMatch({ row, state, segments }: RewardContext<StrangeAgentRow>): number {
  const answered = state['answer'];
  const said = typeof answered === 'string' ? answered : (segments.findLast(({ kind }) => kind === 'model')?.text ?? '');
  const answer = /<answer>(.*?)<\/answer>/s.exec(said)?.[1]?.trim().toLowerCase();
  return row.info.answers.some((golden) => golden.toLowerCase() === answer) ? 1 : 0;
}

/** 1 for up to 20 words over all turns, falling to 0 at 100: a model that knows no answer yet learns to be brief first. */
function brevity({ modelText }: RewardContext<StrangeAgentRow>): number {
  const words = modelText.split(/\s+/).length;
  return Math.min(1, Math.max(0, (100 - words) / 80));
}
