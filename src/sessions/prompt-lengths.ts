/** Measures the first prompts of rows before anything is played: the longest, and how many leave the policy no room for a first token. */
import { agentOf } from '../core/agent-env.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import { type Message, withoutImages } from '../core/message.ts';
import { Random } from '../core/random.ts';
import type { RenderOptions } from '../tokenizer/policy-tokenizer.ts';

export interface PromptLengthsOptions {
  readonly environment: Pick<Environment, 'start' | 'turnFormat' | 'limits' | 'play' | 'memberOf'>;
  /** The tokens of a prompt as the model's chat template renders it. */
  readonly render: (messages: readonly Message[], options: RenderOptions) => Promise<{ readonly ids: { readonly length: number } }>;
  /** Tokens of prompt and generation together. */
  readonly windowTokens: number;
  /** No further row is looked at after this time. */
  readonly limitMs: number;
  readonly seed: number;
  readonly signal: AbortSignal;
}

export interface PromptLengths {
  readonly rows: number;
  /** Rows that were looked at, those with the most text first. */
  readonly looked: number;
  /** Tokens of the longest prompt. */
  readonly longest: number;
  /** Rows whose prompt leaves no room. */
  readonly beyond: number;
}

/** The tokens that a template adds to a message, with an ample margin. */
const TEMPLATE_TOKENS = 256;

/** Images are not counted. Rejects if an episode does not start. */
export async function promptLengths(rows: Iterable<Row>, options: PromptLengthsOptions): Promise<PromptLengths> {
  const { environment, render, windowTokens, limitMs, seed, signal } = options;
  const all = [...rows];
  // An agent writes its prompts while it plays. Where agents play all rows, the first start says so.
  const episodes = all.filter((row) => agentOf(environment, row) === null);
  const sorted = (episodes.length === 0 ? all : episodes).map((row) => ({ row, bytes: bytesOf(row.prompt) })).toSorted((a, b) => b.bytes - a.bytes);
  const endMs = performance.now() + limitMs;
  let [looked, longest, beyond] = [0, 0, 0];
  for (const { row } of sorted) {
    if (looked > 0 && performance.now() >= endMs) break;
    looked += 1;
    await using episode = await environment.start(row, { random: Random.fromSeed(seed).fork(String(row.exampleId)), signal });
    const { prompt, tools = [], turnFormat: format = environment.turnFormat, limits = environment.limits } = episode;
    const most = Math.min(limits.contextTokens, windowTokens - 1);
    // A token has at least one byte, so most rows need no tokenizer.
    if (bytesOf([prompt, tools]) + prompt.length * TEMPLATE_TOKENS <= Math.min(longest, most)) continue;
    const { length } = (await render(withoutImages(prompt), { format, tools })).ids;
    longest = Math.max(longest, length);
    if (length > most) beyond += 1;
  }
  return { rows: sorted.length, looked, longest, beyond };
}

/** At least as many as the text has. */
function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}
