/**
 * Demonstrations of search for the supervised warm-up, from the train rows of nq-mini: the question as query, a sentence of a returned passage that holds a
 * golden answer, that answer. Each is played through search-r1 itself and kept only if it has a valid format and reward 1, so its text is what the environment
 * shows and accepts. Rows where no returned passage holds the answer are left out, unless the retriever's next passages hold it: further demonstrations of a row read passages in another arrangement.
 */
import { closeSync, openSync, renameSync, writeSync } from 'node:fs';
import { contentText, type Environment, loadEnvironment, type Message, openRetriever, type Row } from 'vf-search';
import { parseAction, SearchR1Env } from 'vf-search/environments/search-r1';
import { type Rollout, runRollouts } from 'vf-search/rollouts';
import { ScriptedClient } from '../../src/clients/scripted.ts';
import type { TextTokenizer } from '../../src/clients/text-tokenizer.ts';
import { ArrangedPassages } from './arranged-passages.ts';
import { type Evidence, findEvidence, shownPassages } from './evidence.ts';

/** One line of the file that vf-train --sft reads: loss on segments of the kind `model` only. */
export interface Transcript {
  readonly prompt: readonly Message[];
  readonly segments: readonly { readonly kind: 'model' | 'environment'; readonly text: string }[];
}

export interface TranscriptCounts {
  readonly rows: number;
  readonly written: number;
  /** No returned passage holds a golden answer. */
  readonly withoutEvidence: number;
  /** The environment gave no reward of 1, no valid format, or cut an observation; by reason. */
  readonly refused: Readonly<Record<string, number>>;
  /** Transcripts with arranged passages. */
  readonly arranged: number;
}

export interface TranscriptOptions {
  /** @default QUOTE */
  readonly wording?: Wording;
  /** Demonstrations of each row with passages in other arrangements (arranged-passages.ts), after those with the passages as the retriever gives them. @default 0 */
  readonly arrangements?: number;
}

const SIGNAL = new AbortController().signal;
const NO_ANSWER = '<think>The passages do not say it.</think>\n<answer>unknown</answer>';

/** The wording of a demonstration: a model learns most easily text that it could have written. */
export interface Wording {
  readonly search: (question: string) => string;
  readonly answer: (evidence: Evidence) => string;
}

/** The wording for a language model: quotes the sentence that holds the answer, then answers. */
export const QUOTE: Wording = {
  search: (question) => `<think>I will search for it.</think>\n<search>${question}</search>`,
  answer: ({ passage, quote, answer }) => `<think>Doc ${passage}: ${quote}</think>\n<answer>${answer}</answer>`,
};

/** Names the passage instead of quoting it: half of the tokens, and fewer places where a sampled token goes astray before the answer. */
export const TITLE: Wording = {
  search: QUOTE.search,
  answer: ({ passage, title, answer }) => `<think>Doc ${passage}: ${title}</think>\n<answer>${answer}</answer>`,
};

/** The wording for the nano model of the fact world, which knows few words. */
export const NANO: Wording = {
  search: (question) => `<think> I need to look this up.</think><search> ${question.replace(/^.* the (?=[a-z ]+ of )/, '')}</search>`,
  answer: ({ quote, answer }) => `<think> ${quote}</think><answer> ${answer}</answer>`,
};

/**
 * Plays every train row of search-r1 with these arguments, in the order of the rows, once as it is and once for each arrangement of its passages. The tokenizer is the
 * policy's, for the limits of length.
 */
export async function makeTranscripts(
  args: Readonly<Record<string, unknown>>,
  tokenizer: TextTokenizer,
  { wording = QUOTE, arrangements = 0 }: TranscriptOptions = {},
): Promise<{ transcripts: Transcript[]; counts: TranscriptCounts }> {
  const environment = await loadEnvironment('search-r1', args, { purpose: 'training' });
  try {
    const rows = [...environment.train];
    assertNoLeak(rows, [...environment.eval]);
    const made = collect(await play(environment, rows, { tokenizer, wording }));
    const further: Transcript[] = [];
    for (let seed = 1; seed <= arrangements; seed++) {
      await using arranged = await arrangedEnvironment(environment, args, { rows, wording, seed });
      further.push(...collect(await play(arranged.environment, rows, { tokenizer, wording })).transcripts);
    }
    return { transcripts: [...made.transcripts, ...further], counts: { ...made.counts, arranged: further.length } };
  } finally {
    await environment.close();
  }
}

interface Playing {
  readonly tokenizer: TextTokenizer;
  readonly wording: Wording;
}

/** The rollouts of the rows, in their order. */
async function play(environment: Environment, rows: readonly Row[], { tokenizer, wording }: Playing): Promise<Rollout[]> {
  const byPrompt = new Map(rows.map((row) => [textOf(row.prompt), row]));
  const turns = ({ index, messages, ids }: { readonly index: number; readonly messages: readonly Message[]; readonly ids: Int32Array | null }) =>
    turnOf(byPrompt.get(textOf(messages))!, index, tokenizer.decode(ids!), wording);
  const client = new ScriptedClient({ turns, tokenizer });
  const options = {
    environment,
    client,
    sampling: { temperature: 1, topP: 1, extra: {} },
    maxTokens: null,
    maxConcurrent: 32,
    timeoutMs: null,
    seed: 0,
  };
  const played = new Map<Row, Rollout>();
  for await (const { row, rollouts } of runRollouts(
    rows.map((each) => ({ row: each, indices: [0] })),
    { ...options, signal: SIGNAL },
  )) {
    played.set(row, rollouts[0]!);
  }
  return rows.map((row) => played.get(row)!);
}

interface Arranging {
  readonly rows: readonly Row[];
  readonly wording: Wording;
  readonly seed: number;
}

/** The same environment over arranged passages. */
async function arrangedEnvironment(
  { limits }: Environment,
  args: Readonly<Record<string, unknown>>,
  { rows, wording, seed }: Arranging,
): Promise<{ readonly environment: Environment } & AsyncDisposable> {
  const { corpus, topk = 3, stop_at_answer: stopAtAnswer = false } = args as { corpus?: string; topk?: number; stop_at_answer?: boolean };
  const golden = new Map(rows.map(factsOf).map((facts) => [queryOf(wording.search(facts.question)), facts.golden]));
  const retriever = new ArrangedPassages({ retriever: await openRetriever(corpus === undefined ? {} : { corpus }), golden, seed });
  const environment = new SearchR1Env({ rows: [], retriever, topk, stopAtAnswer, limits }) as unknown as Environment;
  return { environment, [Symbol.asyncDispose]: async () => await environment.close() };
}

function queryOf(turn: string): string {
  return parseAction(turn).content;
}

/** JSON Lines, complete or not there. */
export function writeTranscripts(path: string, transcripts: readonly Transcript[]): void {
  const file = openSync(`${path}.tmp`, 'w');
  for (const transcript of transcripts) writeSync(file, `${JSON.stringify(transcript)}\n`);
  closeSync(file);
  renameSync(`${path}.tmp`, path);
}

/** The policy's turn `index`, from 0 up, for the text that it sees. */
function turnOf(row: Row, index: number, seen: string, wording: Wording): string {
  const { question, golden } = factsOf(row);
  if (index === 0) return wording.search(question);
  const evidence = findEvidence(question, golden, shownPassages(seen.slice(seen.lastIndexOf('<information>'))));
  return evidence === null ? NO_ANSWER : wording.answer(evidence);
}

function factsOf(row: Row): { readonly question: string; readonly golden: readonly string[] } {
  const { ground_truth } = row.info as { readonly ground_truth: { readonly target: readonly string[] } };
  const text = textOf(row.prompt);
  const question = text.slice(text.lastIndexOf('Question: ') + 'Question: '.length).trim();
  // Queries have no question mark in Natural Questions, and BM25 ignores it.
  return { question: question.replace(/\?$/, '').trim(), golden: ground_truth.target };
}

function collect(rollouts: readonly Rollout[]): { transcripts: Transcript[]; counts: Omit<TranscriptCounts, 'arranged'> } {
  const transcripts: Transcript[] = [];
  const refused: Record<string, number> = {};
  let withoutEvidence = 0;
  for (const rollout of rollouts) {
    const reason = refusal(rollout);
    if (rollout.segments.at(-1)?.text === NO_ANSWER) withoutEvidence += 1;
    else if (reason === null) transcripts.push(transcriptOf(rollout));
    else refused[reason] = (refused[reason] ?? 0) + 1;
  }
  return { transcripts, counts: { rows: rollouts.length, written: transcripts.length, withoutEvidence, refused } };
}

/** The reason why a played demonstration must not be learned; null if there is none. */
function refusal({ error, reward, metrics, cutObservations, isTruncated }: Rollout): string | null {
  if (error !== null) return `error: ${error.message}`;
  if (cutObservations > 0 || isTruncated) return 'cut by a limit of length';
  if (metrics['format_valid'] !== 1) return 'invalid format';
  if (reward !== 1 || metrics['em_model_authored'] !== 1) return 'reward below 1';
  return null;
}

function transcriptOf({ prompt, segments }: Rollout): Transcript {
  return { prompt, segments: segments.map(({ kind, text }) => ({ kind: kind === 'model' ? 'model' : 'environment', text })) };
}

/** No held-out question may be trained on, in any spelling. */
function assertNoLeak(train: readonly Row[], heldOut: readonly Row[]): void {
  const key = (row: Row) => factsOf(row).question.toLowerCase().replaceAll(/\s+/g, ' ');
  const held = new Set(heldOut.map(key));
  const leaked = train.filter((row) => held.has(key(row)));
  if (leaked.length > 0) throw new Error(`${leaked.length} train rows ask a held-out question, for example ${leaked[0]!.exampleId}. Remove them.`);
}

function textOf(messages: readonly Message[]): string {
  return messages.map(({ content }) => contentText(content)).join('\n');
}
