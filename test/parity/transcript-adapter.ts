/** Adapter for whole episodes: the real rollout loop plays the environment with a scripted policy and scripted passages. */
import { createHash } from 'node:crypto';
import { type Passage, Random, type Retriever } from 'vf-search';
import type { Episode } from 'vf-search/environment-kit';
import { type Played, playEpisode } from 'vf-search/rollouts';
import {
  computeScoreEm,
  computeScoreEmFormat,
  extractSolution,
  isValidSequence,
  parseAction,
  searchR1Rubric,
  SearchR1Env,
  type SearchR1Row,
  type SearchR1State,
} from 'vf-search/environments/search-r1';
import { ScriptedClient } from '../../src/clients/scripted.ts';
import { codePointTokenizer } from '../../src/clients/text-tokenizer.ts';
import type { Hit } from './text-adapters.ts';
import type { Adapter, VectorCase } from './vectors.ts';

interface Input {
  readonly prompt_style: string;
  readonly prompt_text: string;
  readonly data_source: string;
  readonly golden_answers: readonly string[];
  readonly turns: readonly string[];
  readonly search_results: readonly (readonly Hit[])[];
  readonly max_turns: number;
  readonly topk: number;
  readonly max_response_length?: number;
  readonly max_obs_length?: number;
  readonly max_prompt_length?: number;
  readonly max_start_length?: number;
}

const CONTROL = new Map(['<|im_start|>', '<|im_end|>', '<|endoftext|>'].map((token) => [codePointTokenizer.encodePrompt(token)[0]!, token] as const));

const REWARDS = {
  format_default: {},
  'format_v0.3': { structureFormatScore: 0.2, finalFormatScore: 0.1 },
  'format_v0.3_retrieval': { structureFormatScore: 0.2, finalFormatScore: 0.1, retrievalScore: 0.1 },
};

export const transcriptAdapter: Adapter = {
  actual: async (input: Input, { output }: VectorCase) => {
    const { row, played, steps, contexts } = await play(input);
    if (played.error) throw new Error(played.error.chain);
    const response = played.segments.map((s) => s.text).join('');
    const promptIds = codePointTokenizer.encodePrompt(input.prompt_text);
    const sequence = decode(promptIds.subarray(Math.max(0, promptIds.length - (input.max_start_length ?? Infinity)))) + response;
    const { turns, valid_action, valid_search, answered } = played.state as SearchR1State;
    const { valid, reason } = isValidSequence(sequence);
    const all: Record<string, unknown> = {
      response,
      sequence,
      sequence_sha256: createHash('sha256').update(sequence).digest('hex'),
      steps,
      generations: played.generations.length,
      contexts,
      mask_spans: maskSpans(played, input.max_prompt_length ?? Infinity),
      stats: { turns, still_active: !answered, valid_action, valid_search },
      extracted_answer: extractSolution(sequence),
      format_valid: valid,
      format_reason: reason,
      rewards: { ...rewardsOf(sequence, input), ...(await rubricRewards(row, played, input)) },
    };
    // Some cases do not list all fields.
    return Object.fromEntries(Object.keys(output as object).map((key) => [key, all[key]]));
  },
};

async function play(input: Input): Promise<{ row: SearchR1Row; played: Played; steps: unknown[]; contexts: string[] }> {
  const environment = environmentOf(input);
  const { id, eval: rows, rubric, limits, turnFormat } = environment;
  const row = { ...rows.at(0), prompt: [{ role: 'user' as const, content: userContent(input) ?? input.prompt_text }] };
  const steps: unknown[] = [];
  const contexts: string[] = [];
  const client = new ScriptedClient({
    turns: ({ index, ids }) => {
      contexts.push(decode(ids!));
      return input.turns[index] ?? '';
    },
    template: () => input.prompt_text,
    tokenizer: 'code-points',
  });
  const signal = new AbortController().signal;
  const played = await playEpisode({
    environment: {
      id,
      train: rows,
      eval: rows,
      rubric,
      limits,
      turnFormat,
      start: async (r, options) => recorded(await environment.start(r, options), input.max_turns, steps),
      close: () => environment.close(),
    },
    row,
    lease: await client.lease(signal),
    capabilities: client.capabilities,
    sampling: { temperature: 1, topP: 1 },
    maxTokens: null,
    overlong: 'upstream',
    random: Random.fromSeed(0),
    signal,
  });
  return { row, played, steps, contexts };
}

function environmentOf({ golden_answers, data_source, ...input }: Input): SearchR1Env {
  return new SearchR1Env({
    rows: [{ id: 'case', question: '?', golden_answers, data_source, index: 0, split: 'test' }],
    retriever: scriptedRetriever(input.search_results),
    maxTurns: input.max_turns,
    topk: input.topk,
    limits: {
      responseTokens: input.max_response_length ?? Infinity,
      observationTokens: input.max_obs_length ?? Infinity,
      contextTokens: input.max_prompt_length ?? Infinity,
    },
  });
}

/** Text of prompt and response, including ChatML's control tokens. */
function decode(ids: Iterable<number>): string {
  return Array.from(ids, (id) => CONTROL.get(id) ?? String.fromCodePoint(id)).join('');
}

/** Wraps the episode to record each step as upstream reports it. Has no stop strings, like upstream's sampler, so that the cut is tested. */
function recorded(episode: Episode, maxTurns: number, steps: unknown[]): Episode {
  return {
    ...episode,
    stop: [],
    step: async (kept, context) => {
      const before = { ...(episode.state as SearchR1State) };
      const isFinal = before.turns >= maxTurns;
      const result = await episode.step(kept, context);
      const said = result.observation !== null && 'text' in result.observation ? result.observation.text : null;
      const state = episode.state as SearchR1State;
      steps.push({
        response: kept,
        ...parseAction(kept),
        valid_action: state.valid_action - before.valid_action,
        is_search: state.valid_search - before.valid_search,
        done: Number(result.stop === 'completed'),
        searched: state.searches > before.searches,
        observation: isFinal ? said : (said ?? ''),
      });
      return result;
    },
  };
}

/** [text, mask] of each span, computed from tokens and mask; only the part that is trained on. */
function maskSpans(played: Played, maxTokens: number): [string, number][] {
  const { ids, mask, promptLength } = played.branches[0]!.tokens!;
  const spans: [number[], number][] = [];
  for (let i = promptLength; i < Math.min(ids.length, promptLength + maxTokens); i++) {
    const last = spans.at(-1);
    if (last && last[1] === mask[i]) last[0].push(ids[i]!);
    else spans.push([[ids[i]!], mask[i]!]);
  }
  return spans.map(([span, trainable]) => [codePointTokenizer.decode(Int32Array.from(span)), trainable]);
}

function rewardsOf(sequence: string, { golden_answers }: Input): Record<string, number> {
  const truth = { target: golden_answers };
  const format = Object.entries(REWARDS).map(([name, weights]) => [name, computeScoreEmFormat(sequence, truth, weights)]);
  return { plain_em: computeScoreEm(sequence, truth), ...Object.fromEntries(format) };
}

/**
 * The same rewards from the environment's rubric, which composes the scored sequence itself. If upstream's sequence lacks the assistant anchor (no
 * ChatML) or the prompt is cut, the two texts differ by design, and only upstream's functions are compared.
 */
async function rubricRewards(row: SearchR1Row, played: Played, input: Input): Promise<Record<string, number>> {
  if (userContent(input) === null || input.max_start_length !== undefined) return {};
  const { prompt, segments, stop, state } = played;
  const scoredText = segments.map(({ text }) => text).join('');
  const modelText = segments.flatMap(({ kind, text }) => (kind === 'model' ? [text] : [])).join('');
  const { signal } = new AbortController();
  const rewards: Record<string, number> = {};
  for (const [name, weights] of Object.entries(REWARDS)) {
    const rubric = searchR1Rubric({ weights });
    const { reward, metrics } = await rubric.score({
      row,
      prompt,
      segments,
      scoredText,
      modelText,
      stop,
      state,
      parser: rubric.parser,
      models: {},
      signal,
    });
    rewards[name] = reward;
    rewards['plain_em'] = metrics['em']!;
  }
  return rewards;
}

/** The user message inside a rendered ChatML prompt; null in other styles. */
function userContent({ prompt_text }: Input): string | null {
  const [open, close] = ['<|im_start|>user\n', '<|im_end|>\n<|im_start|>assistant\n'];
  const start = prompt_text.indexOf(open);
  return start === -1 || !prompt_text.endsWith(close) ? null : prompt_text.slice(start + open.length, -close.length);
}

function scriptedRetriever(results: Input['search_results']): Retriever {
  const left = results.map((hits) => hits.map((hit) => hit.document));
  return {
    name: 'script',
    search: async (queries) => queries.map((): readonly Passage[] => left.shift() ?? []),
    close: async () => {},
  };
}
