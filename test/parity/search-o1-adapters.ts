/** Adapters for Search-o1: its functions, and whole runs of its script through the environment and the real rollout loop. */
import { answerScores, choiceScores } from '../../src/metrics/answer-scores.ts';
import { Random, scriptedModel } from 'vf-search';
import type { GenerateRequest, PolicyLease } from 'vf-search/clients/policy-client';
import type { Model } from 'vf-search/environment-kit';
import { type Played, playEpisode } from 'vf-search/rollouts';
import {
  type AnswerMode,
  extractAnswer,
  extractBoxed,
  type Instruction,
  type ModelName,
  refinementPrompt,
  searchInstruction,
  SearchO1Env,
  taskInstruction,
  type WebPage,
} from 'vf-search/environments/search-o1';
import { ScriptedClient } from '../../src/clients/scripted.ts';
import { codePointTokenizer } from '../../src/clients/text-tokenizer.ts';
import type { Adapter, VectorCase } from './vectors.ts';

interface PromptInput {
  readonly function: string;
  readonly args: readonly unknown[];
  readonly kwargs?: { readonly model_name?: ModelName };
}

interface BingPage {
  readonly name: string;
  readonly url: string;
  readonly siteName: string;
  readonly datePublished: string;
  readonly snippet: string;
}

interface Run {
  readonly dataset: string;
  readonly model: string;
  readonly questions: readonly { readonly question: string; readonly answer: readonly string[] }[];
  /** What the policy writes, by the index of the question: one text per turn. */
  readonly reasoning: Readonly<Record<string, readonly string[]>>;
  readonly pages: Readonly<Record<string, readonly BingPage[]>>;
  readonly texts: Readonly<Record<string, string>>;
}

type Call =
  | { readonly kind: 'reasoning'; readonly question: number; readonly prompt: string; readonly output: string }
  | { readonly kind: 'refinement'; readonly prompt: string; readonly output: string };

/** What one question asked of policy, refiner and search engine, by turn. */
interface Turn {
  readonly reasoning: Call;
  search?: string;
  refinement?: Call;
}

export const searchO1Adapters: Readonly<Record<string, Adapter>> = {
  search_o1_prompts: { actual: prompt },
  search_o1_extract_answer: { actual: ({ output, mode }: { output: string; mode: AnswerMode }) => extractAnswer(output, mode) },
  search_o1_evaluate: { actual: evaluated },
  search_o1_transcripts: { actual: transcript },
};

interface Judged {
  readonly output: string;
  readonly labeled_answer: readonly string[] | string;
  readonly mode: AnswerMode;
}

function evaluated({ output, labeled_answer, mode }: Judged): unknown {
  const answer = extractAnswer(output, mode);
  const scores = typeof labeled_answer === 'string' ? choiceScores(answer, labeled_answer) : answerScores(answer, labeled_answer);
  return { metrics: { is_valid_answer: answer !== '', ...scores }, answer };
}

function prompt({ function: name, args, kwargs = {} }: PromptInput): string {
  const search = /^get_(singleqa|multiqa|math|gpqa|code)_search_o1_instruction$/.exec(name)?.[1];
  if (search !== undefined) return searchInstruction(search as Instruction | 'code', args[0] as number);
  const [first, second, third] = args as string[];
  if (name === 'get_webpage_to_reasonchain_instruction') return refinementPrompt({ reasoning: first!, query: second!, documents: third! });
  const instruction = ({ openqa: 'singleqa', math: 'math', multi_choice: 'gpqa' } as const)[name.replace('get_task_instruction_', '')];
  if (instruction === undefined) throw new Error(`The port has no prompt for ${name}.`);
  return taskInstruction(instruction, first!, kwargs.model_name ?? null);
}

/** Upstream plays the questions in step; here each is played alone, and its calls are put in upstream's order. */
async function transcript(input: Run, { output }: VectorCase): Promise<unknown> {
  const script = new RefinerScript((output as { calls: readonly Call[] }).calls);
  const played: { turns: Turn[]; rollout: unknown }[] = [];
  for (const index of input.questions.keys()) played.push(await playQuestion(input, index, script));
  const steps = Array.from({ length: Math.max(...played.map(({ turns }) => turns.length)) }, (_, t) => played.flatMap(({ turns }) => turns[t] ?? []));
  return {
    calls: steps.flatMap((step) => [...step.map(({ reasoning }) => reasoning), ...step.flatMap(({ refinement }) => refinement ?? [])]),
    // Upstream keeps results by query.
    searches: [...new Set(steps.flatMap((step) => step.flatMap(({ search }) => search ?? [])))],
    rollouts: played.map(({ rollout }) => rollout),
  };
}

/** The refiner's replies by prompt: their order is that of upstream's turns, in which other questions have theirs between. */
class RefinerScript {
  readonly #replies: { readonly prompt: string; readonly output: string }[];

  constructor(calls: readonly Call[]) {
    this.#replies = calls.filter(({ kind }) => kind === 'refinement');
  }

  reply(asked: string): string {
    const at = this.#replies.findIndex((reply) => reply.prompt === asked);
    if (at === -1) throw new Error(`Upstream never asked the refiner: ${asked}`);
    return this.#replies.splice(at, 1)[0]!.output;
  }
}

async function playQuestion(input: Run, index: number, script: RefinerScript): Promise<{ turns: Turn[]; rollout: unknown }> {
  const turns: Turn[] = [];
  const client = new ScriptedClient({
    tokenizer: 'code-points',
    turns: ({ index: turn, ids, messages: [message] }) => {
      const written = input.reasoning[index]![turn]!;
      const asked = message!.content as string;
      const text = codePointTokenizer.decode(ids!);
      turns.push({ reasoning: { kind: 'reasoning', question: index, prompt: chatml(asked) + text.slice(asked.length), output: written } });
      return written;
    },
  });
  const environment = environmentOf(input, index, turns);
  const { signal } = new AbortController();
  const played = await playEpisode({
    environment,
    row: environment.eval.at(0),
    lease: await withoutStops(client, signal),
    capabilities: client.capabilities,
    sampling: { temperature: 1, topP: 1 },
    maxTokens: null,
    random: Random.fromSeed(0),
    models: { models: { refiner: refinerOf(script, turns) }, asked: [] },
    signal,
  });
  if (played.error) throw new Error(played.error.chain);
  return { turns, rollout: await judged(environment, played) };
}

/** The recorded policy wrote on behind a stop string, as some servers do; upstream's own rules then decide. */
async function withoutStops(client: ScriptedClient, signal: AbortSignal): Promise<PolicyLease> {
  const lease = await client.lease(signal);
  if (lease.kind !== 'tokens') throw new Error('The scripted policy must be sampled by tokens.');
  return { ...lease, generate: (request: GenerateRequest<Int32Array>) => lease.generate({ ...request, stop: [] }) };
}

function refinerOf(script: RefinerScript, turns: readonly Turn[]): Model {
  return scriptedModel({
    replies: ([message]) => {
      const asked = chatml(message!.content as string);
      const output = script.reply(asked);
      (turns.at(-1) as Turn).refinement = { kind: 'refinement', prompt: asked, output };
      return output;
    },
  });
}

const MULTI = ['hotpotqa', 'musique', 'bamboogle', '2wiki'];
const TOP_K = 10;

function environmentOf({ dataset, model, questions, pages, texts }: Run, index: number, turns: readonly Turn[]): SearchO1Env {
  const { question, answer } = questions[index]!;
  return new SearchO1Env({
    rows: [{ id: 'case', question, golden_answers: answer }],
    instruction: MULTI.includes(dataset) ? 'multiqa' : 'singleqa',
    modelName: model.toLowerCase().includes('qwq') ? 'qwq' : null,
    scorer: 'upstream',
    search: {
      name: 'bing',
      search: async (query) => {
        (turns.at(-1) as Turn).search = query;
        return (pages[query] ?? []).slice(0, TOP_K).map((page): WebPage => ({
          title: page.name,
          url: page.url,
          siteName: page.siteName,
          date: page.datePublished.split('T')[0]!,
          snippet: page.snippet,
          text: texts[page.url] ?? '',
        }));
      },
      close: async () => {},
    },
  });
}

function chatml(content: string): string {
  return `<|im_start|>user\n${content}<|im_end|>\n<|im_start|>assistant\n`;
}

async function judged(environment: SearchO1Env, { segments, stop, state }: Played): Promise<unknown> {
  const { rubric } = environment;
  const row = environment.eval.at(0);
  const output = segments.map(({ text }) => text).join('');
  const modelText = segments.flatMap(({ kind, text }) => (kind === 'model' ? [text] : [])).join('');
  const context = { row, prompt: row.prompt, segments, scoredText: output, modelText, stop, state };
  const { metrics } = await rubric.score({ ...context, parser: rubric.parser, models: {}, signal: new AbortController().signal });
  const { acc, em, f1, answered } = metrics;
  return { output, answer: extractBoxed(output), metrics: { is_valid_answer: answered === 1, acc, em, f1 } };
}
